package buckets

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// crowd is the number of concurrent goroutines.
const crowd = 64

// together runs f in n goroutines and waits for them.
func together(n int, f func(worker int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// At a fixed time, exactly as many requests are admitted as the limit has units. Each number of
// remaining units below the limit is returned by exactly one admitted request.
func TestHotKeyAtOneInstant(t *testing.T) {
	const limit, calls = 20_000, 1000
	table := New(Config{Clock: newFakeClock().read})
	l := limiter.Limit{Max: limit, Interval: time.Second}
	var granted [limit]atomic.Int32
	var admitted atomic.Int64
	together(crowd, func(int) {
		for range calls {
			d := ask(table, "hot", l, 1)
			if !d.Limited {
				admitted.Add(1)
				granted[d.Remaining].Add(1)
			} else if d.Remaining != 0 || d.RetryAfter != time.Second || d.ResetAfter != limit*time.Second {
				t.Errorf("a refused request: got %+v; want Remaining 0, RetryAfter 1 s, and the ResetAfter of an exhausted limit", d)
			}
		}
	})
	if n := admitted.Load(); n != limit {
		t.Errorf("%d requests were admitted, want %d", n, limit)
	}
	for i := range granted {
		if n := granted[i].Load(); n != 1 {
			t.Errorf("%d admitted requests got %d remaining units, want 1 such request", n, i)
		}
	}
	checkTable(t, table)
}

// While time advances, a key under constant load admits exactly the units of its limit plus the units
// that recover in that time.
func TestHotKeyWhileTimeMoves(t *testing.T) {
	const limit = 1000
	const step = 7 * time.Microsecond
	clock := newFakeClock()
	table := New(Config{Clock: clock.read})
	l := limiter.Limit{Max: limit, Interval: 100 * time.Microsecond}
	var admitted atomic.Int64
	call := func() bool {
		d := ask(table, "hot", l, 1)
		if !d.Limited {
			admitted.Add(1)
		}
		return !d.Limited
	}
	for call() {
	}
	together(crowd, func(int) {
		for range 1000 {
			clock.advance(step)
			call()
		}
	})
	for call() {
	}
	passed := time.Duration(clock.read() - start)
	if want := limit + int64(passed/l.Interval); admitted.Load() != want {
		t.Errorf("%d requests were admitted in %v, want %d", admitted.Load(), passed, want)
	}
}

// With the real clock, at least the units of the limit are admitted, and at most these units plus the
// units that recover in the elapsed time.
func TestHotKeyInRealTime(t *testing.T) {
	const duration = 700 * time.Millisecond
	table := New(Config{})
	l := limiter.Limit{Max: 100, Interval: 20 * time.Microsecond}
	begin := time.Now()
	var admitted, asked atomic.Int64
	together(crowd, func(int) {
		for time.Since(begin) < duration {
			asked.Add(1)
			if !ask(table, "hot", l, 1).Limited {
				admitted.Add(1)
			}
		}
	})
	passed := time.Since(begin)
	most := l.Max + int64(passed/l.Interval)
	if n := admitted.Load(); n > most || n < l.Max {
		t.Errorf("%d of %d requests were admitted in %v; want at least the limit, and at most %d", n, asked.Load(), passed, most)
	}
}

// Each of many keys admits exactly its limit under concurrent operations on the table.
func TestConcurrentDecisionsOnManyKeys(t *testing.T) {
	const keys, limit, workers = 200, 10, 16
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, Shards: 8})
	l := limiter.Limit{Max: limit, Interval: 24 * time.Hour}
	ctx, stop := context.WithCancel(t.Context())
	var around sync.WaitGroup
	for _, f := range []func(r *rand.Rand){
		func(r *rand.Rand) { table.Scan(r.Uint64()>>r.UintN(64), 100, func([]byte, limiter.Kind) {}) },
		func(r *rand.Rand) { table.Lookup(fmt.Appendf(nil, "key%d", r.IntN(keys))) },
		func(r *rand.Rand) { table.Usage() },
		func(r *rand.Rand) { table.SetMaxMemory(int64(r.IntN(2)) << 30) },
		func(r *rand.Rand) { clock.advance(time.Microsecond) },
		// Short-lived keys make arenas and indexes grow, fill and shrink.
		func(r *rand.Rand) { ask(table, fmt.Sprint(r.Uint32()), limiter.Limit{Max: 1, Interval: 1000}, 1) },
		func(r *rand.Rand) { mustDelete(table, fmt.Appendf(nil, "other%d", r.IntN(100))) },
		func(r *rand.Rand) { ask(table, fmt.Sprint("other", r.IntN(100)), l, 1) },
		func(r *rand.Rand) { sweepAll(table) },
		func(r *rand.Rand) {
			for rec := range table.Records() {
				if rec.Kind != limiter.Throttle {
					t.Errorf("Records yields a record of kind %d, want only Throttle", rec.Kind)
				}
			}
		},
	} {
		around.Go(func() {
			for r := rand.New(rand.NewPCG(8, 9)); ctx.Err() == nil; {
				f(r)
			}
		})
	}
	around.Go(func() { table.RunSweeper(ctx) })
	var admitted [keys]atomic.Int64
	together(workers, func(worker int) {
		for i := range 2 * limit * keys / workers {
			key := (i*7 + worker*31) % keys
			if d := ask(table, fmt.Sprint("key", key), l, 1); d.Err != nil {
				t.Errorf("a charge of key %d: got %+v, want no error", key, d)
			} else if !d.Limited {
				admitted[key].Add(1)
			}
		}
	})
	stop()
	around.Wait()
	for key := range admitted {
		n := admitted[key].Load()
		for !ask(table, fmt.Sprint("key", key), l, 1).Limited {
			n++
		}
		if n != limit {
			t.Errorf("key %d: %d requests were admitted, want %d", key, n, limit)
		}
	}
	checkTable(t, table)
}

// The memory limit holds with any number of goroutines that add keys.
func TestMemoryLimitInACrowd(t *testing.T) {
	const limit = 1 << 20
	table := New(Config{Shards: 32, MaxMemory: limit})
	var refused atomic.Int64
	together(8, func(worker int) {
		for i := range 20_000 {
			if ask(table, fmt.Sprint(worker, "new", i), slow, 1).Err != nil {
				refused.Add(1)
			}
		}
	})
	u := table.Usage()
	if u.Peak > limit || u.Keys+refused.Load() != 8*20_000 {
		t.Errorf("the usage is %+v, and %d keys were refused; want Peak within the limit, and each key stored or refused", u, refused.Load())
	}
	checkTable(t, table)
}
