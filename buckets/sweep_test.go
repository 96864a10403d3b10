package buckets

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/limiter"
)

// sweepAll sweeps the table once.
func sweepAll(table *Table) (seen, dropped int) {
	w := sweeper{table: table}
	for last := false; !last || w.shard != 0; {
		var n, d int
		n, d, last = w.step()
		seen, dropped = seen+n, dropped+d
	}
	return seen, dropped
}

// One sweep drops all expired records and no others.
func TestSweep(t *testing.T) {
	for _, shards := range []int{1, 8} {
		r := rand.New(rand.NewPCG(uint64(shards), 7))
		clock := newFakeClock()
		table := New(Config{Clock: clock.read, Shards: shards})
		want := map[string]time.Duration{}
		for i := range 10_000 {
			key, ttl := fmt.Sprint(i), time.Duration(1+r.Int64N(1e9))
			ask(table, key, limiter.Limit{Max: 1, Interval: ttl}, 1)
			want[key] = ttl
		}
		for passed := time.Duration(0); passed < 1e9; passed += 1e8 {
			_, dropped := sweepAll(table)
			checkTable(t, table)
			for key, ttl := range want {
				at, tag := table.locate([]byte(key))
				if _, found := at.find([]byte(key), tag); found != (ttl > passed) {
					t.Fatalf("after %v: key with TTL %v found: %t; want true until the TTL has elapsed, and then false", passed, ttl, found)
				}
				if ttl <= passed {
					delete(want, key)
					dropped--
				}
			}
			if dropped != 0 {
				t.Errorf("after %v: the count of dropped records is off by %d", passed, dropped)
			}
			clock.advance(1e8)
		}
		clock.advance(1)
		sweepAll(table)
		if u := table.Usage(); u.Keys != 0 || u.Bytes != 0 || u.Expired != 10_000 {
			t.Errorf("after all keys have expired the usage is %+v; want no keys, no bytes, 10,000 expired keys", u)
		}
	}
}

// A step examines a limited number of slots, regardless of the size of the shard.
func TestSweepStep(t *testing.T) {
	table := filled(50_000, Config{Shards: 2})
	w := sweeper{table: table}
	slots, shard := 0, 0
	for steps := 0; steps < 1000; steps++ {
		seen, dropped, last := w.step()
		if seen > sweepSlots || dropped != 0 {
			t.Fatalf("step %d: %d slots seen, %d keys dropped; want at most sweepSlots, 0", steps, seen, dropped)
		}
		if slots += seen; !last {
			continue
		}
		if want := len(table.shards[shard].index); slots != want {
			t.Fatalf("shard %d: %d of %d slots seen", shard, slots, want)
		}
		slots, shard = 0, 1-shard
	}
}

// The sweeper handles an index that is resized between its steps.
func TestSweepWhileIndexesChange(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, Shards: 2})
	w := sweeper{table: table}
	brief := limiter.Limit{Max: 1, Interval: 10 * time.Second}
	for i := range 300 {
		for j := range 10 * (i % 60) {
			ask(table, fmt.Sprint(i, j), brief, 1)
		}
		if i%60 == 59 {
			mustClear(table)
		}
		for range 3 {
			w.step()
		}
		clock.advance(time.Second)
		checkTable(t, table)
	}
}

// A million keys that expire at the same time are dropped in several slices, and each slice examines
// other slots. BenchmarkSweepExpired measures the time, which depends on the machine.
func TestMillionExpireAtOnce(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read})
	a := newAsker(table, limiter.Limit{Max: 1, Interval: time.Hour})
	for i := range uint64(million / race.Factor) {
		a.ask(i)
	}
	slots := 0
	for i := range table.shards {
		slots += len(table.shards[i].index)
	}
	clock.advance(time.Hour)
	w := sweeper{table: table}
	slices, seen := 0, 0
	for ; table.Usage().Keys > 0; slices++ {
		n, _ := w.sweep(sweepSlice, len(table.shards))
		seen += n
	}
	if slices < 2 || seen < million/race.Factor || seen > slots+len(table.shards)*sweepSlots {
		t.Errorf("%d slices examine %d slots of %d; want at least 2 slices, and few slots examined twice", slices, seen, slots)
	}
	if u := table.Usage(); u.Expired != million/race.Factor || u.Bytes != 0 {
		t.Errorf("the usage is %+v; want all keys expired, and no bytes", u)
	}
}

