package buckets

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/limiter"
)

// flood sends requests for n new keys, and returns the number of requests that were not refused for
// lack of memory.
func flood(tb testing.TB, table *Table, prefix string, n int, l limiter.Limit) (stored int) {
	tb.Helper()
	for i := range n {
		d := ask(table, fmt.Sprint(prefix, i), l, 1)
		if d.Err == nil {
			stored++
		} else if !errors.Is(d.Err, limiter.ErrOutOfMemory) {
			tb.Fatal(d.Err)
		}
	}
	return stored
}

func TestDebtClass(t *testing.T) {
	if class := debtClass(5, 5, 1); class != 0 {
		t.Errorf("an expired record is in debt class %d, want 0", class)
	}
	debts := []uint64{1, 2, 3, 7, 8, 9, 1000, 1 << 40, 1<<63 - 1, 1 << 63, math.MaxUint64}
	for i, debt := range debts {
		class := debtClass(debt, 0, 1)
		if class <= 0 || class >= debtClasses {
			t.Errorf("debt %d is in class %d; want at least 1, and less than debtClasses", debt, class)
		}
		if i > 0 && class <= debtClass(debts[i-1], 0, 1) {
			t.Errorf("debt %d is in class %d, but the smaller debt %d is in class %d", debt, class, debts[i-1], debtClass(debts[i-1], 0, 1))
		}
		if debtClass(debt, 0, 1_000_000) < 1 {
			t.Errorf("debt %d of a large record is in class 0, the class of expired records", debt)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		debt := r.Uint64()>>r.UintN(63) | 1
		if a, b := debtClass(debt, 0, 1), debtClass(debt+debt/8+1, 0, 1); debt < 1<<62 && b <= a {
			t.Fatalf("debt %d and a debt an eighth greater are in classes %d and %d, want ascending classes", debt, a, b)
		}
		if size := 1 + r.IntN(1000); debtClass(debt, 0, size) != debtClass(max(1, debt/uint64(size)), 0, 1) {
			t.Fatalf("debt %d of a record of %d bytes is not in the class of its debt per byte", debt, size)
		}
	}
}

// A client cannot evict an exhausted key by a flood of keys that have used a smaller share of their
// limit. The requests of the flood are admitted.
func TestFloodForgetsNoExhaustedKey(t *testing.T) {
	const limit, exhausted = 8 << 20 / race.Factor, 1000
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, MaxMemory: limit, Eviction: EvictSmallestDebt, Shards: 16})
	l := limiter.Limit{Max: 10, Interval: time.Hour}
	for i := range exhausted {
		ask(table, fmt.Sprint("mine", i), l, 10)
	}
	const junk = 300_000 / race.Factor
	for i := range junk {
		if d := ask(table, fmt.Sprintf("junk%06d", i), l, 1); d.Err != nil || d.Limited {
			t.Fatalf("key %d of the flood: got %+v, want admitted", i, d)
		}
		clock.advance(time.Microsecond)
	}
	for i := range exhausted {
		if d := ask(table, fmt.Sprint("mine", i), l, 1); !d.Limited {
			t.Errorf("exhausted key %d was evicted: a further charge got %+v", i, d)
		}
	}
	u := table.Usage()
	if u.Peak > limit || u.Evicted == 0 || u.Keys+u.Evicted != junk+exhausted {
		t.Errorf("after %d keys the usage is %+v; want Peak within the limit, evictions, and each key stored or evicted", junk+exhausted, u)
	}
	checkTable(t, table)
}

// TestFloodCostsWhatItGains checks that a client gains little by evicting its own exhausted key.
// The key is "target". The client exhausts new keys until target is evicted, so that a request for
// target is admitted again. All keys have the same limit. The units regained on target must be at
// most an eighth of the units charged to the new keys.
func TestFloodCostsWhatItGains(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, MaxMemory: 64 << 10, Eviction: EvictSmallestDebt, Shards: 1})
	l := limiter.Limit{Max: 10, Interval: time.Hour}
	regained, charged := int64(0), int64(0)
	for i := range 20_000 / race.Factor {
		charged += 10 // to a key of the flood
		ask(table, fmt.Sprint("junk", i), l, 10)
		if d := ask(table, "target", l, 10); !d.Limited {
			regained += 10
		}
	}
	if u := table.Usage(); u.Evicted == 0 || regained > charged/8 {
		t.Errorf("%d units were charged, %d regained, the usage is %+v; want evictions, and at most an eighth regained", charged, regained, u)
	}
}

// Expired keys are dropped before any live key.
func TestExpiredGoFirst(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, MaxMemory: 100_000, Eviction: EvictSmallestDebt, Shards: 1})
	brief := limiter.Limit{Max: 1, Interval: time.Second}
	n := flood(t, table, "brief", 1000, brief)
	clock.advance(2 * time.Second)
	flood(t, table, "next", 1000, brief)
	if u := table.Usage(); u.Evicted != 0 || n != 1000 || u.Keys > 2000 {
		t.Errorf("the usage is %+v; want all keys of the first flood stored, none evicted, and at most 2000 keys", u)
	}
}

