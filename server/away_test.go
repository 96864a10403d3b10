package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/buckets"
)

// awayRules have a limit with each value of on_failure, and without it.
const awayRules = `
version: 1
domain: d
limits:
  plain: {when: {p: x}, per: ip, allow: 4 per 1h, algorithm: fixed}
  soft: {when: {s: x}, per: ip, allow: 4 per 1h, algorithm: fixed, soft: 100%}
  login: {when: {q: x}, allow: 5 per 1h, charge: {status: [401]}}
  open: {when: {o: x}, allow: 1 per 1h, on_failure: open}
  shut: {when: {c: x}, allow: 9 per 1h, on_failure: closed}
  local: {when: {l: x}, per: ip, allow: 2 per 1h, algorithm: fixed, on_failure: local}
---
version: 1
domain: e
default: {allow: 1 per 1h}
limits: {a: {when: {a: x}, allow: 1 per 1h}}
`

// newAwaySidecar starts a sidecar without an upstream, and with the options of upstream-away local and a share of 1/2.
func newAwaySidecar(t *testing.T) (side *testServer, p *peer) {
	t.Helper()
	return newAwaySidecarWith(t, buckets.New(buckets.Config{Shards: 8}))
}

// newAwaySidecarWith is newAwaySidecar with the given table.
func newAwaySidecarWith(t *testing.T, table Decider) (side *testServer, p *peer) {
	t.Helper()
	f, _, side := newSidecar(t, nil)
	side.rules.local = table
	f.use("")
	f.silent.Store(true)
	p = side.dial()
	p.do("+OK\r\n", "CONFIG", "SET", "upstream-away", "local", "upstream-share", "1/2")
	return side, p
}

// TestSidecar_AwayLocal checks that each limiter command is decided with half of its limits, alone and in groups.
func TestSidecar_AwayLocal(t *testing.T) {
	t.Parallel()
	_, p := newAwaySidecar(t)
	for _, tt := range []struct {
		words    string
		admitted int
	}{
		{"CL.THROTTLE a 7 1 3600", 4},
		{"CL.THROTTLE one 0 1 3600", 1}, // a share has at least one unit
		{"CL.WINDOW b 10 3600 FIXED", 5},
		{"CL.WINDOW c 10 3600 LOG", 5},
		{"CL.WINDOW d 9 3600 SLIDING", 4},
		{"CL.BUCKET e 6 1 3600", 3},
		{"CL.LEAKY f 6 1 3600", 3},
		{"CL.THROTTLE g 19 1 3600 5", 2},
		{"CL.ALL 1 THROTTLE h 19 1 3600 WINDOW i 6 3600 FIXED", 3},
		{"CL.THROTTLE h 19 1 3600", 7}, // the group has charged 3 of 10
		{"CL.WINDOW i 6 3600 FIXED", 0},
	} {
		admitted := 0
		for range 20 {
			if v := p.ask(strings.Fields(tt.words)...); v.kind != '*' {
				t.Fatalf("%s: got %s", tt.words, v)
			} else if v.list[0].int() == 0 {
				admitted++
			}
		}
		if admitted != tt.admitted {
			t.Errorf("%s: %d of 20 requests were admitted, want %d", tt.words, admitted, tt.admitted)
		}
	}
}

