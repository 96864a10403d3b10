package gcra

import (
	"math"
	"math/bits"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Decide decides a request for quantity units at time now, for a key whose theoretical
// arrival time is tat, and returns the key's new TAT. Both times are nanoseconds of one
// clock, with now below 1<<63. If tat is at or before now, the key is at rest. An absent key
// has a tat of 0.
//
// A refused request and a peek (quantity 0) return tat unchanged. A charge returns a
// TAT after now. A refund (quantity below 0) returns now plus the used time that remains;
// if none remains, it returns now. A returned TAT at or below now always means that the key
// is at rest: the caller may drop it, and need not create it.
//
// The limit l must be made by NewLimit. Decide allocates nothing, never panics on such
// a limit, and leaves d.Err nil.
func Decide(l limiter.Limit, tat, now uint64, quantity int64) (newTAT uint64, d limiter.Decision) {
	used := usedAt(tat, now)
	limited, retry := false, limiter.NoRetry
	newTAT = tat
	switch {
	case quantity < 0:
		used = refund(l.Interval, used, quantity)
		newTAT = now + uint64(used)
	case quantity > l.Max:
		limited = true
	default:
		// The quantity fits if used <= room. Subtracting the quantity from Max, instead of adding
		// its cost to used, cannot overflow.
		room := l.Interval * time.Duration(l.Max-quantity)
		if used > room {
			limited, retry = true, used-room
		} else if quantity > 0 {
			used += l.Interval * time.Duration(quantity)
			newTAT = now + uint64(used)
		}
	}
	return newTAT, limiter.Decision{
		Limited:    limited,
		Limit:      l.Max,
		Remaining:  remaining(l, used),
		RetryAfter: retry,
		ResetAfter: used,
	}
}

// DecideState is Decide on the state of a key, whose Expires is the TAT. Data is not used, and the change has none.
func DecideState(l *limiter.Limit, old limiter.State, now uint64, quantity int64, _ []byte) (limiter.Change, limiter.Decision) {
	tat, d := Decide(*l, old.Expires, now, quantity)
	return limiter.Change{Set: tat != old.Expires, Expires: tat}, d
}

// usedAt returns the used time: how far tat is ahead of now, or 0 if tat has passed. The
// result is capped at the largest Duration, since a TAT that was imported or set manually may
// be any number.
func usedAt(tat, now uint64) time.Duration {
	if tat <= now {
		return 0
	}
	return time.Duration(min(tat-now, math.MaxInt64))
}

// refund returns the used time that remains after a refund of -quantity units. The result is
// at least 0, so that no refund builds up credit beyond the limit.
func refund(interval, used time.Duration, quantity int64) time.Duration {
	// Negating the quantity as a uint64 gives the correct magnitude of the smallest int64 too.
	hi, credit := bits.Mul64(uint64(interval), -uint64(quantity))
	if hi != 0 || credit >= uint64(used) {
		return 0
	}
	return used - time.Duration(credit)
}

// remaining returns the number of units whose cost, together with the used time, fits the burst
// tolerance. The result is at most l.Max, because used is never negative.
func remaining(l limiter.Limit, used time.Duration) int64 {
	free := l.Interval*time.Duration(l.Max) - used
	if free < l.Interval {
		return 0
	}
	// This is the only division of a decision. Unsigned division is cheaper than signed division.
	return int64(uint64(free) / uint64(l.Interval))
}
