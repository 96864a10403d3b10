package buckets

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/limiter"
)

// fill sends requests for numbered keys until one is refused for lack of memory, and returns the
// number of keys stored.
func fill(tb testing.TB, table *Table, prefix string, l limiter.Limit) int {
	tb.Helper()
	for n := range 10_000_000 {
		d := ask(table, fmt.Sprint(prefix, n), l, 1)
		switch {
		case errors.Is(d.Err, limiter.ErrOutOfMemory):
			return n
		case d.Err != nil || d.Limited:
			tb.Fatalf("new key %d: got %+v, want admitted or ErrOutOfMemory", n, d)
		}
	}
	tb.Fatal("no key was refused for lack of memory")
	return 0
}

// A reservation that does not increase the used memory always succeeds. A reservation that would
// exceed the limit fails.
func TestBudget(t *testing.T) {
	var b budget
	steps := []struct {
		limit, n   int64
		ok         bool
		used, peak int64
	}{
		{0, 1000, true, 1000, 1000},
		{100, 1, false, 1000, 1000},
		{100, 0, true, 1000, 1000},
		{100, -500, true, 500, 1000},
		{600, 101, false, 500, 1000},
		{600, 100, true, 600, 1000},
		{-1, 500, true, 1100, 1100},
	}
	for i, s := range steps {
		b.limit.Store(s.limit)
		ok := b.reserve(s.n)
		if ok != s.ok || b.used.Load() != s.used || b.peak.Load() != s.peak {
			t.Errorf("step %d: reserve returns %t, %d bytes are used, the peak is %d; want %+v", i, ok, b.used.Load(), b.peak.Load(), s)
		}
	}
}

