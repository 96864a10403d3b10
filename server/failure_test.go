package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/topology"
)

// failureRules have limits with each policy.
const failureRules = `
version: 1
domain: d
limits:
  open: {when: {a: x}, allow: 1 per 1m}
  login: {when: {b: x}, allow: 1 per 1m, on_failure: closed, charge: {status: [401]}}
  jitter: {when: {c: x}, allow: [1 per 1m, 5 per 1h], on_failure: closed, retry_jitter: 100%}
  shadow: {when: {a: x}, allow: 1 per 1m, on_failure: closed, shadow: true}
  staff: {when: {staff: x}, allow: unlimited, on_failure: closed}
  stop: {when: {stop: x}, allow: none}
  local: {when: {l: x}, per: [ip], allow: [2 per 1m, 40 per 1h], on_failure: local, soft: 50%, retry_jitter: 100%, algorithm: fixed}
---
version: 1
domain: e
default: {allow: 1 per 1m}
limits: {a: {when: {a: x}, allow: 1 per 1m}}
---
version: 1
domain: v
semantics: envoy
limits:
  a: {when: {a: x}, allow: 3 per 1m, algorithm: fixed, on_failure: local}
  b: {when: {b: x}, allow: 5 per 1m, algorithm: fixed, on_failure: local}
  shut: {when: {c: x}, allow: 9 per 1m, algorithm: fixed, on_failure: closed}
`

// failureReplies lists requests, and the replies if no leader decides them.
var failureReplies = []struct{ line, want string }{
	{"CL.CHECK d a x", "[U open [failopen] [[open 1m U [failopen]]] 2]"},
	{"CL.CHECK d PEEK MS COST 3 a x", "[U open [failopen] [[open 1m U [failopen]]] 2]"},
	{"CL.CHECK d b x", "[1 0 0 1 1 login [report failclosed] [[login 1m 1 0 0 1 1 [report failclosed]]] 2]"},
	{"CL.CHECK d MS a x b x", "[1 0 0 1000 1000 login [report failclosed] [[open 1m U [failopen]] [login 1m 1 0 0 1000 1000 [report failclosed]]] 2]"},
	{"CL.CHECK d MS b x c x", "[1 0 0 1500 1500 jitter [report failclosed] [[login 1m 1 0 0 1000 1000 [report failclosed]] [jitter 1m 1 0 0 1500 1500 [failclosed]] [jitter 1h 1 0 0 1500 1500 [failclosed]]] 2]"},
	{"CL.CHECK d staff x", "[U staff [] [[staff unlimited U [unlimited]]] 2]"},
	{"CL.CHECK d stop x b x", "[1 0 0 -1 0 stop [report failclosed] [[login 1m 1 0 0 1 1 [report failclosed]] [stop none 1 0 0 -1 0 []]] 2]"},
	{"CL.CHECK d PEEK COST -1 stop x", "[1 0 0 -1 0 stop [] [[stop none 1 0 0 -1 0 []]] 2]"},
	{"CL.CHECK d COST -1 stop x", "[0 0 0 -1 0 stop [] [[stop none 0 0 0 -1 0 []]] 2]"},
	{"CL.CHECK d z x", "[U '' [unmatched failopen] [] 2]"},
	{"CL.CHECK e z x", "[U '' [default failopen] [['' 1m U [default failopen]]] 2]"},
	{"CL.CHECK f a x", "-" + string(errNotLeading)},
	{"CL.CHECK d a", "-" + string(errNotLeading)},
	{"CL.REPORT d OUTCOME status=401 b x", "-" + string(errNotLeading)},
}

// startFailureLab starts a lab with failureRules.
func startFailureLab(t *testing.T) *lab {
	l := newPipedLab(t, "a", "b")
	setRules(t, l.rules, failureRules)
	for _, n := range l.nodes {
		n.rules.random = func() uint64 { return 1 << 63 }
	}
	return l
}