// TestSidecar_AwayLocalCounts checks the counters, and requests that the share cannot decide.
func TestSidecar_AwayLocalCounts(t *testing.T) {
	t.Parallel()
	side, p := newAwaySidecar(t)
	p.do(five(0, 2, 1, -1, 3600), "CL.THROTTLE", "k", "3", "2", "3600")
	p.do(five(0, 2, 0, -1, 7200), "CL.THROTTLE", "k", "3", "2", "3600")
	p.do(five(1, 2, 0, 3600, 7200), "CL.THROTTLE", "k", "3", "2", "3600")
	p.do(five(0, 2, 1, -1, 3600), "CL.THROTTLE", "k", "3", "2", "3600", "-1")
	p.do(five(1, 10, 0, 1, 1), "CL.WINDOW", "k", "10", "60", "FIXED")       // another kind of limit
	p.do(five(1, 2, 2, 1, 1), "CL.THROTTLE", "full", "3", "2", "7200", "3") // more than the share, and not more than the limit
	p.do(five(1, 2, 2, -1, 0), "CL.THROTTLE", "full", "3", "2", "7200", "5")
	v := p.ask("CL.LEASE", "5", "1000", "THROTTLE", "k", "99", "1000", "1")
	if v.list[0].int() != 0 || v.list[2].int() != 0 {
		t.Errorf("CL.LEASE: got %s, want no units, and no refusal", v)
	}
	if v := p.ask("CL.CHECK", "d", "a", "x").brief(); !strings.Contains(v, "failclosed") {
		t.Errorf("CL.CHECK without rules: got %s, want failclosed", v)
	}
	for name, want := range map[string]int64{"upstream_away_local": 3, "upstream_away_local_refused": 3, "upstream_away_open": 0, "upstream_away_closed": 2} {
		if got := p.count("sidecar", name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if s := side.Statistics().Upstream; s.Local != 3 || s.LocalRefused != 3 {
		t.Errorf("Statistics: got %+v, want 3 local and 3 refused", s)
	}
	p.do("+OK\r\n", "CONFIG", "RESETSTAT")
	if n := p.count("sidecar", "upstream_away_local"); n != 0 {
		t.Errorf("upstream_away_local after CONFIG RESETSTAT is %d, want 0", n)
	}
}

// TestSidecar_AwayRules checks that on_failure of a limit precedes upstream-away, in CL.CHECK on a sidecar with rules.
func TestSidecar_AwayRules(t *testing.T) {
	t.Parallel()
	side, p := newAwaySidecar(t)
	setRules(t, side.rules.store, awayRules)
	check := func(line, want string) {
		t.Helper()
		v := p.ask(words("CL.CHECK " + line)...)
		got := v.list[0].brief() + " " + v.list[1].brief() + " " + v.list[2].brief() + " " + v.list[6].brief()
		if got != want {
			t.Errorf("CL.CHECK %s: got %s, want %s", line, got, want)
		}
	}
	const all = "9223372036854775807"
	for _, want := range []string{"0 2 1 [local]", "0 2 0 [local]", "1 2 0 [local]"} {
		check("d p x ip 1", want)
	}
	for _, want := range []string{"0 2 1 [local]", "0 2 0 [local]", "0 2 0 [soft local]", "0 2 0 [soft local]", "1 2 0 [local]"} {
		check("d s x ip 1", want)
	}
	check("d l x ip 1", "0 1 0 [local]")
	check("d l x ip 1", "1 1 0 [local]")
	check("d o x", "0 "+all+" "+all+" [failopen]")
	check("d c x", "1 0 0 [failclosed]")
	check("d p x ip 2 c x", "1 0 0 [failclosed]")
	check("d p x ip 2", "0 2 1 [local]") // not charged by the request above
	check("d q x", "1 0 0 [report failclosed]")
	check("d z x", "0 "+all+" "+all+" [unmatched failopen]")
	check("e z x", "0 1 0 [default local]")
	check("e z x", "1 1 0 [default local]")

	p.do("+OK\r\n", "CONFIG", "SET", "upstream-away", "closed")
	check("d p x ip 3", "1 0 0 [failclosed]")
	check("d o x", "0 "+all+" "+all+" [failopen]")
	check("d l x ip 3", "0 1 0 [local]")
	p.do("+OK\r\n", "CONFIG", "SET", "upstream-away", "open", "upstream-share", "1")
	check("d p x ip 3", "0 "+all+" "+all+" [failopen]")
	check("d l x ip 4", "0 2 1 [local]")
	if n := p.count("sidecar", "upstream_away_closed"); n != 4 {
		t.Errorf("upstream_away_closed is %d, want 4", n)
	}
}

// TestSidecar_AwayRulesUndecided checks CL.CHECK if the table of the sidecar cannot decide: limits without on_failure are
// refused, and those with on_failure local are admitted.
func TestSidecar_AwayRulesUndecided(t *testing.T) {
	t.Parallel()
	for _, table := range []Decider{fullDecider{}, nil} {
		side, p := newAwaySidecarWith(t, table)
		setRules(t, side.rules.store, awayRules)
		for _, tt := range []struct{ request, want string }{
			{"d p x ip 1", "1 [failclosed]"},
			{"d l x ip 1", "0 [failopen]"},
			{"d p x l x ip 1", "1 [failclosed]"},
			{"e z x", "1 [default failclosed]"},
		} {
			v := p.ask(words("CL.CHECK " + tt.request)...)
			if got := v.list[0].brief() + " " + v.list[6].brief(); got != tt.want {
				t.Errorf("CL.CHECK %s: got %s, want %s", tt.request, got, tt.want)
			}
		}
		if n := p.count("sidecar", "upstream_away_closed"); n != 3 {
			t.Errorf("upstream_away_closed is %d, want 3", n)
		}
	}
}

// TestSidecar_AwayLocalUndecided checks that a refusal without a decision of the share is that of the whole limit.
func TestSidecar_AwayLocalUndecided(t *testing.T) {
	t.Parallel()
	_, p := newAwaySidecarWith(t, fullDecider{})
	p.do(five(1, 100, 0, 1, 1), "CL.THROTTLE", "k", "99", "1", "60", "80")
	p.do(five(1, 100, 0, -1, 1), "CL.THROTTLE", "k", "99", "1", "60", "101")
}

// TestSidecar_AwayFlags checks that the replies to a Caller, and only these, have the flag of upstream-away.
func TestSidecar_AwayFlags(t *testing.T) {
	t.Parallel()
	side, p := newAwaySidecar(t)
	c := side.NewCaller()
	defer c.Close()
	p.ask("HELLO", "3")
	for i, tt := range []struct{ policy, flag, reply string }{
		{"open", "failopen", five(0, 4, 3, -1, 0)},
		{"closed", "failclosed", five(1, 4, 0, 1, 1)},
		{"local", "local", five(0, 2, 1, -1, 7200)},
		{"local", "failclosed", five(1, 4, 0, 1, 1)}, // keys of another kind of limit
	} {
		p.do("+OK\r\n", "CONFIG", "SET", "upstream-away", tt.policy)
		plain, marked := fmt.Sprint("plain", i), fmt.Sprint("marked", i)
		if i == 3 {
			p.ask("CL.ALL", "1", "BUCKET", plain, "4", "1", "3600", "BUCKET", marked, "4", "1", "3600")
		}
		p.do(tt.reply, "CL.THROTTLE", plain, "3", "1", "3600")
		want := fmt.Sprintf("|1\r\n$5\r\nflags\r\n~1\r\n$%d\r\n%s\r\n", len(tt.flag), tt.flag) + tt.reply
		if got, err := c.Run([]byte(request("CL.THROTTLE", marked, "3", "1", "3600")), nil); err != nil || string(got) != want {
			t.Errorf("upstream-away %s: the Caller got %q, %v, want %q", tt.policy, got, err, want)
		}
	}
}

// TestSidecar_AwayRuleKeys checks that a limiter command does not use the counter of a rule while a share decides.
func TestSidecar_AwayRuleKeys(t *testing.T) {
	t.Parallel()
	side, p := newAwaySidecar(t)
	setRules(t, side.rules.store, awayRules)
	p.do(five(0, 2, 1, -1, 3600), "CL.WINDOW", "rule|d|p|fixed|1h|ip=1", "4", "3600", "LOG")
	v := p.ask(words("CL.CHECK d p x ip 1")...)
	if got := v.list[2].brief() + " " + v.list[6].brief(); got != "1 [local]" {
		t.Errorf("CL.CHECK: got %s, want 1 unit remaining and the flag local", got)
	}
}
