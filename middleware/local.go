package middleware

import (
	"math"
	"sync"
	"time"
)

// local applies limits in this process, each with the algorithm GCRA. It stores at most max keys.
type local struct {
	share float64 // part of each limit that this process admits
	max   int
	start time.Time

	mu   sync.Mutex
	tats map[string]time.Duration // theoretical arrival times since start, by key; see gcra in the server
}

// evictionSample is the number of keys from which one is evicted.
const evictionSample = 8

func newLocal(share float64, keys int) *local {
	return &local{share: share, max: keys, start: time.Now(), tats: map[string]time.Duration{}}
}

// decide charges all limits of a request, or none.
func (l *local) decide(r *Request) Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Since(l.start)
	d := Decision{State: unlimited, Limits: make([]LimitState, len(r.Limits))}
	tats := make([]time.Duration, len(r.Limits))
	for i := range r.Limits {
		s := &d.Limits[i]
		s.State, tats[i] = l.gcra(&r.Limits[i], r.cost(), now)
		r.Limits[i].describe(s)
		if i == 0 || outranks(&s.State, &d.State) {
			d.State = s.State
		}
	}
	if d.Admitted {
		for i, tat := range tats {
			l.store(r.Limits[i].Key, tat, now)
		}
	}
	return d
}

// outranks reports whether the limit with the state a, and not the one with the state b, decides a request.
func outranks(a, b *State) bool {
	switch {
	case a.Admitted != b.Admitted:
		return b.Admitted
	case a.Admitted && a.Remaining != b.Remaining:
		return a.Remaining < b.Remaining
	case a.Admitted:
		return a.ResetAfter > b.ResetAfter
	case a.RetryAfter < 0 || b.RetryAfter < 0:
		return a.RetryAfter < 0 && b.RetryAfter >= 0
	}
	return a.RetryAfter > b.RetryAfter
}

// gcra decides the share of one limit. It returns the state after the request, and the TAT if the request is charged.
func (l *local) gcra(limit *Limit, cost int64, now time.Duration) (State, time.Duration) {
	burst := max(int64(float64(limit.burst())*l.share), 1)
	interval := clampDuration(float64(limit.Period) / (float64(max(limit.Count, 1)) * l.share))
	tolerance := clampDuration(float64(interval) * float64(burst))
	old := max(l.tats[limit.Key], now)
	charge := clampDuration(float64(interval) * float64(cost))
	tat := max(old+charge, now)
	s := State{Name: limit.name(), Limit: burst, Admitted: tat-now <= tolerance || cost < 0, RetryAfter: -1}
	if !s.Admitted {
		if cost <= burst {
			s.RetryAfter = tat - now - tolerance
		}
		tat = old
	}
	s.ResetAfter = tat - now
	s.Remaining = max(int64((tolerance-s.ResetAfter)/interval), 0)
	return s, tat
}

// clampDuration converts nanoseconds to a Duration of at most about 70 years, so that sums do not overflow. The magnitude
// is at least 1 ns.
func clampDuration(ns float64) time.Duration {
	if ns < 0 {
		return -clampDuration(-ns)
	}
	return time.Duration(min(max(ns, 1), math.MaxInt64/4))
}

// store stores the TAT of a key. A key whose full limit is available is not stored.
func (l *local) store(key string, tat, now time.Duration) {
	if tat <= now {
		delete(l.tats, key)
		return
	}
	if _, known := l.tats[key]; !known && len(l.tats) >= l.max {
		l.evict()
	}
	l.tats[key] = tat
}

// evict removes one of several arbitrary keys: the one whose full limit is available first. Keys at rest are the first to
// be removed.
func (l *local) evict() {
	var victim string
	least, sampled := time.Duration(math.MaxInt64), 0
	for key, tat := range l.tats {
		if tat < least {
			victim, least = key, tat
		}
		if sampled++; sampled == evictionSample {
			break
		}
	}
	delete(l.tats, victim)
}
