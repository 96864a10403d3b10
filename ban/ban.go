// Package ban implements bans: a key that is banned refuses all requests until the ban ends.
//
// The caller decides when to ban a key, for example after a number of refused requests. [Decide] has the signature of
// the algorithms, so that a ban is checked in one group with other limits, stored with them, and replicated like them.
// It is a pure function.
//
// # The rule
//
// The state of a key is the end of its ban, which is State.Expires; the Data is empty. A request has no units:
//
//   - A request with quantity 0 asks. It is refused while the key is banned. Retry after and reset after are the time
//     until the end of the ban.
//   - A request with a quantity above 0 bans the key from now on, for Limit.Interval. It is always admitted, and never
//     shortens a ban. In a group, the key is therefore banned only if all other requests of the group are admitted.
//   - A request with a negative quantity ends the ban.
//
// Limit.Max is 1. Remaining is 0 while the key is banned, and otherwise 1.
package ban

import (
	"math"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// NewLimit returns the limit of a ban with a length of at least 1 ns.
func NewLimit(length time.Duration) limiter.Limit { return limiter.Limit{Max: 1, Interval: length} }

// Decide asks for a ban, bans a key, or ends the ban, at time now in nanoseconds below 1<<63, for a key in state old,
// which is the zero State for an absent key. The limit l must be made by NewLimit. Decide allocates nothing, and leaves
// d.Err nil. The new state has no Data, so room is not used.
func Decide(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (c limiter.Change, d limiter.Decision) {
	end := max(old.Expires, now)
	d.Limit, d.RetryAfter = l.Max, limiter.NoRetry
	switch {
	case quantity > 0:
		c.Set, end = true, max(end, now+uint64(l.Interval))
	case quantity < 0:
		c.Set, end = end > now, now
	default:
		d.Limited = end > now
	}
	d.ResetAfter = time.Duration(min(end-now, math.MaxInt64))
	if d.Limited {
		d.RetryAfter = d.ResetAfter
	}
	if end == now {
		d.Remaining = l.Max
	}
	c.Expires, c.Tail = end, room[:0]
	return c, d
}