// TestOnFailure checks the replies to CL.CHECK by a node without a leader, for each policy.
func TestOnFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startFailureLab(t)
		p := l.nodes["a"].at(l.nodes["a"].clients)
		for _, tc := range failureReplies {
			want := tc.want
			if want[0] != '-' {
				want = strings.ReplaceAll(want, "U", unlimitedFive)
			}
			p.checks(tc.line, want)
		}
		p.checks("MULTI", "OK")
		p.checks("CL.CHECK d a x", "QUEUED")
		p.checks("EXEC", "-"+string(errNotLeading))
		p.checks("CL.THROTTLE k 1 1 1", "-"+string(errNotLeading))
		for name, want := range map[string]int64{"rules_failopen": 3, "rules_failclosed": 4, "rules_unmatched": 1} {
			if got := p.count("stats", name); got != want {
				t.Errorf("%s is %d, want %d", name, got, want)
			}
		}
		p.ask("HELLO", "3")
		p.checks("CL.CHECK d b x", "{limited:1 limit:0 remaining:0 retry_after:1 reset_after:1 name:login flags:~(report failclosed) limits:["+
			"{name:login window:1m limited:1 limit:0 remaining:0 retry_after:1 reset_after:1 flags:~(report failclosed)}] version:2}")
		l.lead("b")
		p.ask("HELLO", "2")
		p.checks("CL.CHECK d a x", "[0 1 0 -1 60 open [] [[open 1m 0 1 0 -1 60 []] [shadow 1m 0 1 0 -1 60 [shadow]]] 2]")
	})
}

// TestOnFailureLocal checks limits that a node decides itself. Other nodes have other counters.
func TestOnFailureLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startFailureLab(t)
		for _, n := range l.nodes {
			n.rules.local = buckets.New(buckets.Config{Clock: l.clock.read, Shards: 8})
		}
		a, b := l.nodes["a"].at(l.nodes["a"].clients), l.nodes["b"].at(l.nodes["b"].clients)
		f := func(p *peer, line, top, flags string, remaining int64) {
			t.Helper()
			v := p.ask(words(line)...)
			if got := v.list[0].brief() + " " + v.list[5].brief() + " " + v.list[6].brief(); got != top+" "+flags || v.list[2].int() != remaining {
				t.Errorf("%s: got %s, want %s %s and %d remaining", line, v.brief(), top, flags, remaining)
			}
		}
		f(a, "CL.CHECK d l x ip 1", "0 local", "[local]", 1)
		f(a, "CL.CHECK d PEEK l x ip 1", "0 local", "[local]", 1)
		f(a, "CL.CHECK d DRYRUN l x ip 1", "0 local", "[local]", 0)
		f(a, "CL.CHECK d b x l x ip 1", "1 login", "[report failclosed]", 0) // not charged
		f(a, "CL.CHECK d stop x l x ip 1", "1 stop", "[local]", 0)           // not charged
		f(a, "CL.CHECK d a x l x ip 1", "0 local", "[local]", 0)
		f(a, "CL.CHECK d l x ip 1", "0 local", "[soft local]", 0)
		f(a, "CL.CHECK d l x ip 1", "1 local", "[local]", 0)
		a.checks("CL.CHECK d MS l x ip 1", "[1 2 0 60000 60000 local [local] [[local 1m 1 2 0 60000 60000 [local]] [local 1h 0 40 37 -1 2800000 [local]]] 2]")
		f(a, "CL.CHECK d COST -2 stop x l x ip 1", "0 stop", "[local]", 0)
		f(a, "CL.CHECK d PEEK l x ip 1", "0 local", "[local]", 1)
		f(a, "CL.CHECK d l x ip 2", "0 local", "[local]", 1)
		f(b, "CL.CHECK d l x ip 1", "0 local", "[local]", 1)
		if got := a.count("stats", "rules_local"); got != 7 {
			t.Errorf("rules_local is %d, want 7: not PEEK, DRYRUN and refunds", got)
		}
		// With semantics: envoy, each limit is charged on its own, also by requests that it or another one refuses.
		f(a, "CL.CHECK v COST 2 a x b x", "0 a", "[local]", 1)
		f(a, "CL.CHECK v DRYRUN COST 2 a x b x", "1 a", "[local]", 1)
		f(a, "CL.CHECK v PEEK COST 2 a x b x", "0 a", "[local]", 1)
		f(a, "CL.CHECK v COST 2 a x b x", "1 a", "[local]", 0)
		f(a, "CL.CHECK v PEEK b x", "0 b", "[local]", 1)
		f(a, "CL.CHECK v b x c x", "1 shut", "[failclosed]", 0)
		f(a, "CL.CHECK v PEEK b x", "0 b", "[local]", 0)
		l.nodes["a"].rules.local = fullDecider{}
		f(a, "CL.CHECK d l x ip 1", "0 local", "[failopen]", 1<<63-1)
	})
}

// fullDecider is a Decider whose memory is full.
type fullDecider struct{}

func (fullDecider) Decide(_ []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	for i := range out {
		out[i].Err = limiter.ErrOutOfMemory
	}
	return limiter.CommitToken{}
}