func TestBudgetIsExactUnderContention(t *testing.T) {
	const limit, size = 1000, 7
	var b budget
	b.limit.Store(limit)
	var wg sync.WaitGroup
	granted := make([]int, 8)
	for i := range granted {
		wg.Go(func() {
			for range 1000 {
				// A reservation that can never fit must not make a concurrent reservation fail.
				if b.reserve(limit + 1) {
					t.Error("reserve has granted more than the limit")
				}
				if b.reserve(size) {
					granted[i]++
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range granted {
		sum += n
	}
	if sum != limit/size || b.used.Load() != int64(sum*size) {
		t.Errorf("%d reservations were granted, %d bytes are used; want %d reservations, and the bytes of the granted reservations", sum, b.used.Load(), limit/size)
	}
}

// The counted sizes match the allocations of the runtime.
func TestArenaSize(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 1024, 1025, 3000, 5000, 9000, 20_000, 32_767, 32_768, 32_769, 40_000, 100_000, 1_000_001} {
		size := arenaSize(n)
		if got := cap(append([]byte(nil), make([]byte, size)...)); size < n || got != size {
			t.Errorf("an arena of %d bytes: %d bytes are counted, %d are allocated; want equal numbers", n, size, got)
		}
	}
	for n := 1; n < 1<<20; n *= 2 {
		size := indexSize(n)
		if got := cap(append([]slot(nil), make([]slot, size)...)); got != size {
			t.Errorf("for an index of %d slots the runtime allocates %d slots", size, got)
		}
	}
}

// The heap grows by the amount of memory that the table reports.
func TestUsageEqualsAllocation(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	empty := New(Config{Shards: 64})
	before := heap()
	table := New(Config{Shards: 64})
	a := newAsker(table, slow)
	for i := range uint64(200_000) {
		a.ask(i)
	}
	grown, counted := heap()-before, table.Usage().Bytes
	if difference := grown - counted; difference < -counted/50 || difference > counted/50 {
		t.Errorf("the heap grew by %d bytes, but %d are counted; want a difference of at most 2 percent of the counted bytes", grown, counted)
	}
	runtime.KeepAlive(table)
	runtime.KeepAlive(empty)
}

// After Reserve, adding keys does not allocate. Unused memory is released later.
func TestReserve(t *testing.T) {
	const keys = 20_000
	table := New(Config{Clock: newFakeClock().read, Shards: 8})
	ask(table, "before", slow, 1)
	rec := limiter.Record{Kind: limiter.Throttle, Key: numberedKey(nil, 0)}
	table.Reserve(keys, keys*int64(recordSize(&rec)))
	checkTable(t, table)
	before := table.Usage()
	a := newAsker(table, slow)
	for i := range uint64(keys) {
		a.ask(i)
	}
	checkTable(t, table)
	if after := table.Usage(); after.Bytes != before.Bytes || after.Keys != keys+1 {
		t.Errorf("the reserved keys changed the usage from %+v to %+v; want the same bytes, and all keys", before, after)
	}

	table = New(Config{Clock: newFakeClock().read, Shards: 8, MaxMemory: 1 << 20})
	table.Reserve(1<<30, 1<<40)
	checkTable(t, table)
	if u := table.Usage(); u.Peak > 1<<20 {
		t.Errorf("after Reserve beyond the limit the usage is %+v; want Peak within the limit", u)
	}
	table.Reserve(1000, 100_000)
	ask(table, "one", slow, 1)
	sweepAll(table)
	if u := table.Usage(); u.Keys != 1 || u.Bytes > 2000 {
		t.Errorf("after a sweep with one key the usage is %+v; want at most 2000 bytes", u)
	}
}

// Compaction retains all live records.
func TestCompact(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for n := range 200 {
		table := New(Config{Clock: newFakeClock().read, Shards: 1})
		s := &table.shards[0]
		want := map[string]uint64{}
		for i := range n {
			key := strings.Repeat(fmt.Sprint(i, "-"), 1+r.IntN(20))
			want[key] = start + 1 + r.Uint64N(1<<40)
			if err := table.Put(limiter.Record{Kind: limiter.Kind(1 + i%3), Key: []byte(key), Expires: want[key]}); err != nil {
				t.Fatal(err)
			}
		}
		for key := range want {
			if r.IntN(3) == 0 {
				mustDelete(table, []byte(key))
				delete(want, key)
			}
		}
		size, held := s.liveBytes(), s.bytes()
		s.compact()
		checkTable(t, table)
		if len(s.arena) != size || s.dead != 0 || s.bytes() != held {
			t.Fatalf("after compaction the arena has %d bytes; want the %d live bytes, no dead bytes, and the same allocated memory", len(s.arena), size)
		}
		for key, expires := range want {
			if e, ok := table.Lookup([]byte(key)); !ok || uint64(e.TTL) != expires-start {
				t.Fatalf("after compaction, key %q: Lookup returns %+v, %t; want the same expiry time", key, e, ok)
			}
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	tests := []struct {
		shards int
		limit  int64
	}{{1, 4096}, {1, 100_000}, {16, 100_000}, {16, 3_000_000 / race.Factor}}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d shards, %d bytes", tt.shards, tt.limit), func(t *testing.T) {
			clock := newFakeClock()
			table := New(Config{Clock: clock.read, Shards: tt.shards, MaxMemory: tt.limit})
			l := limiter.Limit{Max: 3, Interval: time.Second}
			n := fill(t, table, "first", l)
			checkTable(t, table)
			if u := table.Usage(); u.Peak > tt.limit || u.Keys != int64(n) {
				t.Errorf("the usage is %+v after %d keys; want Peak within the limit, and all keys", u, n)
			}
			// Existing keys are decided exactly.
			for i := range n {
				key := fmt.Sprint("first", i)
				if d := ask(table, key, l, 2); d.Err != nil || d.Limited || d.Remaining != 0 {
					t.Fatalf("second charge of existing key %s: got %+v, want admitted with no remaining units", key, d)
				}
				if d := ask(table, key, l, 1); d.Err != nil || !d.Limited {
					t.Fatalf("charge of exhausted key %s: got %+v, want limited", key, d)
				}
			}
			// After all keys have expired, the same number of keys fits again.
			clock.advance(3 * time.Second)
			again := fill(t, table, "second", l)
			if again < n*3/4 {
				t.Errorf("%d keys fit at first, but only %d after these keys have expired; want at least three quarters", n, again)
			}
			checkTable(t, table)
			if u := table.Usage(); u.Peak > tt.limit {
				t.Errorf("after the second fill the peak is %d bytes, which exceeds the limit", u.Peak)
			}
		})
	}
}

// Peeks, refunds and requests that exceed their limit need no memory, so they are never refused for
// lack of memory.
func TestNoMemoryNeeded(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, Shards: 1, MaxMemory: 1})
	l := limiter.Limit{Max: 3, Interval: time.Second}
	for _, quantity := range []int64{0, -1, 4} {
		if d := ask(table, "k", l, quantity); d.Err != nil || d.Remaining != 3 {
			t.Errorf("quantity %d: got %+v; want no error, and 3 remaining units", quantity, d)
		}
	}
	if d := ask(table, "k", l, 1); d != (limiter.Decision{Err: limiter.ErrOutOfMemory}) {
		t.Errorf("charge without room for a record: got %+v, want ErrOutOfMemory", d)
	}
}

// A large record that does not fit in the space of dead records must not grow the arena beyond the
// accounted size.
func TestLargeKeyAmongDeadRecords(t *testing.T) {
	for size := 100; size < 6000; size += 50 {
		table := New(Config{Clock: newFakeClock().read, Shards: 1, MaxMemory: 4096})
		n := fill(t, table, "k", slow)
		for i := range n / 3 {
			mustDelete(table, []byte(fmt.Sprint("k", i)))
		}
		d := ask(table, strings.Repeat("x", size), slow, 1)
		checkTable(t, table)
		if u := table.Usage(); u.Peak > 4096 {
			t.Fatalf("a key of %d bytes: got %+v; the usage is %+v; want Peak within the limit", size, d, u)
		}
	}
}

// At the memory limit, the space of deleted keys is reused, even though there is no memory to grow the
// arena by the usual eighth.
func TestDeletedRoomAtTheLimit(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, Shards: 1, MaxMemory: 100_000})
	n := fill(t, table, "first", slow)
	for i := range n / 4 {
		mustDelete(table, fmt.Appendf(nil, "first%d", i))
	}
	if more := fill(t, table, "other", slow); more < n/8 {
		t.Errorf("after the deletion of %d of %d keys, only %d new keys fit; want at least half of the number deleted", n/4, n, more)
	}
	checkTable(t, table)
}

