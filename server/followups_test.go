package server

import (
	"strings"
	"testing"

	"github.com/throttledhq/throttled/limiter"
)

// TestFollowUpAfterLeadership makes a node lose leadership after it has charged one limit of a report, and before it charges the
// other one. The first charge may be committed, so the command must not run again, and its reply must not state that nothing was
// charged.
func TestFollowUpAfterLeadership(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	setRules(t, l.rules, `
version: 1
domain: d
limits:
  wide: {allow: 9 per 1h, algorithm: fixed, charge: {status: [401]}}
  narrow: {allow: 2 per 1h, algorithm: fixed, charge: {status: [401]}}
`)
	l.lead("a")
	p := l.nodes["a"].dial()
	l.interrupt(1) // the units that fit in the narrow limit are charged by the second call
	p.do(failure(errUncertain), words("CL.REPORT d OUTCOME status=401 COST 3")...)
	if v := p.ask(words("CL.CHECK d PEEK")...); !strings.Contains(v.brief(), "wide 1h 0 9 6") {
		t.Errorf("after the report: got %s, want the wide limit to be charged once", v.brief())
	}
}

// TestLaterTokens checks the token that covers two calls of the engine.
func TestLaterTokens(t *testing.T) {
	token := func(epoch, generation uint64) limiter.CommitToken {
		return limiter.CommitToken{Epoch: epoch, Generation: generation}
	}
	for _, row := range []struct{ a, b, want limiter.CommitToken }{
		{token(1, 1), token(1, 2), token(1, 2)},
		{token(1, 2), token(1, 0), token(1, 2)},
		{token(1, 2), token(0, 0), token(1, 2)},
		{token(1, 2), token(2, 9), token(1, 2)},
		{token(0, 0), token(0, 0), token(0, 0)},
	} {
		if got := later(row.a, row.b); got != row.want {
			t.Errorf("later(%v, %v) is %v, want %v", row.a, row.b, got, row.want)
		}
	}
}
