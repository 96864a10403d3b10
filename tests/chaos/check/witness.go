package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// moment is a reply on a key that restores nothing during a run. The used units of such a key
// never decrease, so they determine the position of the reply in the order of decisions.
type moment struct {
	op   *history.Op
	used int64 // units in use after the decision
}

// Witness replays all requests on a key in the order that the replies imply. The emission
// interval of the key must be so long that no unit is restored during a run. Witness returns
// the first contradiction, or nil. Contradictions are those of Units, and a log time that runs backward
// or faster than the clients' clock. The log time is derived from ResetAfter. None of ops may
// be a refund. Witness runs in O(n log n).
func Witness(k *history.Key, ops []history.Op) error {
	order, err := unitsInOrder(k, ops)
	if err != nil {
		return err
	}
	return byOneClock(order, k.Interval())
}

// Units is like Witness, but does not derive the log time. Contradictions are a unit granted twice,
// units in use that no client requested, and an order that contradicts real time.
func Units(k *history.Key, ops []history.Op) error {
	_, err := unitsInOrder(k, ops)
	return err
}

// unitsInOrder returns the replies in the order that they imply, and the first contradiction that Units finds.
func unitsInOrder(k *history.Key, ops []history.Op) (order []moment, err error) {
	open := int64(0)
	for i := range ops {
		if o := &ops[i]; o.Outcome == history.Unknown {
			open += max(0, o.Quantity)
		} else {
			order = append(order, moment{o, k.Limit() - o.Remaining})
		}
	}
	// Among replies with equal used units, the charge is the first: the peeks and refusals report
	// its result.
	slices.SortFunc(order, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.used, b.used), -cmp.Compare(taken(a.op), taken(b.op)))
	})
	if err := eachUnitOnce(order, open); err != nil {
		return nil, err
	}
	return order, inRealTime(order)
}

func eachUnitOnce(order []moment, open int64) error {
	used := int64(0)
	for _, m := range order {
		before := m.used - taken(m.op)
		if before < used {
			return fmt.Errorf("the same units were granted twice: %d were in use, but only %d before a request of client %d", used, before, m.op.Client)
		}
		if open -= before - used; open < 0 {
			return fmt.Errorf("%d of the units in use before a request of client %d at %.6f s were requested by no client", -open, m.op.Client, seconds64(m.op.Call))
		}
		used = m.used
	}
	return nil
}

// inRealTime returns an error if the order contradicts real time, which means that a request A
// precedes a request B in the order, but B was answered before A was sent. The order among peeks and
// refusals with equal used units is not checked.
func inRealTime(order []moment) error {
	later := int64(math.MaxInt64) // the earliest return of all replies later in the order
	for end := len(order); end > 0; {
		begin := end - 1
		for begin > 0 && order[begin-1].used == order[end-1].used {
			begin--
		}
		least := later
		for i := end - 1; i >= begin; i-- {
			bound := later
			if taken(order[i].op) > 0 {
				bound = least
			}
			if o := order[i].op; o.Call > bound {
				return fmt.Errorf("a request of client %d at %.6f s reports %d units in use, but an earlier reply at %.6f s reports more", o.Client, seconds64(o.Call), order[i].used, seconds64(bound))
			}
			least = min(least, order[i].op.Return)
		}
		later, end = least, begin
	}
	return nil
}

// byOneClock returns an error if log time runs backward in the order of decisions, or
// faster than real time. The log time since the first charge is the used units times the
// interval, minus ResetAfter. Replies round ResetAfter up to seconds.
func byOneClock(order []moment, interval int64) error {
	const second = int64(time.Second)
	latest, slowest := int64(math.MinInt64), int64(math.MaxInt64)
	for _, m := range order {
		if m.used == 0 {
			continue
		}
		since := m.used*interval - m.op.ResetAfter*second // the exact value may be up to a second greater
		if since+second < latest {
			return fmt.Errorf("log time decreased by at least %s, at a request of client %d at %.6f s", time.Duration(latest-since-second), m.op.Client, seconds64(m.op.Call))
		}
		if slowest != math.MaxInt64 && since-second-m.op.Return > slowest {
			return fmt.Errorf("log time was ahead by at least %s at %.6f s", time.Duration(since-second-m.op.Return-slowest), seconds64(m.op.Return))
		}
		latest, slowest = max(latest, since), min(slowest, since-m.op.Call)
	}
	return nil
}

func seconds64(at int64) float64 { return float64(at) / float64(time.Second) }
