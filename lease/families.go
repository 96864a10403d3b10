package lease

import (
	"math"
	"time"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/window"
)

// family is a set of kinds whose leases are charged by the same rules.
type family uint8

const (
	none    family = iota // no leases
	timed                 // the state is a theoretical arrival time: a lease is charged as of its end
	counted               // the state is a count of a window or a bucket: a lease ends with the interval in which it counts
	logged                // the state is a log: the entry of a lease has the time of its end
)

var families = [...]family{
	limiter.Throttle:       timed,
	limiter.ScaledThrottle: timed,
	limiter.SlidingWindow:  counted,
	limiter.FixedWindow:    counted,
	limiter.WindowBuckets:  counted,
	limiter.Calendar:       counted,
	limiter.TokenBucket:    counted,
	limiter.ScaledBucket:   counted,
	limiter.WindowLog:      logged,
	limiter.LeakyBucket:    none,
	limiter.ScaledLeaky:    none,
	limiter.Ban:            none,
}

func familyOf(kind limiter.Kind) family {
	if int(kind) >= len(families) {
		return none
	}
	return families[kind]
}

// wellFormed reports whether a decoded limit has the ranges that the algorithm of the kind requires.
func wellFormed(base limiter.Kind, l *limiter.Limit) bool {
	switch base {
	case limiter.Throttle, limiter.ScaledThrottle:
		return l.Max <= math.MaxInt64/int64(l.Interval)
	case limiter.Calendar:
		return int64(l.Interval) <= l.Amount
	case limiter.TokenBucket, limiter.ScaledBucket, limiter.WindowLog:
		return l.Amount > 0
	}
	return 0 < l.Amount && l.Amount <= window.MaxParts && l.Interval <= window.MaxPeriod/time.Duration(l.Amount)
}

// adapt changes the state as needed before a decision with the limit l, so that the units of outstanding leases stay
// charged although the limit may differ from that of the last decision.
func (st *state) adapt(decide Algorithm, base limiter.Kind, l *limiter.Limit, now uint64) {
	switch {
	case base == limiter.ScaledThrottle: // even without leases: a draw computes with the rate of l
		st.rescale(l, now)
	case len(st.leases) == 0:
	case familyOf(base) == counted:
		st.reshape(decide, base, l, now)
	}
}

// rest returns the units that the lease e may have at most.
func (st *state) rest(decide Algorithm, req *limiter.Request, e *lease, now uint64) uint64 {
	if familyOf(req.Kind) == timed {
		return st.restOfTime(&req.Limit, e.asOf, e.end-now, now)
	}
	_, d := decide(&req.Limit, st.inner, now, 0, nil)
	return uint64(d.Remaining)
}

// charge charges a new lease to the inner state. It may shorten the lease, and returns false, without a change, if the lease
// is then too short.
func (st *state) charge(decide Algorithm, base limiter.Kind, e *lease, now uint64) bool {
	switch familyOf(base) {
	case timed:
		st.chargeTime(base, e)
	case logged:
		st.chargeLog(e, now)
	default:
		return st.chargeCount(decide, base, e, now)
	}
	return true
}

// credit returns n units of the lease at an index of the list.
func (st *state) credit(decide Algorithm, base limiter.Kind, at int, n, now uint64) {
	switch familyOf(base) {
	case timed:
		st.creditTime(base, at, n, now)
	case logged:
		st.creditLog(at, n, now)
	default:
		l := st.leases[at].limit
		st.remove(at, n)
		st.decideInner(decide, &l, now, -toInt(n))
	}
}

// remove subtracts n units from a lease, and removes it from the list if none remain.
func (st *state) remove(at int, n uint64) {
	if failpoint.Is(failpoint.LeaseCreditTwice) {
		return
	}
	if st.leases[at].units -= n; st.leases[at].units == 0 {
		st.leases = append(st.leases[:at], st.leases[at+1:]...)
	}
}

// refund decides a refund, and reports whether the state has changed. The units of outstanding leases stay charged.
func (st *state) refund(decide Algorithm, req *limiter.Request, now uint64) (d limiter.Decision, changed bool) {
	switch familyOf(req.Kind) {
	case counted:
		changed = st.refundCount(decide, req, now)
	case logged:
		changed = st.refundLog(req, now)
	default:
		st.decideInner(decide, &req.Limit, now, req.Quantity)
		if !failpoint.Is(failpoint.LeaseRefundFloor) {
			st.raise(req.Kind, &req.Limit, now)
		}
		changed = true
	}
	_, d = decide(&req.Limit, st.inner, now, 0, nil)
	d.Limited, d.RetryAfter = false, limiter.NoRetry
	return d, changed
}

// reset removes everything from the inner state except the units of outstanding leases.
func (st *state) reset(decide Algorithm, base limiter.Kind, now uint64) {
	switch familyOf(base) {
	case counted:
		st.resetCount(decide, base, now)
	case logged:
		st.resetLog(now)
	default:
		st.inner = limiter.State{}
		st.raise(base, &st.leases[len(st.leases)-1].limit, now)
	}
}

// toInt converts a number of units, at most the largest int64.
func toInt(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
