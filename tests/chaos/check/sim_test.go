package check

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tests/chaos/history"
)

// sim generates histories of a correct limiter, which has the arithmetic of the server. The clients
// have random latencies. The limiter's clock may stop. The broken function, if set, makes the
// limiter incorrect: it replaces the TAT after each request that was applied.
type sim struct {
	key     history.Key
	clients int
	ops     int           // number of requests of each client
	latency time.Duration // upper bound of the time from a request to its reply
	think   time.Duration // upper bound of the pause before a request
	lost    float64       // share of requests with an unknown outcome; the server decides half of them
	mixed   bool          // adds refunds and DEL; otherwise there are only charges and some peeks
	stops   int           // number of times that the clock stops for 300 ms
	broken  func(op int, tat uint64) uint64
}

// event is a simulated request.
type event struct {
	op      history.Op
	at      int64 // time at which the server decides the request
	applied bool  // if false, the server never decides the request
}

func (s *sim) run(t *testing.T, r *rand.Rand) []history.Op {
	t.Helper()
	l, err := gcra.NewLimit(s.key.MaxBurst, s.key.Count, limiter.Period{N: int64(s.key.Period), Unit: 1})
	if err != nil {
		t.Fatal(err)
	}
	var events []event
	for c := range s.clients {
		events = append(events, s.client(c, r)...)
	}
	slices.SortFunc(events, func(a, b event) int { return int(clamp(a.at-b.at, -1, 1)) })
	logTime := s.clock(events, r)
	tat, ops := uint64(0), make([]history.Op, 0, len(events))
	for i := range events {
		e := &events[i]
		if e.applied {
			tat = e.decide(l, tat, logTime(e.at))
			if s.broken != nil {
				tat = s.broken(i, tat)
			}
		}
		ops = append(ops, e.op)
	}
	slices.SortStableFunc(ops, func(a, b history.Op) int { return int(clamp(a.Call-b.Call, -1, 1)) })
	return ops
}

// client returns the requests of one client, in order.
func (s *sim) client(id int, r *rand.Rand) (events []event) {
	now := int64(0)
	for range s.ops {
		e := event{applied: true}
		e.op = history.Op{Key: &s.key, Client: id, Quantity: 1 + r.Int64N(2)}
		if kind := r.IntN(10); kind == 0 {
			e.op.Quantity = 0
		} else if s.mixed && kind == 1 {
			e.op.Kind = history.Delete
		} else if s.mixed && kind == 2 {
			e.op.Quantity = -1 - r.Int64N(2)
		}
		now += r.Int64N(int64(s.think))
		e.op.Call = now
		now += 1 + r.Int64N(int64(s.latency))
		e.op.Return = now
		e.at = e.op.Call + r.Int64N(e.op.Return-e.op.Call+1)
		if r.Float64() < s.lost {
			e.op.Outcome, e.op.Return, e.applied = history.Unknown, history.Never, r.IntN(2) == 0
			e.at += r.Int64N(3 * int64(s.latency))
		}
		events = append(events, e)
	}
	return events
}

// clock returns the limiter's clock, as a function of real time. The clock stops s.stops times.
func (s *sim) clock(events []event, r *rand.Rand) func(at int64) uint64 {
	const stop = int64(300 * time.Millisecond)
	end := events[len(events)-1].at + 1
	stops := make([]int64, s.stops)
	for i := range stops {
		stops[i] = r.Int64N(end)
	}
	slices.Sort(stops)
	return func(at int64) uint64 {
		late := int64(0)
		for i, begin := range stops {
			length := stop
			if i+1 < len(stops) {
				length = min(length, stops[i+1]-begin)
			}
			late += clamp(at-begin, 0, length)
		}
		return uint64(at-late) + 1<<60
	}
}

// decide sets the reply of the request as the server does, and returns the new TAT.
func (e *event) decide(l limiter.Limit, tat, now uint64) uint64 {
	o := &e.op
	known := o.Outcome != history.Unknown
	if o.Kind == history.Delete {
		if known {
			o.Existed = tat > now
		}
		return 0
	}
	next, d := gcra.Decide(l, tat, now, o.Quantity)
	if known {
		if d.Limited {
			o.Outcome = history.Limited
		}
		o.Remaining = d.Remaining
		o.RetryAfter = limiter.Ceil(d.RetryAfter, time.Second)
		o.ResetAfter = limiter.Ceil(d.ResetAfter, time.Second)
	}
	return next
}

// sims returns different combinations of a limit and a load, by name.
func sims() map[string]sim {
	const ms = time.Millisecond
	return map[string]sim{
		"hot":     {key: history.Key{MaxBurst: 9, Count: 20, Period: time.Second}, clients: 6, ops: 150, latency: 20 * ms, think: 40 * ms},
		"slow":    {key: history.Key{MaxBurst: 4, Count: 1, Period: 3 * time.Second}, clients: 4, ops: 150, latency: 100 * ms, think: 400 * ms},
		"odd":     {key: history.Key{MaxBurst: 2, Count: 7, Period: 2 * time.Second}, clients: 3, ops: 150, latency: 300 * ms, think: 100 * ms},
		"daily":   {key: history.Key{MaxBurst: 300, Count: 1, Period: 24 * time.Hour}, clients: 4, ops: 100, latency: 10 * ms, think: 10 * ms},
		"narrow":  {key: history.Key{MaxBurst: 0, Count: 1, Period: time.Second}, clients: 3, ops: 100, latency: 300 * ms, think: 900 * ms},
		"unknown": {key: history.Key{MaxBurst: 9, Count: 5, Period: time.Second}, clients: 4, ops: 100, latency: 50 * ms, think: 200 * ms, lost: 0.05},
		"stops":   {key: history.Key{MaxBurst: 9, Count: 5, Period: time.Second}, clients: 4, ops: 100, latency: 50 * ms, think: 200 * ms, stops: 4, lost: 0.02},
	}
}
