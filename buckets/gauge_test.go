package buckets

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// A gauge decodes to 8/9 to 9/8 of the encoded time, and is never 0.
func TestGaugeOfTime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	check := func(full uint64) {
		t.Helper()
		g := gaugeOfTime(full)
		if off := g.full() / float64(full); g == 0 || off < 8.0/9-1e-9 || off > 9.0/8+1e-9 {
			t.Errorf("%d ns have gauge %d, which decodes to %v ns; want 8/9 to 9/8 of the time", full, g, g.full())
		}
		if full < math.MaxInt64/2 && gaugeOfTime(2*full) != g+4 {
			t.Errorf("twice %d ns have gauge %d; want 4 more than the gauge of the time itself, which is %d", full, gaugeOfTime(2*full), g)
		}
	}
	check(1)
	check(math.MaxInt64)
	for range 100_000 {
		check(max(1, r.Uint64()>>1>>r.UintN(63)))
	}
}

func TestShareClass(t *testing.T) {
	if c := shareClass(0, 5); c != 0 {
		t.Errorf("class of an unused limit: %d, want 0", c)
	}
	if c := shareClass(1, math.MaxInt64); c != 1 {
		t.Errorf("class of one unit of the largest limit: %d, want 1", c)
	}
	for _, used := range []float64{5, 6, math.MaxInt64} {
		if c := shareClass(used, 5); c != exhausted {
			t.Errorf("class of %v units used of 5: %d, want exhausted", used, c)
		}
	}
	if half, full := shareClass(1, 2), shareClass(1, 1); full-half != 8 {
		t.Errorf("class of half a limit: %d, of a whole limit: %d; want a difference of 8", half, full)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		limit := float64(r.Uint64()>>1>>r.UintN(62) | 1)
		a, b := limit*r.Float64(), limit*r.Float64()
		if a > b {
			a, b = b, a
		}
		if shareClass(a, limit) > shareClass(b, limit) {
			t.Fatalf("%v used of a limit of %v has a higher class than %v used", a, limit, b)
		}
		if a > limit/(1<<29) && a*9/8 < limit && shareClass(a, limit) >= shareClass(a*9/8+a/1e9, limit) {
			t.Fatalf("%v used of a limit of %v does not have a lower class than an eighth more", a, limit)
		}
	}
}

// share returns the share class of the only key of a table.
func share(t *testing.T, table *Table, now uint64) int {
	t.Helper()
	s := &table.shards[0]
	if s.live != 1 {
		t.Fatalf("the table has %d keys, want 1", s.live)
	}
	for at, sl := range s.index {
		if sl != 0 {
			return s.record(at).share(now)
		}
	}
	return 0
}

// For all algorithms, the used share of a key is relative to its limit. Charges and refunds change the
// share. Recovered units change it only for kinds whose share is proportional to the remaining time.
func TestShareOfEachKind(t *testing.T) {
	for kind := limiter.Throttle; kind <= lastCounting; kind++ {
		clock := newFakeClock()
		table := New(Config{Clock: clock.read, Shards: 1})
		const interval = 1 << 36 // nanoseconds; its gauge is exact
		clock.now.Store(start - start%interval)
		l := limiter.Limit{Max: 16, Interval: interval, Amount: 1}
		if kind == limiter.WindowLog {
			l.Amount = 1000
		}
		charge := func(quantity int64) int {
			t.Helper()
			req := limiter.Request{Kind: kind, Key: []byte("k"), Limit: l, Quantity: quantity}
			if d := decideOne(table, req); d.Err != nil {
				t.Fatal(d.Err)
			}
			return share(t, table, clock.read())
		}
		for i, step := range []struct {
			quantity int64
			sixteen  int // used sixteenths of the limit
		}{{1, 1}, {0, 1}, {7, 8}, {-4, 4}, {12, 16}, {1, 16}, {-8, 8}} {
			if got, want := charge(step.quantity), shareClass(float64(step.sixteen), 16); got != want {
				t.Errorf("%v, step %d: share class %d; want %d", kind, i, got, want)
			}
		}
		if byTime(kind) {
			clock.advance(4 * interval)
			if got, want := share(t, table, clock.read()), shareClass(4, 16); got != want {
				t.Errorf("%v, after 4 intervals: share class %d; want %d", kind, got, want)
			}
		}
		// The share is relative to the limit of the last charge or refund.
		l.Max = 32
		before := share(t, table, clock.read())
		if got := charge(0); got != before {
			t.Errorf("%v: a peek changed the share class from %d to %d", kind, before, got)
		}
		used := map[bool]float64{true: 4, false: 8}[byTime(kind)]
		if got, want := charge(8), shareClass(used+8, 32); kind != limiter.TokenBucket && kind != limiter.ScaledBucket && kind != limiter.SlidingWindow && got != want {
			t.Errorf("%v, with another limit: share class %d; want %d", kind, got, want)
		}
	}
}

func decideOne(table *Table, req limiter.Request) limiter.Decision {
	var out [1]limiter.Decision
	table.Decide([]limiter.Request{req}, out[:])
	return out[0]
}

