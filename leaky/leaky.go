package leaky

import (
	"time"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/limiter"
)

// NewLimit compiles a limit on a queue that holds capacity units and is drained at count
// units in every period. The emission interval is rounded up, to at least 1 ns, so a rate
// above one unit a nanosecond is reduced to one unit a nanosecond.
//
// It returns limiter.ErrRange if a parameter is not positive, or if the time that a full
// queue takes to drain is more than an int64 of nanoseconds.
func NewLimit(capacity, count int64, period limiter.Period) (limiter.Limit, error) {
	if capacity <= 0 {
		return limiter.Limit{}, limiter.ErrRange
	}
	return gcra.NewLimit(capacity-1, count, period)
}

// Decide decides a request for quantity units at time now, in nanoseconds below 1<<63, for
// a key with state old, which is the zero State for an absent key. It returns the change of
// the state and the decision. The Wait of the decision is the delay of an admitted request.
//
// Only a charge, and a refund on a queue that is not empty, change the state. A change whose
// Expires is now means that the queue is empty. The new state has no Data, so room is not
// used.
//
// The limit l must be made by NewLimit. Decide allocates nothing, never panics on such a
// limit, and leaves d.Err nil.
func Decide(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (c limiter.Change, d limiter.Decision) {
	tat := old.Expires
	if len(old.Data) > 0 {
		tat = 0
	}
	c.Expires, d = gcra.Decide(*l, tat, now, quantity)
	switch {
	case d.Limited:
		d.Wait = limiter.NoRetry
	case quantity < 0:
		// A refund does not change an empty queue.
		c.Set = tat > now
	default:
		c.Set = quantity > 0
		// The wait is the used time before the charge. The cost of an admitted request fits a
		// Duration.
		d.Wait = d.ResetAfter - l.Interval*time.Duration(quantity)
	}
	c.Tail = room[:0]
	return c, d
}

// DecideScaled is Decide for limits that change: the state contains the emission interval under which it was charged,
// and the units in the queue stay in the queue if l has another interval. It is gcra.DecideScaled with a Wait. The
// departure times of requests that were admitted before a change do not change, although the queue is drained at
// another rate from then on.
func DecideScaled(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (c limiter.Change, d limiter.Decision) {
	c, d = gcra.DecideScaled(l, old, now, quantity, room)
	switch {
	case d.Limited:
		d.Wait = limiter.NoRetry
	case quantity > 0:
		d.Wait = d.ResetAfter - l.Interval*time.Duration(quantity)
	case quantity == 0:
		if tat, _ := gcra.Rescale(&old, l.Interval, now); tat > now {
			d.Wait = time.Duration(tat - now)
		}
	}
	return c, d
}
