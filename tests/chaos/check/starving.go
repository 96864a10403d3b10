package check

import (
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// starvingAfter is the shortest observation of a key that Grants evaluates. In a shorter
// observation, a pause would have too much weight.
const starvingAfter = 5 * time.Second

// Starving compares the units that a key has granted with the minimum that it had to grant under
// continuous demand (Due). The key could grant its limit and the units restored during the
// observation. Due is half of this sum, less the units of requests with an unknown outcome. The
// other half allows for a clock that stops while leaders change. Due is 0 if the demand was too
// small or the observation too short.
type Starving struct{ Granted, Due int64 }

// Starved reports whether clients were refused for much longer than their limit requires.
func (s Starving) Starved() bool { return s.Granted < s.Due }

// Grants evaluates the requests on a key. None of them may be a refund. The silence argument is
// the total time in which no request was decided.
func Grants(k *history.Key, ops []history.Op, silence time.Duration) (s Starving) {
	if len(ops) == 0 {
		return s
	}
	first, last := ops[0].Call, int64(0)
	var asked, open int64
	for i := range ops {
		o := &ops[i]
		first, last = min(first, o.Call), max(last, o.Call)
		switch {
		case o.Quantity > k.Limit():
		case o.Outcome == history.Unknown:
			open += o.Quantity
		case o.Outcome == history.Granted:
			s.Granted += o.Quantity
			asked += o.Quantity
		default:
			asked += o.Quantity
		}
	}
	lasted := time.Duration(last-first) - silence
	admits := k.Limit() + int64(float64(lasted)/float64(k.Interval()))
	if lasted >= starvingAfter && asked >= 2*admits {
		s.Due = max(0, admits/2-open)
	}
	return s
}
