package buckets

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// flood asks for n new keys, and returns how many were not refused for lack of memory.
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
	if class := debtClass(5, 5); class != 0 {
		t.Errorf("no debt is of class %d", class)
	}
	debts := []uint64{1, 2, 3, 7, 8, 9, 1000, 1 << 40, 1<<63 - 1, 1 << 63, math.MaxUint64}
	for i, debt := range debts {
		class := debtClass(debt, 0)
		if class <= 0 || class >= debtClasses {
			t.Errorf("debt %d is of class %d", debt, class)
		}
		if i > 0 && class <= debtClass(debts[i-1], 0) {
			t.Errorf("debt %d is of class %d, and %d of %d", debt, class, debts[i-1], debtClass(debts[i-1], 0))
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		debt := r.Uint64()>>r.UintN(63) | 1
		if a, b := debtClass(debt, 0), debtClass(debt+debt/8+1, 0); debt < 1<<62 && b <= a {
			t.Fatalf("debts %d and an eighth more are of classes %d and %d", debt, a, b)
		}
	}
}

// Who exhausts a key and floods the table to have it forgotten does not succeed, as long
// as the keys of the flood are less deep in debt; and the flood itself is served.
func TestFloodForgetsNoExhaustedKey(t *testing.T) {
	const limit, exhausted = 2 << 20, 1000
	clock := newFakeClock()
	table := New(Config{Clock: clock.tell, MaxMemory: limit, Eviction: EvictSmallestDebt, Shards: 16})
	l := limiter.Limit{Max: 10, Interval: time.Hour}
	for i := range exhausted {
		ask(table, fmt.Sprint("mine", i), l, 10)
	}
	const junk = 300_000
	for i := range junk {
		if d := ask(table, fmt.Sprint("junk", i), l, 1); d.Err != nil || d.Limited {
			t.Fatalf("key %d of the flood: %+v", i, d)
		}
		clock.advance(time.Microsecond)
	}
	for i := range exhausted {
		if d := ask(table, fmt.Sprint("mine", i), l, 1); !d.Limited {
			t.Errorf("key %d was forgotten: %+v", i, d)
		}
	}
	u := table.Usage()
	if u.Peak > limit || u.Evicted == 0 || u.Keys+u.Evicted != junk+exhausted {
		t.Errorf("after %d keys: %+v", junk+exhausted, u)
	}
	checkTable(t, table)
}

// What an attacker regains by a flood is at most what the keys of the flood were charged:
// here each is driven as deep into debt as the key that is to be forgotten.
func TestFloodCostsWhatItGains(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.tell, MaxMemory: 64 << 10, Eviction: EvictSmallestDebt, Shards: 1})
	l := limiter.Limit{Max: 10, Interval: time.Hour}
	regained, charged := int64(0), int64(0)
	for i := range 20_000 {
		charged += 10 // by a key of the flood
		ask(table, fmt.Sprint("junk", i), l, 10)
		if d := ask(table, "target", l, 10); !d.Limited {
			regained += 10
		}
	}
	if u := table.Usage(); u.Evicted == 0 || regained > charged/8 {
		t.Errorf("%d units charged, %d regained, %+v", charged, regained, u)
	}
}

// Keys that have expired go before any key that has not.
func TestExpiredGoFirst(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.tell, MaxMemory: 100_000, Eviction: EvictSmallestDebt, Shards: 1})
	brief := limiter.Limit{Max: 1, Interval: time.Second}
	n := flood(t, table, "brief", 1000, brief)
	clock.advance(2 * time.Second)
	flood(t, table, "next", 1000, brief)
	if u := table.Usage(); u.Evicted != 0 || n != 1000 || u.Keys > 2000 {
		t.Errorf("%+v", u)
	}
}

// A key that needs much room takes the place of many, unless it is too large for the limit.
func TestLargeKeyEvictsMany(t *testing.T) {
	table := New(Config{Clock: newFakeClock().tell, MaxMemory: 100_000, Eviction: EvictSmallestDebt, Shards: 1})
	flood(t, table, "k", 10_000, limiter.Limit{Max: 2, Interval: time.Hour})
	for _, size := range []int{10_000, 40_000} {
		if d := ask(table, strings.Repeat("x", size), slow, 100); d.Err != nil {
			t.Errorf("a key of %d bytes: %v", size, d.Err)
		}
		checkTable(t, table)
	}
	if d := ask(table, strings.Repeat("y", 200_000), slow, 1); !errors.Is(d.Err, limiter.ErrOutOfMemory) {
		t.Errorf("a key beyond the limit: %+v", d)
	}
	checkTable(t, table)
	if u := table.Usage(); u.Peak > 100_000 {
		t.Errorf("%+v", u)
	}
}

func TestSetEviction(t *testing.T) {
	table := New(Config{Clock: newFakeClock().tell, MaxMemory: 100_000, Shards: 1})
	n := fill(t, table, "a", slow)
	table.SetEviction(EvictSmallestDebt)
	if stored := flood(t, table, "b", 1000, slow); stored != 1000 {
		t.Errorf("%d of 1000 stored", stored)
	}
	table.SetEviction(NoEviction)
	flood(t, table, "c", 1000, slow)
	if d := ask(table, "d", slow, 1); !errors.Is(d.Err, limiter.ErrOutOfMemory) {
		t.Errorf("after eviction was switched off: %+v, %d keys", d, n)
	}
}
