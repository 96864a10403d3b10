package check

import (
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/throttledhq/throttled/scripts/chaos/history"
)

// Clock says how the clock of the limiter may stray in a history that Linear looks at.
type Clock struct {
	Slack
	// Behind is by how much it may be late in all: a cluster's clock stands still while
	// nobody leads. History.Never allows anything.
	Behind int64
}

// Verdict is the answer of Linear.
type Verdict string

// The answers of Linear.
const (
	Linearizable Verdict = "linearizable" // an order explains every reply
	Illegal      Verdict = "illegal"      // none does
	Undecided    Verdict = "undecided"    // there was no time to find out
)

// shrinks is how often Linear halves a history for which there was no time.
const shrinks = 2

// Linear looks for an order of all requests on a key, in which none comes before another that
// was answered before it was sent, such that each reply is what GCRA gives. A history for which
// there is no time is cut in half, twice at the most; checked is how many requests the verdict
// is about.
//
// Times are known as intervals only, since replies state them in whole seconds: so a
// history that is found illegal is illegal, and one that is not may be by less than a second.
func Linear(k *history.Key, ops []history.Op, clock Clock, timeout time.Duration) (v Verdict, checked int) {
	// Each search has a model of its own: one whose time is up still reads the one before.
	return shrink(ops, func(ops []history.Op) Verdict { return newModel(k, clock).check(ops, timeout) })
}

// shrink checks a history, and its first half instead each time that a check is undecided, up to shrinks times.
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

// firstHalf returns what was sent in the first half of a history. What was not answered by
// then counts as unknown: what was sent later may have come before it.
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
