package check

import (
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// Clock bounds the error of the limiter's clock in a history that Linear checks.
type Clock struct {
	Slack
	// Behind is the largest total time in nanoseconds by which the clock may fall behind. The clock
	// of a cluster falls behind because it stops while there is no leader. With history.Never there
	// is no bound.
	Behind int64
}

// Verdict is the result of Linear.
type Verdict string

// The results of Linear.
const (
	Linearizable Verdict = "linearizable" // an order explains every reply
	Illegal      Verdict = "illegal"      // no such order exists
	Undecided    Verdict = "undecided"    // the time limit expired
)

// shrinks is the largest number of times that Linear halves a history whose check timed out.
const shrinks = 2

// Linear searches for an order of all requests on a key that respects real time, and in which GCRA
// returns exactly the recorded replies. An order respects real time if, whenever request A was
// answered before request B was sent, A precedes B. If the search takes longer than the timeout,
// Linear continues with the first half of the history, at most twice. Linear returns the verdict
// and the number of requests that the verdict covers.
//
// Times are known only as intervals, since replies contain whole seconds. The verdict Illegal is
// certain. The replies of a history with the verdict Linearizable may still be wrong by less than a
// second.
func Linear(k *history.Key, ops []history.Op, clock Clock, timeout time.Duration) (v Verdict, checked int) {
	// Each search has its own model, because a search that has timed out continues to read
	// its model.
	return shrink(ops, func(ops []history.Op) Verdict { return newModel(k, clock).check(ops, timeout) })
}

// shrink checks a history. If the result is Undecided, shrink checks the first half of the history,
// and so on, until it has halved the history twice.
func shrink(ops []history.Op, check func(ops []history.Op) Verdict) (v Verdict, checked int) {
	for range shrinks {
		if v = check(ops); v != Undecided {
			return v, len(ops)
		}
		ops = firstHalf(ops)
	}
	return check(ops), len(ops)
}

func (m *model) check(ops []history.Op, timeout time.Duration) Verdict {
	var calls []porcupine.Operation
	for _, c := range m.prepare(ops) {
		calls = append(calls, porcupine.Operation{ClientId: c.op.Client, Input: c, Call: c.op.Call, Return: c.op.Return})
	}
	switch porcupine.CheckOperationsTimeout(m.porcupine(), calls, timeout) {
	case porcupine.Ok:
		return Linearizable
	case porcupine.Illegal:
		return Illegal
	}
	return Undecided
}

// firstHalf returns the requests sent in the first half of a history. If a request was answered
// only after the last of these requests was sent, its outcome becomes unknown: requests of the
// second half may precede it in the order.
func firstHalf(ops []history.Op) []history.Op {
	half := slices.Clone(ops)
	slices.SortStableFunc(half, func(a, b history.Op) int { return int(clamp(a.Call-b.Call, -1, 1)) })
	half = half[:len(half)/2]
	for i := range half {
		if o := &half[i]; o.Return >= half[len(half)-1].Call {
			o.Outcome, o.Return = history.Unknown, history.Never
		}
	}
	return half
}

func (m *model) porcupine() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, input, _ any) (bool, any) {
			next, legal := m.next(s.(state), input.(call))
			return legal, next
		},
		Hash: func(s any) uint64 {
			known := s.(state)
			return (uint64(known.low)*31+uint64(known.high))*31 + uint64(known.now)
		},
	}
}