// A log with the maximum number of entries is exhausted, regardless of its limit.
func TestShareOfFullLog(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, Shards: 1})
	l := limiter.Limit{Max: 1_000_000, Interval: time.Hour, Amount: 3}
	for i := range 3 {
		if d := decideOne(table, limiter.Request{Kind: limiter.WindowLog, Key: []byte("k"), Limit: l, Quantity: 1}); d.Limited {
			t.Fatalf("charge %d: got %+v, want admitted", i, d)
		}
	}
	if got := share(t, table, start); got != exhausted {
		t.Errorf("a full log has share class %d, want exhausted", got)
	}
}

// A key with an unknown gauge counts as exhausted until it is charged.
func TestUnknownGauge(t *testing.T) {
	for kind := limiter.Throttle; kind <= lastCounting; kind++ {
		clock := newFakeClock()
		table := New(Config{Clock: clock.read, Shards: 1})
		req := limiter.Request{Kind: kind, Key: []byte("k"), Limit: limiter.Limit{Max: 1000, Interval: time.Hour, Amount: 1}, Quantity: 1}
		decideOne(table, req)
		for rec := range table.Records() {
			rec.Gauge = 0
			if err := table.Put(rec); err != nil {
				t.Fatal(err)
			}
		}
		if got := share(t, table, start); got != exhausted {
			t.Errorf("%v: share class %d with an unknown gauge, want exhausted", kind, got)
		}
		if kind == limiter.WindowLog {
			continue // the log is full and refuses the charge
		}
		decideOne(table, req)
		if got := share(t, table, start); got == exhausted || got == 0 {
			t.Errorf("%v: share class %d after a charge, want neither 0 nor exhausted", kind, got)
		}
	}
}

// Each key of a group gets the gauge of its own limit, whether its record is added, replaced by a larger
// record, or overwritten.
func TestGaugesOfGroup(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, Shards: 1})
	reqs := make([]limiter.Request, 0, 8)
	for kind := limiter.Throttle; kind <= lastCounting; kind++ {
		l := limiter.Limit{Max: 300 << kind, Interval: time.Hour, Amount: 4}
		if kind == limiter.WindowLog {
			l.Amount = 1000
		}
		reqs = append(reqs, limiter.Request{Kind: kind, Key: []byte(fmt.Sprint("k", kind, int(kind))), Limit: l, Quantity: 75, Linked: true})
	}
	reqs[len(reqs)-1].Linked = false
	out := make([]limiter.Decision, len(reqs))
	for round := 1; round <= 4; round++ {
		table.Decide(reqs, out)
		s := &table.shards[0]
		for i := range reqs {
			at, found := s.find(reqs[i].Key, tagOf(table.hash(reqs[i].Key)))
			if !found || out[i].Err != nil || out[i].Limited {
				t.Fatalf("%v: key found: %t, decision: %+v; want true, admitted", reqs[i].Kind, found, out[i])
			}
			want := shareClass(float64(75*round), float64(reqs[i].Limit.Max))
			// A share that is computed from the remaining time may be off by one class.
			if got := s.record(at).share(start); got < want-1 || got > want+1 || got != want && !byTime(reqs[i].Kind) {
				t.Errorf("%v, round %d: share class %d; want %d", reqs[i].Kind, round, got, want)
			}
		}
	}
}

// While gauges are disabled, neither changes nor records have a gauge. This holds for all kinds,
// for single requests and groups, and for new and existing keys.
func TestSetGauges(t *testing.T) {
	table, clock := leading(Config{Shards: 1})
	charge := func(round int) {
		t.Helper()
		reqs, out := make([]limiter.Request, 0, 2*lastCounting), make([]limiter.Decision, 2*lastCounting)
		for kind := limiter.Throttle; kind <= lastCounting; kind++ {
			l := limiter.Limit{Max: 300, Interval: time.Hour, Amount: 1000}
			reqs = append(reqs, limiter.Request{Kind: kind, Key: fmt.Append(nil, "alone", int(kind)), Limit: l, Quantity: 50})
		}
		for _, alone := range reqs {
			alone.Key, alone.Linked = fmt.Append(nil, "group", int(alone.Kind)), true
			reqs = append(reqs, alone)
		}
		reqs[len(reqs)-1].Linked = false
		table.Decide(reqs, out[:len(reqs)])
		for i := range reqs {
			if out[i].Err != nil || out[i].Limited {
				t.Fatalf("round %d, charge of %s: got %+v, want admitted", round, reqs[i].Key, out[i])
			}
		}
	}
	for round, stored := range []bool{false, false, false, true, true, false} {
		if round == 2 {
			clock.advance(1000 * time.Hour) // all keys have expired
		}
		table.SetGauges(stored)
		charge(round)
		_, changes := table.Collect(nil)
		r := readerOf(changes[1:])
		for n := 0; len(r.Rest) > 0; n++ {
			first := r.Rest[0]
			c, err := r.change()
			if err != nil || (first&changeGauged != 0) != stored || (c.rec.Gauge != 0) != stored {
				t.Errorf("round %d: change %d, of key %s, starts with %#x, has gauge %d and error %v; want a gauge only while gauges are stored", round, n, c.rec.Key, first, c.rec.Gauge, err)
			}
		}
		n := 0
		for rec := range table.Records() {
			if n++; (rec.Gauge != 0) != stored {
				t.Errorf("round %d: the record of %s has gauge %d; want a gauge only while gauges are stored", round, rec.Key, rec.Gauge)
			}
		}
		if n != 2*int(lastCounting) {
			t.Errorf("round %d: %d records, want %d", round, n, 2*lastCounting)
		}
	}
}
