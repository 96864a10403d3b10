package check

import (
	"time"

	"github.com/throttledhq/throttled/scripts/chaos/history"
)

// starvingAfter is for how long a key must have been asked before anything is said about it:
// before that a pause would weigh too much.
const starvingAfter = 5 * time.Second

// Starving says how much a key has granted, and how much it has to have at the least, if clients
// have asked for it all the time: half of its limit and of what came back meanwhile. A clock that
// may stand still while leaders change takes less than that. Due is 0 for a key that was asked for
// so little, or so shortly, that nothing can be said.
type Starving struct{ Granted, Due int64 }

// Starved reports whether clients were refused for much longer than their limit says.
func (s Starving) Starved() bool { return s.Granted < s.Due }

// Grants looks at the requests on a key, none of which may give units back. silence is for how long
// nobody was told anything meanwhile.
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
