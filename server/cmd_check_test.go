package server

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCheck checks the replies in both versions of the protocol, for limits that admit, refuse, and do not apply.
func TestCheck(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  login:
    when: {path: /login}
    per: [ip]
    allow: 2 per 10m
    algorithm: fixed
  api:
    when: {path: /*}
    per: [user]
    allow: [10/min burst 3, 100/h]
  leak:
    when: {path: /leak}
    allow: 2 per 10s
    algorithm: leaky
`)
	p := s.dial()
	p.checks("CL.CHECK d path /a user u", "[0 3 2 -1 6 api [] [[api 1m 0 3 2 -1 6 []] [api 1h 0 100 99 -1 36 []]] 1]")
	p.checks("CL.CHECK d path /login user u ip ::1", "[0 2 1 -1 400 login [] [[login 10m 0 2 1 -1 400 []] [api 1m 0 3 1 -1 12 []] [api 1h 0 100 98 -1 72 []]] 1]")
	p.checks("CL.CHECK d path /login user u ip ::1", "[0 2 0 -1 400 login [] [[login 10m 0 2 0 -1 400 []] [api 1m 0 3 0 -1 18 []] [api 1h 0 100 97 -1 108 []]] 1]")
	p.checks("CL.CHECK d path /login user v ip ::1", "[1 2 0 400 400 login [] [[login 10m 1 2 0 400 400 []] [api 1m 0 3 3 -1 0 []] [api 1h 0 100 100 -1 0 []]] 1]")
	p.checks("CL.CHECK d path x", "["+unlimitedFive+" '' [unmatched] [] 1]")
	p.checks("CL.CHECK d", "["+unlimitedFive+" '' [unmatched] [] 1]")
	p.checks("CL.CHECK d path /leak user l", "[0 2 1 -1 5 leak [] [[api 1m 0 3 2 -1 6 []] [api 1h 0 100 99 -1 36 []] [leak 10s 0 2 1 -1 5 [] 0]] 1]")
	p.checks("CL.CHECK d MS path /leak user l", "[0 2 0 -1 10000 leak [] [[api 1m 0 3 1 -1 12000 []] [api 1h 0 100 98 -1 72000 []] [leak 10s 0 2 0 -1 10000 [] 5000]] 1]")
	if got := p.count("stats", "rules_unmatched"); got != 2 {
		t.Errorf("rules_unmatched is %d, want 2", got)
	}
	p.ask("HELLO", "3")
	p.checks("CL.CHECK d path /a user x", "{limited:0 limit:3 remaining:2 retry_after:-1 reset_after:6 name:api flags:~() limits:["+
		"{name:api window:1m limited:0 limit:3 remaining:2 retry_after:-1 reset_after:6 flags:~()} "+
		"{name:api window:1h limited:0 limit:100 remaining:99 retry_after:-1 reset_after:36 flags:~()}] version:1}")
	p.checks("CL.CHECK d a b", "{limited:0 limit:9223372036854775807 remaining:9223372036854775807 retry_after:-1 reset_after:0 name:'' flags:~(unmatched) limits:[] version:1}")
	p.ask("HELLO", "2")
	p.checks("DBSIZE", "8")
	s.clock.advance(time.Hour)
	p.checks("CL.CHECK d path /login user u ip ::1", "[0 2 1 -1 400 login [] [[login 10m 0 2 1 -1 400 []] [api 1m 0 3 2 -1 6 []] [api 1h 0 100 99 -1 36 []]] 1]")
}

// TestCheckOptions checks COST, PEEK, DRYRUN and MS, and attributes with the names of options.
func TestCheckOptions(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  one: {when: {a: x}, allow: 10 per 10s}
  five: {when: {a: x}, allow: 100 per 100s, cost: 5}
  named: {when: {peek: x}, allow: 10 per 10s}
`)
	p := s.dial()
	p.checks("CL.CHECK d COST 2 a x", "[0 10 8 -1 2 one [] [[one 10s 0 10 8 -1 2 []] [five 100s 0 100 90 -1 10 []]] 1]")
	p.checks("CL.CHECK d cost 3 MS dryrun a x", "[0 10 5 -1 5000 one [] [[one 10s 0 10 5 -1 5000 []] [five 100s 0 100 75 -1 25000 []]] 1]")
	p.checks("CL.CHECK d PEEK COST 3 a x", "[0 10 8 -1 2 one [] [[one 10s 0 10 8 -1 2 []] [five 100s 0 100 90 -1 10 []]] 1]")
	p.checks("CL.CHECK d DRYRUN COST 9 a x", "[1 10 8 1 2 one [] [[one 10s 1 10 8 1 2 []] [five 100s 0 100 90 -1 10 []]] 1]")
	p.checks("CL.CHECK d COST -1 a x", "[0 10 9 -1 1 one [] [[one 10s 0 10 9 -1 1 []] [five 100s 0 100 95 -1 5 []]] 1]")
	p.checks("CL.CHECK d COST 9223372036854775807 a x", "[1 10 9 -1 1 one [] [[one 10s 1 10 9 -1 1 []] [five 100s 1 100 95 -1 5 []]] 1]")
	p.checks("CL.CHECK d -- peek x", "[0 10 9 -1 1 named [] [[named 10s 0 10 9 -1 1 []]] 1]")
	p.checks("CL.CHECK d MS -- peek x ms y", "[0 10 8 -1 2000 named [] [[named 10s 0 10 8 -1 2000 []]] 1]")
	p.checks("CL.CHECK d -- b x peek x", "[0 10 7 -1 3 named [] [[named 10s 0 10 7 -1 3 []]] 1]")
	p.checks("CL.CHECK d PEEK peek x", "-ERR option 'peek' is given twice: write -- before an attribute of this name")
}

// TestCheckAmounts checks the amounts "unlimited" and "none", and the default of a domain.
func TestCheckAmounts(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
default: {allow: 5 per 5s, per: [ip]}
tiers: {by: tier, default: free}
limits:
  a: {when: {path: /a}, allow: {free: 2 per 2s, gold: unlimited, banned: none}}
  b: {when: {path: /a, also: yes}, allow: 3 per 3s}
`)
	p := s.dial()
	p.checks("CL.CHECK d path /x ip ::1", "[0 5 4 -1 1 '' [default] [['' 5s 0 5 4 -1 1 [default]]] 1]")
	p.checks("CL.CHECK d path /a", "[0 2 1 -1 1 a [] [[a 2s 0 2 1 -1 1 []]] 1]")
	p.checks("CL.CHECK d path /a tier gold", "["+unlimitedFive+" a [] [[a unlimited "+unlimitedFive+" [unlimited]]] 1]")
	p.checks("CL.CHECK d path /a tier gold also yes", "[0 3 2 -1 1 b [] [[a unlimited "+unlimitedFive+" [unlimited]] [b 3s 0 3 2 -1 1 []]] 1]")
	p.checks("CL.CHECK d path /a tier banned also yes", "[1 0 0 -1 0 a [] [[a none 1 0 0 -1 0 []] [b 3s 0 3 2 -1 1 []]] 1]")
	p.checks("CL.CHECK d PEEK path /a tier banned", "[1 0 0 -1 0 a [] [[a none 1 0 0 -1 0 []]] 1]")
	p.checks("DBSIZE", "3")
}

// TestCheckSoft checks the flags "soft" and "warn".
func TestCheckSoft(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  a: {when: {a: x}, allow: 4 per 40s, soft: 50%, warn: 75%, algorithm: fixed}
  b: {when: {b: x}, allow: 1 per 40s}
`)
	p := s.dial()
	ask := func(line, top, flags string) {
		t.Helper()
		p.checks(line, "["+top+" a "+flags+" [[a 40s "+top+" "+flags+"]] 1]")
	}
	ask("CL.CHECK d a x", "0 4 3 -1 40", "[]")
	ask("CL.CHECK d a x", "0 4 2 -1 40", "[]")
	ask("CL.CHECK d a x", "0 4 1 -1 40", "[warn]")
	ask("CL.CHECK d a x", "0 4 0 -1 40", "[warn]")
	ask("CL.CHECK d a x", "0 4 0 -1 40", "[soft warn]")
	ask("CL.CHECK d PEEK a x", "0 4 0 -1 40", "[soft warn]")
	ask("CL.CHECK d COST 2 a x", "1 4 0 40 40", "[warn]")
	p.checks("CL.CHECK d b x", "[0 1 0 -1 40 b [] [[b 40s 0 1 0 -1 40 []]] 1]")
	p.checks("CL.CHECK d a x b x", "[1 1 0 40 40 b [warn] [[a 40s 0 4 0 -1 40 [warn]] [b 40s 1 1 0 40 40 []]] 1]")
	ask("CL.CHECK d a x", "0 4 0 -1 40", "[soft warn]")
	ask("CL.CHECK d a x", "1 4 0 40 40", "[warn]")
	if got := p.count("stats", "rules_soft"); got != 2 {
		t.Errorf("rules_soft is %d, want 2", got)
	}
	p.ask("CONFIG", "RESETSTAT")
	if got := p.count("stats", "rules_soft"); got != 0 {
		t.Errorf("rules_soft is %d after CONFIG RESETSTAT, want 0", got)
	}
}

// TestCheckShadow checks that a shadow limit is charged independently of the live limits, and never refuses.
func TestCheckShadow(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  tight: {when: {a: x}, allow: [1 per 10s, 100 per 100s], shadow: true}
  live: {when: {a: x}, allow: 2 per 10s}
  loose: {when: {a: x}, allow: 9 per 10s, shadow: true, algorithm: fixed}
`)
	p := s.dial()
	p.checks("CL.CHECK d a x", "[0 2 1 -1 5 live [] [[live 10s 0 2 1 -1 5 []] [tight 10s 0 1 0 -1 10 [shadow]] [tight 100s 0 100 99 -1 1 [shadow]] [loose 10s 0 9 8 -1 10 [shadow]]] 1]")
	p.checks("CL.CHECK d a x", "[0 2 0 -1 10 live [shadow] [[live 10s 0 2 0 -1 10 []] [tight 10s 1 1 0 10 10 [shadow]] [tight 100s 0 100 99 -1 1 [shadow]] [loose 10s 0 9 7 -1 10 [shadow]]] 1]")
	p.checks("CL.CHECK d a x", "[1 2 0 5 10 live [shadow] [[live 10s 1 2 0 5 10 []] [tight 10s 1 1 0 10 10 [shadow]] [tight 100s 0 100 99 -1 1 [shadow]] [loose 10s 0 9 6 -1 10 [shadow]]] 1]")
	if got := p.count("stats", "rules_shadow_limited"); got != 2 {
		t.Errorf("rules_shadow_limited is %d, want 2", got)
	}
	if got := p.count("stats", "limited_decisions"); got != 1 {
		t.Errorf("limited_decisions is %d, want 1", got)
	}
	s.clock.advance(time.Hour)
	p.checks("CL.WINDOW rule|d|tight|gcra|10s 1 60 LOG", "[0 1 0 -1 60]") // another command uses the key
	p.checks("CL.CHECK d a x", "[0 2 1 -1 5 live [] [[live 10s 0 2 1 -1 5 []] [tight 10s "+unlimitedFive+" [shadow error]] [tight 100s "+unlimitedFive+" [shadow error]] [loose 10s 0 9 8 -1 10 [shadow]]] 1]")
}

// TestCheckPriority checks that a share of a limit is reserved.
func TestCheckPriority(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  a: {allow: 10 per 100s, priority: {when: {class: critical}, share: 20%}, algorithm: fixed}
`)
	p := s.dial()
	p.checks("CL.CHECK d COST 8 class normal", "[0 8 0 -1 100 a [] [[a 100s 0 8 0 -1 100 []]] 1]")
	p.checks("CL.CHECK d class normal", "[1 8 0 100 100 a [] [[a 100s 1 8 0 100 100 []]] 1]")
	p.checks("CL.CHECK d class critical", "[0 10 1 -1 100 a [] [[a 100s 0 10 1 -1 100 []]] 1]")
}

// TestCheckWarn_Reserved checks that requests for which no unit is available are flagged only if units are used.
func TestCheckWarn_Reserved(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  a: {allow: 10 per 100s, warn: 80%, priority: {when: {class: critical}, share: 100%}, algorithm: fixed}
`)
	p := s.dial()
	p.checks("CL.CHECK d class normal", "[1 0 0 -1 0 a [] [[a 100s 1 0 0 -1 0 []]] 1]")
	p.checks("CL.CHECK d PEEK class normal", "[0 0 0 -1 0 a [] [[a 100s 0 0 0 -1 0 []]] 1]")
	p.checks("CL.CHECK d COST 7 class critical", "[0 10 3 -1 100 a [] [[a 100s 0 10 3 -1 100 []]] 1]")
	p.checks("CL.CHECK d class critical", "[0 10 2 -1 100 a [warn] [[a 100s 0 10 2 -1 100 [warn]]] 1]")
}

// TestCheckJitter checks that the retry time of refusals is lengthened.
func TestCheckJitter(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  a: {allow: 1 per 100s, retry_jitter: 50%, algorithm: fixed}
`)
	p := s.dial()
	p.checks("CL.CHECK d", "[0 1 0 -1 100 a [] [[a 100s 0 1 0 -1 100 []]] 1]")
	p.checks("CL.CHECK d", "[1 1 0 125 125 a [] [[a 100s 1 1 0 125 125 []]] 1]")
	p.checks("CL.CHECK d COST 2", "[1 1 0 -1 100 a [] [[a 100s 1 1 0 -1 100 []]] 1]")
}

// TestCountsOfChecks checks that the statistics count requests, and not those that charge nothing.
func TestCountsOfChecks(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  banned: {when: {a: x}, allow: 1 per 1h, ban: {after: 1 per 1h, for: 1h}}
  soft: {when: {b: x}, allow: 5 per 1h, soft: 100%}
  shadow: {when: {c: x}, allow: none, shadow: true}
`)
	p := s.dial()
	for _, line := range []string{"a x", "a x", "COST 5 b x"} {
		p.ask(words("CL.CHECK d " + line)...)
	}
	counts := func() (list []int64) {
		for _, name := range []string{"unmatched", "soft", "banned", "shadow_limited"} {
			list = append(list, p.count("stats", "rules_"+name))
		}
		return list
	}
	for _, options := range []string{"PEEK", "DRYRUN", "COST 0", "COST -1", ""} {
		for _, attribute := range []string{"a", "b", "c", "d"} {
			p.ask(strings.Fields("CL.CHECK d " + options + " " + attribute + " x")...)
		}
		if got := counts(); options != "" && !slices.Equal(got, []int64{0, 0, 0, 0}) {
			t.Errorf("after %s: counts %v, want 0", options, got)
		}
		if options == "COST -1" {
			p.ask(words("CL.CHECK d COST 2 b x")...)
			p.ask("CONFIG", "RESETSTAT")
		}
	}
	if got := counts(); !slices.Equal(got, []int64{2, 1, 1, 1}) {
		t.Errorf("counts %v, want 2 1 1 1: the request with the shadow limit is unmatched", got)
	}
}

func TestJittered(t *testing.T) {
	f := func(want, retry time.Duration, percent int, random uint64) {
		t.Helper()
		if got := jittered(retry, percent, random); got != want {
			t.Errorf("jittered(%v, %d, %x) is %v, want %v", retry, percent, random, got, want)
		}
	}
	const most = 1<<64 - 1
	f(time.Second, time.Second, 20, 0)
	f(1100*time.Millisecond, time.Second, 20, 1<<63)
	f(1200*time.Millisecond-1, time.Second, 20, most)
	f(2*time.Second-1, time.Second, 100, most)
	f(time.Second, time.Second, 0, most)
	f(0, 0, 100, most)
	f(-1, -1, 100, most)
	f(1<<63-1, 1<<63-1, 100, most)
	f(1<<63-1, 1<<62+1<<61, 100, 1<<63)
}

// TestCheckCharge checks a limit that CL.REPORT charges by the outcome of requests.
func TestCheckCharge(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  login: {when: {path: /login}, per: [ip], allow: [2 per 10m, 3 per 1h], algorithm: fixed, charge: {status: [401, 403]}}
  all: {allow: 100 per 1h, algorithm: fixed}
`)
	p := s.dial()
	p.checks("CL.CHECK d path /login ip a", "[0 2 1 -1 400 login [report] [[login 10m 0 2 1 -1 400 [report]] [login 1h 0 3 2 -1 2800 [report]] [all 1h 0 100 99 -1 2800 []]] 1]")
	p.checks("CL.CHECK d path /login ip a", "[0 2 1 -1 400 login [report] [[login 10m 0 2 1 -1 400 [report]] [login 1h 0 3 2 -1 2800 [report]] [all 1h 0 100 98 -1 2800 []]] 1]")
	p.checks("CL.REPORT d OUTCOME status=200 path /login ip a", "["+unlimitedFive+" '' [uncharged] [] 1]")
	p.checks("CL.REPORT d OUTCOME status=401 path /other ip a", "["+unlimitedFive+" '' [uncharged] [] 1]")
	p.checks("CL.REPORT d OUTCOME status=401 path /login ip a", "[0 2 1 -1 400 login [report] [[login 10m 0 2 1 -1 400 [report]] [login 1h 0 3 2 -1 2800 [report]]] 1]")
	p.checks("CL.REPORT d outcome STATUS=403 MS path /login ip a", "[0 2 0 -1 400000 login [report] [[login 10m 0 2 0 -1 400000 [report]] [login 1h 0 3 1 -1 2800000 [report]]] 1]")
	p.checks("CL.CHECK d path /login ip a", "[1 2 0 400 400 login [report] [[login 10m 1 2 0 400 400 [report]] [login 1h 0 3 1 -1 2800 [report]] [all 1h 0 100 98 -1 2800 []]] 1]")
	p.checks("CL.REPORT d OUTCOME status=401 path /login ip a", "[1 2 0 -1 400 login [report] [[login 10m 1 2 0 -1 400 [report]] [login 1h 0 3 0 -1 2800 [report]]] 1]")
	s.clock.advance(10 * time.Minute)
	p.checks("CL.REPORT d COST 5 OUTCOME status=401 -- path /login ip b", "[1 2 0 -1 400 login [report] [[login 10m 1 2 0 -1 400 [report]] [login 1h 1 3 0 -1 2200 [report]]] 1]")
	p.checks("CL.REPORT d COST -1 OUTCOME status=401 path /login ip b", "[0 3 1 -1 2200 login [report] [[login 10m 0 2 1 -1 400 [report]] [login 1h 0 3 1 -1 2200 [report]]] 1]")
}

// TestCheckRefuses checks the errors of CL.CHECK and CL.REPORT.
func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  a: {when: {a: x}, allow: 1 per 1s}
  cost: {when: {b: x}, allow: 1 per 1s, cost: size}
  many: {when: {c: x}, allow: [1 per 1s, 1 per 2s, 1 per 3s, 1 per 4s, 1 per 5s, 1 per 6s, 1 per 7s, 1 per 8s, 1 per 9s, 1 per 10s, 1 per 11s, 1 per 12s, 1 per 13s, 1 per 14s, 1 per 15s, 1 per 16s]}
  more: {when: {c: x, d: x}, allow: [1 per 1s, 1 per 2s, 1 per 3s, 1 per 4s, 1 per 5s, 1 per 6s, 1 per 7s, 1 per 8s, 1 per 9s, 1 per 10s, 1 per 11s, 1 per 12s, 1 per 13s, 1 per 14s, 1 per 15s, 1 per 16s]}
  last: {when: {c: x, d: x, e: x}, allow: 1 per 1s}
`)
	p := s.dial()
	p.checks("CL.CHECK", "-ERR wrong number of arguments for 'cl.check' command")
	p.checks("CL.REPORT d OUTCOME", "-ERR wrong number of arguments for 'cl.report' command")
	p.checks("CL.CHECK e a x", "-ERR unknown domain 'e': did you mean d?")
	p.checks("CL.CHECK elsewhere a x", "-ERR unknown domain 'elsewhere': the rules have d")
	p.checks("CL.CHECK d a", "-ERR attribute 'a' has no value: attributes are pairs of a name and a value")
	const late = " must precede the attributes: write -- before the attributes if one of them has this name"
	p.checks("CL.CHECK d a x PEEK", "-ERR option PEEK"+late)
	p.checks("CL.CHECK d a x COST 2", "-ERR option COST"+late)
	p.checks("CL.CHECK d b x peek a x", "-ERR option PEEK"+late)
	p.checks("CL.REPORT d OUTCOME status=401 a x ms y", "-ERR option MS"+late)
	p.checks("CL.REPORT d OUTCOME status=401 a x outcome y", "-ERR option OUTCOME"+late)
	p.checks("CL.CHECK d -- a x PEEK", "-ERR attribute 'PEEK' has no value: attributes are pairs of a name and a value; options must follow the domain")
	p.checks("CL.CHECK d a x b x a y", "-ERR attribute 'a' is repeated: give each attribute once")
	p.checks("CL.CHECK d z x b x z y", "-ERR attribute 'z' is repeated: give each attribute once")
	p.do("-ERR the attribute with the value 'y' has no name: attributes are pairs of a name and a value\r\n", "CL.CHECK", "d", "a", "x", "", "y")
	p.checks("CL.CHECK d COST", "-ERR option COST needs a value")
	p.checks("CL.CHECK d COST x a x", "-ERR invalid COST 'x': must be a 64-bit integer")
	p.checks("CL.CHECK d COST 1 cost 2 a x", "-ERR option 'cost' is given twice: write -- before an attribute of this name")
	p.checks("CL.CHECK d b x size big", `-ERR limit cost: the cost, attribute size, must be an integer of at least 1, and is 'big'`)
	p.checks("CL.CHECK d c x d x e x", "-ERR more than 32 amounts apply to the request")
	if got := p.ask(words("CL.CHECK d c x d x")...); len(got.list) != 9 || len(got.list[7].list) != 32 {
		t.Errorf("32 counters: got %s", got)
	}
	p.checks("CL.REPORT d a x", "-ERR CL.REPORT needs OUTCOME after the domain, such as OUTCOME status=401")
	p.checks("CL.REPORT d PEEK OUTCOME status=401 a x", "-ERR PEEK is an option of CL.CHECK only")
	p.checks("CL.REPORT d OUTCOME status=401 dryrun a x", "-ERR DRYRUN is an option of CL.CHECK only")
	p.checks("CL.CHECK d OUTCOME a x", "-ERR OUTCOME is an option of CL.REPORT only")
	p.checks("CL.REPORT d COST OUTCOME status=401 a x", "-ERR invalid COST 'OUTCOME': must be a 64-bit integer")
	p.checks("CL.REPORT d OUTCOME failed a x", "-ERR invalid OUTCOME 'failed': must be status=CODE, such as status=401")
	p.checks("CL.REPORT d OUTCOME state=401 a x", "-ERR invalid OUTCOME 'state=401': must be status=CODE, such as status=401")
	p.checks("CL.REPORT d OUTCOME status=40 a x", "-ERR invalid status of OUTCOME '40': must be an integer from 100 to 599")
	p.checks("CL.REPORT d OUTCOME status=099 a x", "-ERR invalid status of OUTCOME '099': must be an integer from 100 to 599")
	p.checks("CL.REPORT d OUTCOME status=600 a x", "-ERR invalid status of OUTCOME '600': must be an integer from 100 to 599")
	p.checks("CL.REPORT d OUTCOME status=x01 a x", "-ERR invalid status of OUTCOME 'x01': must be an integer from 100 to 599")
	p.checks("CL.REPORT d OUTCOME status=401 a", "-ERR attribute 'a' has no value: attributes are pairs of a name and a value")
	p.checks("FLUSHALL", "OK")
	p.checks("CL.WINDOW rule|d|a|gcra|1s 1 60 LOG", "[0 1 0 -1 60]")
	p.checks("CL.CHECK d a x", "-WRONGTYPE limit 'a': key 'rule|d|a|gcra|1s' is in use by CL.WINDOW LOG: DEL this key, and do not use keys that begin with 'rule|' in other commands")
	bare := start(t, nil).dial()
	bare.checks("CL.CHECK d a x", "-"+string(errNoRules))
	bare.checks("CL.REPORT d OUTCOME status=401 a x", "-"+string(errNoRules))
}
