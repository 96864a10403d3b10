package leaky

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// An arrival is a request and its decision.
type arrival struct {
	at, departure uint64
	quantity      int64
	limited       bool
}

// inputs are arrival patterns. The field next returns the time from one request to the next.
var inputs = []struct {
	name string
	next func(r *rand.Rand, l limiter.Limit, d limiter.Decision) uint64
}{
	{"all at once", func(*rand.Rand, limiter.Limit, limiter.Decision) uint64 { return 0 }},
	{"even, at twice the rate", func(_ *rand.Rand, l limiter.Limit, _ limiter.Decision) uint64 { return uint64(l.Interval) / 2 }},
	{"even, at half the rate", func(_ *rand.Rand, l limiter.Limit, _ limiter.Decision) uint64 { return uint64(l.Interval) * 2 }},
	{"bursts", func(r *rand.Rand, l limiter.Limit, d limiter.Decision) uint64 {
		if r.UintN(20) > 0 {
			return 0
		}
		return uint64(d.ResetAfter) + r.Uint64N(1+uint64(l.Interval)*5)
	}},
	{"random", func(r *rand.Rand, l limiter.Limit, _ limiter.Decision) uint64 {
		return r.Uint64N(uint64(l.Interval)*2 + 1)
	}},
	{"at each retry after", func(_ *rand.Rand, _ limiter.Limit, d limiter.Decision) uint64 { return uint64(max(d.RetryAfter, 0)) }},
}

// arrivals sends requests to one queue, and returns them with their decisions.
func arrivals(r *rand.Rand, l limiter.Limit, most int64, next func(*rand.Rand, limiter.Limit, limiter.Decision) uint64) []arrival {
	var all []arrival
	s, now := limiter.State{}, t0
	for range 300 {
		quantity := 1 + r.Int64N(most)
		c, d := Decide(&l, s, now, quantity, nil)
		s = limitertest.After(s, c)
		all = append(all, arrival{now, now + uint64(d.Wait), quantity, d.Limited})
		now += next(r, l, d)
	}
	return all
}

// TestDeparturesAreEven checks the departure times for each input. A request must leave on arrival,
// or T * q after the departure of the previous request, whichever is later. q is the quantity of
// the previous request.
func TestDeparturesAreEven(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, in := range inputs {
		queued, refused := 0, 0
		for range 50 {
			l := fold(1+r.Int64N(50), r.Int64N(1e10))
			var last *arrival
			for _, a := range arrivals(r, l, 1+r.Int64N(3)%l.Max, in.next) {
				if a.limited {
					refused++
					continue
				}
				earliest := a.at
				if last != nil {
					earliest = max(a.at, last.departure+uint64(l.Interval)*uint64(last.quantity))
				}
				if a.departure != earliest {
					t.Fatalf("%s, %+v: the request %+v leaves at the wrong time after the previous request %+v", in.name, l, a, last)
				}
				if a.departure > a.at {
					queued++
				}
				last = &a
			}
		}
		if slow := in.name == "even, at half the rate"; !slow && (queued < 500 || refused < 500) {
			t.Errorf("%s: %d requests were queued and %d were refused, want at least 500 of each", in.name, queued, refused)
		}
	}
}

// TestFullQueueRefuses fills a queue. Exactly as many units as its capacity must be admitted, and
// the longest wait must be T * (capacity - 1). After that, one more unit must be admitted for
// each unit that has left.
func TestFullQueueRefuses(t *testing.T) {
	for _, capacity := range []int64{1, 2, 3, 10, 1000} {
		l := fold(capacity-1, 1e6-1)
		s, now := limiter.State{}, t0
		for i := range capacity {
			c, d := Decide(&l, s, now, 1, nil)
			s.Expires = c.Expires
			if d.Limited || int64(d.Wait) != i*1e6 || d.Remaining != capacity-1-i {
				t.Fatalf("capacity %d, request %d while the queue fills: %+v; want a wait of 1 ms for each earlier request", capacity, i, d)
			}
		}
		for range 5 {
			c, d := Decide(&l, s, now, 1, nil)
			if c.Set || !d.Limited || d.Wait != limiter.NoRetry || d.RetryAfter != 1e6 {
				t.Fatalf("capacity %d, full queue: %+v; want a refusal with RetryAfter 1 ms", capacity, d)
			}
			now += uint64(d.RetryAfter)
			if c, d = Decide(&l, s, now, 1, nil); d.Limited || int64(d.Wait) != (capacity-1)*1e6 {
				t.Fatalf("capacity %d, after one unit has left: %+v; want an admitted request with the longest wait", capacity, d)
			}
			s.Expires = c.Expires
		}
	}
}

// TestNeverOverAdmits checks that the units admitted between any two arrivals are at most
// capacity + rate * time, and that departures never exceed the rate.
func TestNeverOverAdmits(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, in := range inputs {
		for range 20 {
			capacity, count, period := 1+r.Int64N(50), limitertest.Within(limitertest.AnyInt(r), 1<<30), 1+r.Int64N(100)
			l, err := NewLimit(capacity, count, limiter.Seconds(period))
			if err != nil {
				t.Fatal(err)
			}
			all := arrivals(r, l, capacity, in.next)
			for i := range all {
				got := int64(0)
				for j := i; j < len(all); j++ {
					if all[j].limited {
						continue
					}
					if !all[i].limited && limitertest.Exceeds(got, all[j].departure-all[i].departure, count, period) {
						t.Fatalf("%s, %+v: %d units departed in %d ns, more than rate * time", in.name, l, got, all[j].departure-all[i].departure)
					}
					got += all[j].quantity
					if limitertest.Exceeds(got-capacity, all[j].at-all[i].at, count, period) {
						t.Fatalf("%s, %+v: %d units were admitted in %d ns, more than capacity + rate * time", in.name, l, got, all[j].at-all[i].at)
					}
				}
			}
		}
	}
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 100_000 {
		l := anyLimit(r)
		now := uint64(limitertest.AnyInt(r)) & math.MaxInt64
		tat := uint64(limitertest.AnyInt(r))
		if r.UintN(2) == 0 {
			tat = now + r.Uint64N(uint64(l.Interval)*uint64(l.Max)+1)
		}
		check(decide.Run(t, l, limiter.State{Expires: tat}, now, limitertest.AnyQuantity(r, l)))
	}
}

func FuzzDecide(f *testing.F) {
	for _, quantity := range []int64{1, 3, 4, 5, 0, -1, math.MinInt64} {
		f.Add(int64(3), int64(1e9-1), uint64(0), []byte(nil), t0, quantity)
		f.Add(int64(3), int64(1e9-1), t0+3e9, []byte(nil), t0, quantity)
		f.Add(int64(3), int64(1e9-1), t0+4e9+1, []byte{}, t0, quantity)
	}
	f.Add(int64(3), int64(1e9-1), t0+3e9, []byte("data"), t0, int64(1))
	f.Add(int64(math.MaxInt64-1), int64(0), uint64(math.MaxUint64), []byte(nil), limitertest.LastTime, int64(math.MaxInt64))
	f.Add(int64(0), int64(math.MaxInt64-1), uint64(math.MaxUint64), []byte(nil), uint64(0), int64(1))
	f.Fuzz(func(t *testing.T, capacity, interval int64, expires uint64, data []byte, now uint64, quantity int64) {
		l := fold(capacity, interval)
		now &= math.MaxInt64
		check(decide.Run(t, l, limiter.State{Expires: expires, Data: data}, now, quantity))
		w := walk{t: t, now: now}
		w.put(expires)
		if len(data) > 0 {
			w.put(0)
		}
		w.step(l, quantity)
	})
}
