package server

import (
	"fmt"
	"strings"
	"testing"
)

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

// TestShadowErrors checks that no error of a shadow limit fails a request, and that the errors are counted.
func TestShadowErrors(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  trial: {when: {a: x}, allow: 9 per 9s, cost: tokens, shadow: true}
  live: {when: {a: x}, allow: 9 per 9s}
  used: {when: {b: x}, allow: 9 per 9s, shadow: true}
  later: {when: {c: x}, allow: 9 per 9s, cost: tokens, shadow: true, charge: {status: 401}}
`)
	p := s.dial()
	p.checks("CL.CHECK d a x", "[0 9 8 -1 1 live [] [[live 9s 0 9 8 -1 1 []] [trial 9s "+unlimitedFive+" [shadow error]]] 1]")
	p.checks("CL.CHECK d a x tokens 3", "[0 9 7 -1 2 live [] [[live 9s 0 9 7 -1 2 []] [trial 9s 0 9 6 -1 3 [shadow]]] 1]")
	p.checks("CL.CHECK d a x tokens 0 PEEK", "-ERR option PEEK must precede the attributes: write -- before the attributes if one of them has this name")
	p.checks("CL.CHECK d PEEK a x tokens 0", "[0 9 7 -1 2 live [] [[live 9s 0 9 7 -1 2 []] [trial 9s "+unlimitedFive+" [shadow error]]] 1]")
	p.checks("CL.WINDOW rule|d|used|gcra|9s 1 60 LOG", "[0 1 0 -1 60]")
	p.checks("CL.CHECK d b x", "["+unlimitedFive+" '' [unmatched] [[used 9s "+unlimitedFive+" [shadow error]]] 1]")
	p.checks("CL.REPORT d OUTCOME status=401 c x tokens y", "["+unlimitedFive+" '' [unmatched] [[later 9s "+unlimitedFive+" [shadow report error]]] 1]")
	p.checks("CL.REPORT d OUTCOME status=401 c x tokens 2", "["+unlimitedFive+" '' [unmatched] [[later 9s 0 9 7 -1 2 [shadow report]]] 1]")
	if got := p.count("stats", "rules_shadow_errors"); got != 2 {
		t.Errorf("rules_shadow_errors is %d, want 2", got)
	}
}

// manyAmounts returns n amounts as a list.
func manyAmounts(n int) string {
	amounts := make([]string, n)
	for i := range amounts {
		amounts[i] = fmt.Sprintf("1000 per %ds", i+1)
	}
	return "[" + strings.Join(amounts, ", ") + "]"
}

// TestMostShadows checks requests with the greatest number of amounts of live limits and of shadow limits, alone and in
// batches.
func TestMostShadows(t *testing.T) {
	t.Parallel()
	s := startRules(t, fmt.Sprintf(`
limits:
  live: {when: {live: x}, allow: %s, charge: {status: [401]}}
  bans: {when: {bans: x}, allow: %s, ban: {after: 1 per 1h, for: 1h}}
  over: {when: {over: x}, allow: 1 per 1s, ban: {after: 1 per 1h, for: 1h}}
  free: {when: {free: x}, allow: unlimited}
  trial: {when: {shadow: x}, allow: %[1]s, shadow: true, charge: {status: [401]}}
  more: {when: {more: x}, allow: 1 per 1s, shadow: true}
`, manyAmounts(32), manyAmounts(31)))
	p := s.dial()
	f := func(line string, limits int) {
		t.Helper()
		p.send(strings.Repeat(request(words(line)...), 3))
		for range 3 {
			if got := p.read(); got.kind != '*' || len(got.list[7].list) != limits {
				t.Errorf("%s: got %.200s, want a reply with %d amounts", line, got.brief(), limits)
			}
		}
	}
	f("CL.CHECK d live x shadow x", 64)
	f("CL.CHECK d bans x shadow x", 63)
	f("CL.CHECK d bans x shadow x more x", 63)
	f("CL.CHECK d live x shadow x more x", 64)
	f("CL.REPORT d OUTCOME status=401 live x shadow x", 64)
	if got := p.count("stats", "rules_shadow_errors"); got != 6 {
		t.Errorf("rules_shadow_errors is %d, want 6", got)
	}
	p.checks("CL.CHECK d bans x over x shadow x", "-"+string(errManyMatches))
	p.checks("CL.CHECK d bans x over x", "-"+string(errManyMatches))
	p.checks("CL.CHECK d live x over x shadow x", "-ERR more than 32 amounts apply to the request")
	p.checks("CL.CHECK d live x free x", "-ERR more than 32 amounts apply to the request")
	f("CL.CHECK d bans x free x shadow x", 64)
}

// TestUnchargedReports checks the flag of a report that charges no live limit.
func TestUnchargedReports(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  login: {when: {a: x}, allow: 9 per 9s, charge: {status: 401}}
  other: {when: {b: x}, allow: 9 per 9s}
  trial: {when: {c: x}, allow: 9 per 9s, charge: {status: 401}, shadow: true}
`)
	p := s.dial()
	const login, trial = "[login 9s 0 9 8 -1 1 [report]]", "[trial 9s 0 9 8 -1 1 [shadow report]]"
	for _, test := range []struct{ attributes, status, want string }{
		{"a x", "200", unlimitedFive + " '' [uncharged] []"},
		{"b x", "401", unlimitedFive + " '' [uncharged] []"},
		{"a x b x", "401", "0 9 8 -1 1 login [report] [" + login + "]"},
		{"b x c x", "401", unlimitedFive + " '' [uncharged] [" + trial + "]"},
		{"c x", "401", unlimitedFive + " '' [unmatched] [" + trial + "]"},
		{"c x", "200", unlimitedFive + " '' [unmatched] []"},
		{"d x", "401", unlimitedFive + " '' [unmatched] []"},
	} {
		p.ask("FLUSHALL")
		p.checks("CL.REPORT d OUTCOME status="+test.status+" "+test.attributes, "["+test.want+" 1]")
	}
	p = startRules(t, "\ndefault: {allow: 9 per 9s}\n").dial()
	p.checks("CL.REPORT d OUTCOME status=401", "["+unlimitedFive+" '' [uncharged] [] 1]")
}