// TestOnFailureDelay checks that requests wait for a leader, and that not each of them does during an outage.
func TestOnFailureDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startFailureLab(t)
		p := l.nodes["a"].at(l.nodes["a"].clients)
		took := func(line string) time.Duration {
			start := time.Now()
			p.ask(words(line)...)
			return time.Since(start)
		}
		f := func(line string, least, most time.Duration) {
			t.Helper()
			if got := took(line); got < least || got > most {
				t.Errorf("%s took %v, want %v to %v", line, got, least, most)
			}
		}
		const most = policyPatience + retryPause
		wait := l.nodes["a"].leaderWait()
		f("CL.CHECK d a x", policyPatience, most)
		f("CL.CHECK d a x", 0, 0)
		f("CL.CHECK d b x", 0, 0)
		f("CL.THROTTLE k 1 1 1", wait, wait+retryPause)
		time.Sleep(outageProbes) // virtual time, in a bubble
		f("CL.CHECK d a x", policyPatience, most)
		f("CL.CHECK d a x", 0, 0)
		l.setViewLeader("a", "")
		f("CL.CHECK d a x", policyPatience, most) // a new view
		l.lead("b")
		f("CL.CHECK d a x", 0, policyPatience/2)
		if got := p.ask(words("CL.CHECK d PEEK a x")...); got.list[2].int() != 0 {
			t.Errorf("the leader has decided %s, want no remaining units", got.brief())
		}
	})
}

// TestOnFailureEnds checks that an outage ends when the leader answers, without a change of the view.
func TestOnFailureEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startFailureLab(t)
		l.lead("b")
		a := l.nodes["a"]
		p := a.at(a.clients)
		f := func(want string) {
			t.Helper()
			if got := p.ask(words("CL.CHECK d PEEK a x")...); got.list[6].brief() != want {
				t.Errorf("the flags are %s, want %s", got.list[6].brief(), want)
			}
		}
		f("[]")
		a.outage.begin(a.view.Load(), a.uptime())
		f("[failopen]")
		time.Sleep(outageProbes) // virtual time, in a bubble
		f("[]")                  // waits, and is answered
		f("[]")
	})
}

// TestOnFailureUncertain checks that a request that the leader may have charged is decided by policy, and that a refund that the
// leader may have run is not.
func TestOnFailureUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startFailureLab(t)
		l.lead("a")
		l.lose(limiter.ErrUncertain)
		for _, id := range []string{"a", "b"} { // on the leader, and forwarded
			p := l.nodes[id].at(l.nodes[id].clients)
			p.checks("CL.CHECK d COST -1 a x", "-"+string(errUncertain))
			p.checks("CL.CHECK d a x", "["+unlimitedFive+" open [failopen] [[open 1m "+unlimitedFive+" [failopen]]] 2]")
			p.send(request(words("CL.CHECK d a x b x")...) + request(words("CL.THROTTLE k 1 1 1")...))
			if got := p.read().brief(); !strings.HasPrefix(got, "[1 0 0 1 1 login [report failclosed]") {
				t.Errorf("node %s: got %s, want a refusal", id, got)
			}
			if got := p.read().brief(); !strings.HasPrefix(got, "-UNCERTAIN") {
				t.Errorf("node %s: CL.THROTTLE got %s, want UNCERTAIN", id, got)
			}
		}
	})
}

// TestOnFailureOfPeers checks that a node that does not lead refuses the requests of other nodes.
func TestOnFailureOfPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startFailureLab(t)
		p := l.nodes["a"].at(l.nodes["a"].peers)
		p.send(request(words("CL.CHECK d a x")...))
		p.expect(notLeadingLine)
	})
}

func TestOutage(t *testing.T) {
	one, two := &topology.View{Changed: make(chan struct{})}, &topology.View{Changed: make(chan struct{})}
	var o outage
	f := func(want bool, v *topology.View, now time.Duration) {
		t.Helper()
		if got := o.skipWait(v, now); got != want {
			t.Errorf("after %v: got %v, want %v", now, got, want)
		}
	}
	f(false, one, 0)
	o.begin(one, time.Second)
	f(true, one, time.Second)
	f(false, two, time.Second)
	f(true, one, 2*time.Second-1)
	f(false, one, 2*time.Second)
	f(true, one, 2*time.Second)
	f(false, one, 3*time.Second)
	f(true, one, 3*time.Second)
	o.end()
	f(false, one, 3*time.Second)
}