// Memory shrinks with the number of keys, even if some keys remain.
func TestSweepGivesMemoryBack(t *testing.T) {
	const brief, long = 100_000, 5000
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, Shards: 8})
	for i := range brief {
		ask(table, fmt.Sprint("brief", i), limiter.Limit{Max: 1, Interval: time.Second}, 1)
	}
	for i := range long {
		ask(table, fmt.Sprint("long", i), slow, 1)
	}
	before := table.Usage()
	clock.advance(time.Second)
	sweepAll(table)
	checkTable(t, table)
	after := table.Usage()
	if after.Keys != long || after.Bytes > before.Bytes/8 {
		t.Errorf("the first sweep changed the usage from %+v to %+v; want the long keys, and at most an eighth of the bytes", before, after)
	}
	// The next sweep neither releases memory nor moves records.
	index, arena := &table.shards[0].index[0], &table.shards[0].arena[0]
	sweepAll(table)
	if index != &table.shards[0].index[0] || arena != &table.shards[0].arena[0] || table.Usage().Bytes != after.Bytes {
		t.Errorf("the second sweep moved records or changed the usage: from %+v to %+v", after, table.Usage())
	}
}

// RunSweeper drops expired records soon after their expiry, and not before it: the first slice finds some of them, and the next
// one visits the whole table.
func TestRunSweeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(Config{Shards: 4})
		for i := range 1000 {
			ask(table, fmt.Sprint("brief", i), limiter.Limit{Max: 1, Interval: 5 * time.Second}, 1)
			ask(table, fmt.Sprint("long", i), limiter.Limit{Max: 1, Interval: 20 * time.Second}, 1)
		}
		runFor := func(d time.Duration) limiter.Usage {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			table.RunSweeper(ctx)
			return table.Usage()
		}
		if u := runFor(5*time.Second - 1); u.Keys != 2000 || u.Expired != 0 {
			t.Errorf("before the first keys expire the usage is %+v, want 2000 keys, none expired", u)
		}
		if u := runFor(sweepQuiet + sweepBusy + 1); u.Keys != 1000 || u.Expired != 1000 {
			t.Errorf("after the first keys have expired the usage is %+v, want 1000 keys, 1000 expired", u)
		}
		if u := runFor(15 * time.Second); u.Keys != 0 || u.Bytes != 0 {
			t.Errorf("after all keys have expired the usage is %+v, want no keys and no bytes", u)
		}
	})
}

// The sweeper runs often while many records expire, and rarely otherwise.
func TestRunSweeperPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks []time.Duration
		begin := time.Now()
		inner := NewClock(begin)
		sweeping := false
		table := New(Config{Shards: 1, Clock: func() uint64 {
			if sweeping {
				looks = append(looks, time.Since(begin))
			}
			return inner()
		}})
		// One step examines the whole index of 1024 slots. If it drops 65 records, the sweeper uses the
		// short pause.
		for i := range 9 * 65 {
			ttl := sweepQuiet + time.Duration(i/65)*sweepBusy
			ask(table, fmt.Sprint(i), limiter.Limit{Max: 1, Interval: ttl}, 1)
		}
		sweeping = true
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		table.RunSweeper(ctx)
		want := []time.Duration{100, 110, 120, 130, 140, 150, 160, 170, 180, 190, 290, 390, 490}
		if len(looks) != len(want) {
			t.Fatalf("swept at %v, want %v ms", looks, want)
		}
		for i := range want {
			if looks[i] != want[i]*time.Millisecond {
				t.Errorf("swept at %v, want %v ms", looks, want)
			}
		}
	})
}

// While few records expire, each slice visits a part of the shards, and all shards are visited in turn.
func TestRunSweeperQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards, live = 4 * quietShare, 40 // live keys per shard: an expired one is less than 1/busyShare of the slots
		table := New(Config{Shards: shards, Clock: NewClock(time.Now())})
		filled := make([]int, shards)
		for i, full := 0, 0; full < shards; i++ {
			key, ttl := fmt.Sprint(i), time.Hour
			at := table.shardOf(table.hash([]byte(key)))
			switch filled[at]++; {
			case filled[at] > live+1:
				continue
			case filled[at] == live+1:
				ttl = time.Millisecond
				full++
			}
			ask(table, key, limiter.Limit{Max: 1, Interval: ttl}, 1)
		}
		go table.RunSweeper(t.Context())
		<-time.After(1)
		for slices := range quietShare + 1 {
			want := int64(live*shards + shards - slices*shards/quietShare)
			if got := table.Usage().Keys; got != want {
				t.Fatalf("%d slices leave %d keys, want %d", slices, got, want)
			}
			<-time.After(sweepQuiet)
		}
	})
}
