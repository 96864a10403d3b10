package server

import "testing"

// TestShadowWithDefault checks that the default decides requests to which only shadow limits apply.
func TestShadowWithDefault(t *testing.T) {
	t.Parallel()
	const limits = `
limits:
  trial: {when: {path: /*}, allow: 1 per 10s, shadow: true}
  live: {when: {path: /live}, allow: 3 per 10s}
`
	s := startRules(t, "\ndefault: {allow: 2 per 10s}"+limits)
	p := s.dial()
	p.checks("CL.CHECK d path /", "[0 2 1 -1 5 '' [default] [['' 10s 0 2 1 -1 5 [default]] [trial 10s 0 1 0 -1 10 [shadow]]] 1]")
	p.checks("CL.CHECK d path /", "[0 2 0 -1 10 '' [shadow default] [['' 10s 0 2 0 -1 10 [default]] [trial 10s 1 1 0 10 10 [shadow]]] 1]")
	p.checks("CL.CHECK d path /", "[1 2 0 5 10 '' [shadow default] [['' 10s 1 2 0 5 10 [default]] [trial 10s 1 1 0 10 10 [shadow]]] 1]")
	p.checks("CL.CHECK d path /live", "[0 3 2 -1 4 live [shadow] [[live 10s 0 3 2 -1 4 []] [trial 10s 1 1 0 10 10 [shadow]]] 1]")
	if got := p.count("stats", "rules_unmatched"); got != 0 {
		t.Errorf("with a default: rules_unmatched is %d, want 0", got)
	}
	p = startRules(t, limits).dial()
	p.checks("CL.CHECK d path /", "["+unlimitedFive+" '' [unmatched] [[trial 10s 0 1 0 -1 10 [shadow]]] 1]")
	if got := p.count("stats", "rules_unmatched"); got != 1 {
		t.Errorf("without a default: rules_unmatched is %d, want 1", got)
	}
}