// A full shard limits the rate of its searches for expired records.
func TestReclaimIsNotTriedForEveryKey(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, Shards: 1, MaxMemory: 20_000})
	quick := limiter.Limit{Max: 1, Interval: reclaimQuietTime / 2}
	n := fill(t, table, "quick", quick)
	expired := func() int { return int(table.Usage().Expired) }
	if expired() != 0 {
		t.Fatalf("%d keys were dropped before any key had expired", expired())
	}
	// While the shard was filled, it was searched once, without success. After the advance all keys have
	// expired, but it is too early for the next search.
	clock.advance(reclaimQuietTime - 1)
	if d := ask(table, fmt.Sprint("quick", n), slow, 1); d.Err == nil || expired() != 0 {
		t.Errorf("the shard was searched too early: a new key got %+v, %d expired keys were dropped; want an error, 0", d, expired())
	}
	clock.advance(1)
	if d := ask(table, fmt.Sprint("quick", n), slow, 1); d.Err != nil || expired() != n {
		t.Errorf("the shard was not searched again: a new key got %+v, %d of %d expired keys were dropped; want no error, all", d, expired(), n)
	}
	// The search above has found many records, so the next search may follow sooner.
	n = fill(t, table, "next", limiter.Limit{Max: 1, Interval: reclaimBusyTime / 2})
	clock.advance(reclaimBusyTime)
	if d := ask(table, fmt.Sprint("next", n), slow, 1); d.Err != nil {
		t.Errorf("the shard was not searched again after the shorter pause: a new key got %+v", d)
	}
	checkTable(t, table)
}

// TestReclaim_Spread checks that searches of different full shards for expired records are spread over time, and that each
// shard is searched.
func TestReclaim_Spread(t *testing.T) {
	const shards = 64
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, Shards: shards, MaxMemory: 200_000})
	fill(t, table, "live", slow)
	clock.advance(reclaimQuietTime)
	searched := func() (n int) {
		for i := range table.shards {
			if table.shards[i].reclaimAt > clock.read() {
				n++
			}
		}
		return n
	}
	for i := range 10 * shards {
		ask(table, fmt.Sprint("other", i), slow, 1)
	}
	if n := searched(); n != 1 {
		t.Errorf("a batch of commands at one time has searched %d shards, want 1", n)
	}
	most := 0
	for i := range 20 * shards { // in five times the interval between searches of a shard
		clock.advance(reclaimQuietTime / 4 / shards)
		for j := range 10 {
			ask(table, fmt.Sprint("other", i*10+j), slow, 1)
		}
		most = max(most, searched())
	}
	if most < shards*3/4 {
		t.Errorf("at most %d of %d shards were searched within an interval, want most of them", most, shards)
	}
	checkTable(t, table)
}

