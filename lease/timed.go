package lease

import (
	"encoding/binary"
	"time"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/internal/muldiv"
	"github.com/throttledhq/throttled/limiter"
)

// rate compares the rate of a request's limit with the rate in a state of ScaledThrottle.
type rate int8

const (
	lower  rate = -1
	same   rate = 0
	higher rate = 1
)

// restOfTime returns the units that a GCRA limit can admit now as a lease that is charged as of asOf.
func (st *state) restOfTime(l *limiter.Limit, asOf, hold, now uint64) uint64 {
	free := now + uint64(l.Interval)*uint64(l.Max)
	if failpoint.Is(failpoint.LeaseReducedBurst) {
		free -= hold
	}
	if used := max(st.inner.Expires, asOf); used < free {
		return (free - used) / uint64(l.Interval)
	}
	return 0
}

// chargeTime charges a new lease to the theoretical arrival time.
func (st *state) chargeTime(base limiter.Kind, e *lease) {
	st.setTime(base, e.limit.Interval, max(st.inner.Expires, e.asOf)+e.charged(), 0)
}

// creditTime returns n units of the lease at an index of the list. The theoretical arrival time falls by their charge, but
// not below the floor of the leases that are charged as of a later time: their draws have found the key in use until then.
func (st *state) creditTime(base limiter.Kind, at int, n, now uint64) {
	e := st.leases[at]
	e.units = n
	credit := min(e.charged(), st.inner.Expires)
	st.remove(at, n)
	floor := st.leases.floor(e.asOf)
	if failpoint.Is(failpoint.LeaseReturnFloor) {
		floor = 0
	}
	st.setTime(base, e.limit.Interval, max(st.inner.Expires-credit, floor), now)
}

// raise raises the theoretical arrival time to the floor of all leases. The limit l is that of the last decision.
func (st *state) raise(base limiter.Kind, l *limiter.Limit, now uint64) {
	st.setTime(base, l.Interval, max(st.inner.Expires, st.leases.floor(0)), now)
}

// setTime sets the inner state to a theoretical arrival time.
func (st *state) setTime(base limiter.Kind, interval time.Duration, tat, now uint64) {
	st.inner = limiter.State{}
	if tat <= now {
		return
	}
	st.inner.Expires = tat
	if base == limiter.ScaledThrottle {
		st.inner.Data = binary.LittleEndian.AppendUint64(nil, uint64(interval))
	}
}

// rescale converts the state of a ScaledThrottle to the rate of the limit l. Used units stay used, and so do the units of
// the leases: at a higher rate, the time until the end of a strict lease takes more units than before.
func (st *state) rescale(l *limiter.Limit, now uint64) {
	tat, stored := gcra.Rescale(&st.inner, l.Interval, now)
	if stored == l.Interval {
		return
	}
	for i := range st.leases {
		st.leases[i].rescale(l.Interval, now)
	}
	st.setTime(limiter.ScaledThrottle, l.Interval, max(tat, st.leases.floor(0)), now)
	st.adapted = true
	switch {
	case stored == 0:
	case stored > l.Interval:
		st.rate = higher
	default:
		st.rate = lower
	}
}

// rescale converts a lease to another interval. The time as of which a relaxed lease is charged moves, so that the units that
// have been restored since remain the same.
func (e *lease) rescale(interval time.Duration, now uint64) {
	if e.asOf < now && !failpoint.Is(failpoint.LeaseOldRate) {
		since, ok := muldiv.Floor(now-e.asOf, uint64(interval), uint64(e.limit.Interval))
		if !ok {
			since = now
		}
		e.asOf = now - min(since, now-1)
	}
	e.limit.Interval = interval
}