// A large key displaces many small keys only if its used share is much greater. Otherwise, or if
// the key is too large for the memory limit, the key is refused and nothing is evicted.
func TestLargeKeys(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, MaxMemory: 100_000, Eviction: EvictSmallestDebt, Shards: 1})
	flood(t, table, "k", 10_000, limiter.Limit{Max: 10_000, Interval: time.Hour})
	before := table.Usage()
	for _, tt := range []struct {
		size     int
		quantity int64
		stored   bool
	}{{300, 2, true}, {30_000, 2, false}, {30_000, 100, false}, {30_000, 1000, true}, {60_000, 100, false}, {200_000, 10_000, false}} {
		l := limiter.Limit{Max: 10_000, Interval: time.Hour}
		d := ask(table, strings.Repeat("x", tt.size), l, tt.quantity)
		checkTable(t, table)
		after := table.Usage()
		if stored := d.Err == nil; stored != tt.stored || !stored && (after.Keys != before.Keys || after.Evicted != before.Evicted) {
			t.Errorf("a key of %d bytes, charged %d: got %+v; the usage changed from %+v to %+v; want the key stored, or refused without evictions", tt.size, tt.quantity, d, before, after)
		}
		before = after
	}
	if before.Peak > 100_000 || before.Evicted == 0 {
		t.Errorf("at the end the usage is %+v; want Peak within the limit, and evictions", before)
	}
}

// A flood of large keys does not evict exhausted keys.
func TestFloodOfLargeKeys(t *testing.T) {
	for _, size := range []int{8000, 30_000, 500_000} {
		table := New(Config{Clock: newFakeClock().read, MaxMemory: 8 << 20 / race.Factor, Eviction: EvictSmallestDebt, Shards: 16})
		l := limiter.Limit{Max: 10, Interval: time.Hour}
		for i := range 1000 {
			ask(table, fmt.Sprint("mine", i), l, 10)
		}
		flood(t, table, "junk", 200_000/race.Factor, l)
		for i := range 500 / race.Factor {
			ask(table, fmt.Sprint(i, strings.Repeat("x", size)), l, 1)
		}
		for i := range 1000 {
			if d := ask(table, fmt.Sprint("mine", i), l, 1); !d.Limited {
				t.Fatalf("after keys of %d bytes, exhausted key %d was evicted: a further charge got %+v", size, i, d)
			}
		}
		checkTable(t, table)
	}
}

// A new key with the lowest rank is refused without any eviction.
func TestSmallestDebtIsRefused(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, MaxMemory: 50_000, Shards: 1})
	fill(t, table, "k", limiter.Limit{Max: 2, Interval: time.Hour})
	table.SetEviction(EvictSmallestDebt)
	before := table.Usage()
	// The new key has the same share as the stored keys and less remaining time, or a smaller share and
	// more remaining time.
	for _, l := range []limiter.Limit{{Max: 2, Interval: time.Hour / 4096}, {Max: 3, Interval: 24 * time.Hour}} {
		if d := ask(table, "k-new", l, 1); !errors.Is(d.Err, limiter.ErrOutOfMemory) {
			t.Errorf("a new key with limit %+v: got %+v, want ErrOutOfMemory", l, d)
		}
	}
	if after := table.Usage(); after.Keys != before.Keys || after.Evicted != before.Evicted {
		t.Errorf("the usage changed from %+v to %+v; want the same number of keys, and no evictions", before, after)
	}
}

// If there is not enough memory to replace a record by a larger one, all records remain unchanged.
func TestPutThatCannotEvict(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, MaxMemory: 4096, Eviction: EvictSmallestDebt, Shards: 1})
	for i := range 40 {
		ask(table, fmt.Sprint("k", i), slow, 1)
	}
	rec := limiter.Record{Kind: 7, Key: []byte("k0"), Expires: start + uint64(time.Hour), State: make([]byte, 5000)}
	if err := table.Put(rec); !errors.Is(err, limiter.ErrOutOfMemory) {
		t.Errorf("Put returns %v, want ErrOutOfMemory", err)
	}
	if e, ok := table.Lookup([]byte("k0")); !ok || e.Kind != limiter.Throttle || table.Usage().Keys != 40 {
		t.Errorf("after the failed Put, Lookup returns %+v, %t, and the table has %d keys; want the old record, true, 40", e, ok, table.Usage().Keys)
	}
	checkTable(t, table)
}

func TestSetEviction(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, MaxMemory: 100_000, Shards: 1})
	n := fill(t, table, "a", slow)
	table.SetEviction(EvictSmallestDebt)
	if stored := flood(t, table, "b", 1000, slow); stored != 1000 {
		t.Errorf("with eviction, %d of 1000 new keys were stored, want all", stored)
	}
	table.SetEviction(NoEviction)
	flood(t, table, "c", 1000, slow)
	if d := ask(table, "d", slow, 1); !errors.Is(d.Err, limiter.ErrOutOfMemory) {
		t.Errorf("after eviction was switched off, a new key got %+v, want ErrOutOfMemory; %d keys were stored at first", d, n)
	}
}