const (
	reclaimQuietTime = time.Duration(reclaimQuiet)
	reclaimBusyTime  = time.Duration(reclaimBusy)
)

func TestSetMaxMemory(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, Shards: 4})
	for i := range 10_000 {
		ask(table, fmt.Sprint("a", i), slow, 1)
	}
	before := table.Usage()
	table.SetMaxMemory(before.Bytes / 2)
	refused := fill(t, table, "b", slow)
	after := table.Usage()
	if after.Bytes > before.Bytes || after.Keys != before.Keys+int64(refused) {
		t.Errorf("with a lowered limit, the usage changed from %+v to %+v; want no more bytes, and only the new keys that fill has stored", before, after)
	}
	for i := range 10_000 {
		if d := ask(table, fmt.Sprint("a", i), slow, 1); d.Err != nil || d.Remaining != slow.Max-2 {
			t.Fatalf("existing key %d: got %+v; want no error, and one unit less", i, d)
		}
	}
	table.SetMaxMemory(before.Bytes * 2)
	if more := fill(t, table, "c", slow); more < 5000 {
		t.Errorf("with twice the memory %d more keys fit, want at least 5000", more)
	}
	table.SetMaxMemory(0)
	for i := range 50_000 {
		if d := ask(table, fmt.Sprint("d", i), slow, 1); d.Err != nil {
			t.Fatalf("without a limit: a new key got %+v", d)
		}
	}
	checkTable(t, table)
}

// A flood of new keys stays within the limit, uses most of it, and does not affect the existing
// keys.
func TestFlood(t *testing.T) {
	const limit = 8 << 20 / race.Factor
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, MaxMemory: limit})
	l := limiter.Limit{Max: 10, Interval: time.Hour}
	for i := range 100 {
		ask(table, fmt.Sprint("mine", i), l, 10)
	}
	reqs := make([]limiter.Request, 100)
	out := make([]limiter.Decision, len(reqs))
	keys := make([][]byte, len(reqs))
	admitted := 0
	for n := uint64(0); n < 1_000_000/race.Factor; n += uint64(len(reqs)) {
		for i := range reqs {
			keys[i] = numberedKey(keys[i], n+uint64(i))
			reqs[i] = limiter.Request{Kind: limiter.Throttle, Key: keys[i], Limit: l, Quantity: 1}
		}
		table.Decide(reqs, out)
		for _, d := range out {
			if d.Err == nil {
				admitted++
			}
		}
		clock.advance(time.Millisecond)
	}
	u := table.Usage()
	if u.Peak > limit || u.Keys != int64(admitted+100) {
		t.Errorf("%d new keys were admitted, the usage is %+v; want Peak within the limit, and all admitted keys", admitted, u)
	}
	if perKey := limit / u.Keys; perKey > 64 {
		t.Errorf("a key takes %d bytes of the limit, want at most 64", perKey)
	}
	for i := range 100 {
		if d := ask(table, fmt.Sprint("mine", i), l, 1); !d.Limited {
			t.Errorf("exhausted key %d was evicted: a further charge got %+v", i, d)
		}
	}
	checkTable(t, table)
}

func TestClearReturnsMemory(t *testing.T) {
	table := filled(10_000, Config{Shards: 8})
	before := table.Usage()
	mustClear(table)
	u := table.Usage()
	if u.Bytes != 0 || u.Keys != 0 || u.Peak != before.Peak || u.Misses != before.Misses {
		t.Errorf("Clear changed the usage from %+v to %+v; want no bytes and no keys, and the same Peak and Misses", before, u)
	}
	checkTable(t, table)
	if d := ask(table, "k", slow, 1); d.Err != nil || d.Limited {
		t.Errorf("a new key after Clear: got %+v, want admitted", d)
	}
}
