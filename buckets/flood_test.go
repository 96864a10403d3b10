package buckets

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/limiter"
)

// halfUsed returns request i of a flood of keys of one kind. Each key uses at most half of its
// limit. The periods are 1 second to 30 days.
func halfUsed(kind limiter.Kind, i int) limiter.Request {
	uses := [...]struct{ limit, quantity int64 }{{1000, 1}, {5, 1}, {10, 5}, {1000, 500}}
	periods := [...]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour}
	use, period := uses[i%len(uses)], periods[i/len(uses)%len(periods)]
	l := limiter.Limit{Max: use.limit, Interval: period, Amount: 1}
	switch kind {
	case limiter.Throttle, limiter.LeakyBucket, limiter.ScaledThrottle, limiter.ScaledLeaky:
		l.Interval = period / time.Duration(use.limit)
	case limiter.TokenBucket, limiter.ScaledBucket:
		l.Amount = use.limit
	case limiter.WindowBuckets:
		l.Interval, l.Amount = period/6, 6
	case limiter.WindowLog:
		l.Amount = 8192
	}
	return limiter.Request{Kind: kind, Key: fmt.Appendf(nil, "api:%d", i), Limit: l, Quantity: use.quantity}
}

// A flood of keys that are at most half used, of any algorithm and period, does not evict exhausted
// keys with a short period.
func TestFloodWithOtherLimits(t *testing.T) {
	const exhaustedKeys = 200
	perMinute := limiter.Limit{Max: 5, Interval: 12 * time.Second}
	for kind := limiter.Throttle; kind <= lastCounting; kind += race.Factor {
		clock := newFakeClock()
		table := New(Config{Clock: clock.read, MaxMemory: 512 << 10, Eviction: EvictSmallestDebt, Shards: 64})
		for i := range exhaustedKeys {
			ask(table, fmt.Sprint("login:", i), perMinute, 5)
		}
		stored := 0
		for i := range 40_000 {
			if d := decideOne(table, halfUsed(kind, i)); d.Err == nil {
				stored++
			}
			clock.advance(11 * time.Second / 40_000) // less than the 12 s in which a unit recovers
		}
		for i := range exhaustedKeys {
			if d := ask(table, fmt.Sprint("login:", i), perMinute, 1); !d.Limited {
				t.Errorf("%v: exhausted key %d was evicted: a further charge got %+v", kind, i, d)
			}
		}
		if u := table.Usage(); u.Evicted < 10_000 || stored < 20_000 {
			t.Errorf("%v: %d keys were stored, the usage is %+v: the flood is too small", kind, stored, u)
		}
		checkTable(t, table)
	}
}

// A key with one used unit of a large limit is evicted before an exhausted key with a small limit,
// although the exhausted key expires earlier.
func TestFloodOfFixedWindows(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, MaxMemory: 64 << 10, Eviction: EvictSmallestDebt, Shards: 1})
	ann := limiter.Limit{Max: 5, Interval: time.Minute}
	ask(table, "login:ann", ann, 5)
	day := limiter.Limit{Max: 1000, Interval: 24 * time.Hour, Amount: 1}
	for i := range 20_000 / race.Factor {
		req := limiter.Request{Kind: limiter.FixedWindow, Key: fmt.Appendf(nil, "api:%d", i), Limit: day, Quantity: 1}
		if d := decideOne(table, req); d.Err != nil {
			t.Fatalf("key %d of the flood: got %+v, want no error", i, d)
		}
	}
	if d := ask(table, "login:ann", ann, 1); !d.Limited {
		t.Errorf("the exhausted key was evicted: a further charge got %+v", d)
	}
}

// TestGaugesAreReplicated checks that followers have the gauges of the leader, so that they would
// evict the same keys.
func TestGaugesAreReplicated(t *testing.T) {
	leads, clock := leading(Config{Shards: 4})
	for kind := limiter.Throttle; kind <= lastCounting; kind++ {
		for i := range 20 {
			req := halfUsed(kind, i)
			req.Key = append(req.Key, byte(kind))
			decideOne(leads, req)
			decideOne(leads, req)
		}
	}
	_, changes := leads.Collect(nil)
	follows := New(Config{Clock: clock.read, Replicated: true, Shards: 4})
	if err := follows.Replay(changes, clock.read()); err != nil {
		t.Fatal(err)
	}
	want := map[string]byte{}
	for rec := range leads.Records() {
		want[string(rec.Key)] = rec.Gauge
	}
	got := 0
	for rec := range follows.Records() {
		if got++; rec.Gauge == 0 || rec.Gauge != want[string(rec.Key)] {
			t.Errorf("on the follower, key %q has gauge %d, want the gauge of the leader, which is %d, and not 0", rec.Key, rec.Gauge, want[string(rec.Key)])
		}
	}
	if got != len(want) || got != 20*int(lastCounting) {
		t.Errorf("the follower has %d of %d keys, want all", got, len(want))
	}
}
