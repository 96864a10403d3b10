package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/server/forward"
	"github.com/throttledhq/throttled/topology"
)

// two renders the reply to CL.CHECK d a x in a lab, after n requests in the frozen time of the lab.
func two(n int64) string {
	// 1,700,000,000 is 20 seconds before the end of a minute, and 46 minutes and 40 seconds before the end of an hour.
	minute, hour := fmt.Sprintf("0 2 %d -1 40", 2-n), fmt.Sprintf("0 3 %d -1 2800", 3-n)
	if n > 2 {
		minute, hour = "1 2 0 40 40", "0 3 1 -1 2800"
	}
	return fmt.Sprintf("[%s two [] [[two 1m %s []] [two 1h %s []]] 1]", minute, minute, hour)
}

// failedTwo is the reply to CL.CHECK d a x if no leader has decided.
var failedTwo = "[" + unlimitedFive + " two [failopen] [[two 1m " + unlimitedFive + " [failopen]] [two 1h " + unlimitedFive + " [failopen]]] 1]"

var checkTwo = request("CL.CHECK", "d", "a", "x")

// TestForwardedChecks runs CL.CHECK and CL.REPORT on a follower: alone, in pipelines, and in transactions.
func TestForwardedChecks(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	for _, p := range []*peer{l.nodes["b"].dial(), l.nodes["b"].at(l.nodes["b"].cluster)} {
		p.checks("FLUSHALL", "OK")
		p.checks("CL.CHECK d a x", two(1))
		p.send(ping + checkTwo + request("CLIENT", "REPLY", "SKIP") + checkTwo + checkTwo + request("CL.CHECK", "d", "a"))
		p.expect("+PONG\r\n")
		for _, want := range []string{two(2), two(3), "-ERR attribute 'a' has no value: attributes are pairs of a name and a value"} {
			if got := p.read().brief(); got != want {
				t.Errorf("in a pipeline: got %s, want %s", got, want)
			}
		}
		p.checks("CL.CHECK d other x", "["+unlimitedFive+" '' [unmatched] [] 1]")
		p.checks("MULTI", "OK")
		p.checks("CL.CHECK d a x", "QUEUED")
		p.checks("PING", "QUEUED")
		p.checks("CL.REPORT d OUTCOME status=401 b x", "QUEUED")
		p.checks("CL.CHECK e", "QUEUED")
		p.checks("EXEC", "["+two(3)+" PONG [0 2 1 -1 40 login [report] [[login 1m 0 2 1 -1 40 [report]]] 1] -ERR unknown domain 'e': did you mean d?]")
		p.ask("HELLO", "3")
		if got, _ := p.ask("CL.CHECK", "d", "a", "x").field("name"); got.text != "two" {
			t.Errorf("the name in RESP3 is %s, want two", got)
		}
	}
	if got := l.nodes["b"].dial().info("commandstats")["cmdstat_cl.check"]; !strings.HasPrefix(got, "calls=18,") || !strings.HasSuffix(got, "failed_calls=4") {
		t.Errorf("cmdstat_cl.check is %s, want 18 calls and 4 failed calls", got)
	}
}

// TestChecksChargedMarks is TestChargedMarks for CL.CHECK and CL.REPORT.
func TestChecksChargedMarks(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["a"].at(l.nodes["a"].peers)
	p.do("+OK\r\n", "CLIENT", "CAPA", "CHARGED")
	f := func(line string, charged bool) {
		t.Helper()
		p.send(request(words(line)...))
		mark := forward.ChargedMark
		if !charged {
			mark = "*9\r\n"
		}
		p.expect(mark)
		for range 8 + countTrue(!charged) {
			if charged {
				p.read()
				return
			}
			p.read()
		}
	}
	f("CL.CHECK d a x", true)
	f("CL.CHECK d PEEK a x", false)
	f("CL.CHECK d DRYRUN a x", false)
	f("CL.CHECK d COST 3 a x", false)
	f("CL.CHECK d COST -1 a x", true)
	f("CL.CHECK d b x", false)
	f("CL.CHECK d z x", false)
	f("CL.REPORT d OUTCOME status=200 b x", false)
	f("CL.REPORT d OUTCOME status=401 b x", true)
	f("CL.REPORT d COST 5 OUTCOME status=401 b x", true)
	f("CL.REPORT d OUTCOME status=401 b x", false)
}

// TestChecksAwaitCommit checks that the reply to CL.CHECK is sent after the commit, unless no limit requires this.
func TestChecksAwaitCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	p, late := l.nodes["a"].greet(), l.nodes["a"].greet()
	release := l.hold()
	before := l.awaits()
	p.send(checkTwo)
	if !eventually(func() bool { return l.awaits() > before }) {
		t.Fatal("WaitCommitted was not called")
	}
	const first = "[0 3 2 -1 40 late [] [[late 1m 0 3 2 -1 40 []]] 1]"
	late.checks("CL.CHECK d c x", first) // while the commit is held
	both := l.nodes["a"].greet()
	before = l.awaits()
	both.send(request("CL.CHECK", "d", "c", "x") + checkTwo)
	if !eventually(func() bool { return l.awaits() > before }) {
		t.Fatal("a batch with both kinds of limits did not call WaitCommitted")
	}
	release(nil)
	if got := p.read().brief(); got != two(1) {
		t.Errorf("after the commit: got %s, want %s", got, two(1))
	}
	both.read()
	if got := both.read().brief(); got != two(2) {
		t.Errorf("after the commit: got %s, want %s", got, two(2))
	}
}

// TestAwaitCommit checks the errors if leadership is lost before the commit of a batch.
func TestAwaitCommit(t *testing.T) {
	l := newLab(t, "a", "b")
	l.lead("a")
	srv := l.nodes["a"].Server
	token := srv.engine.LastWrite()
	f := func(want error, waits bool, token limiter.CommitToken) {
		t.Helper()
		if err := (&batch{waits: waits}).awaitCommit(srv, token); err != want {
			t.Errorf("waits is %v, token %+v: got %v, want %v", waits, token, err, want)
		}
	}
	f(nil, true, token)
	f(nil, false, token)
	l.lead("b")
	l.lose(limiter.ErrUncertain)
	f(limiter.ErrUncertain, true, token)
	f(limiter.ErrUncertain, false, token)
	f(limiter.ErrNotLeading, false, limiter.CommitToken{Epoch: token.Epoch})
	f(limiter.ErrNotLeading, true, limiter.CommitToken{})
	f(limiter.ErrNotLeading, false, limiter.CommitToken{})
}

// TestUncertainChecks is TestUncertainBatches for CL.CHECK.
func TestUncertainChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedLab(t, "a", "b")
		l.lead("a")
		p := l.nodes["a"].at(l.nodes["a"].cluster)
		l.lose(limiter.ErrUncertain)
		p.checks("CL.CHECK d a x", failedTwo)
		p.checks("CL.CHECK d PEEK a x", failedTwo)
		p.checks("CL.CHECK d b x", "["+unlimitedFive+" login [report failopen] [[login 1m "+unlimitedFive+" [report failopen]]] 1]") // a trial
		p.checks("CL.REPORT d OUTCOME status=401 b x", "-"+string(errUncertain))
		p.checks("CL.CHECK d other x", "["+unlimitedFive+" '' [unmatched] [] 1]")
	})
}

// TestWaitForChecks checks that WAIT confirms a charge of CL.CHECK only in the term of the charge.
func TestWaitForChecks(t *testing.T) {
	t.Parallel()
	l := newAsyncLab(t, "a", "b", "c")
	for _, node := range []string{"a", "b"} {
		p := l.nodes[node].dial()
		p.checks("FLUSHALL", "OK")
		p.checks("CL.CHECK d a x", two(1))
		p.do(kept, "WAIT", "1", "0")
		l.newTerm("a", l.ids...)
		p.do(maybeNot, "WAIT", "1", "0")
		p.checks("CL.CHECK d DRYRUN a x", two(2))
		p.do(maybeNot, "WAIT", "1", "0")
	}
	l.setStatus(topology.Status{Mode: "sync"})
}

// TestChecksInBatches pipelines CL.CHECK commands with few and many limits among other commands. No group may be split.
func TestChecksInBatches(t *testing.T) {
	t.Parallel()
	rules := "version: 1\ndomain: d\nlimits:\n"
	for _, n := range []int{1, 5, 31, 32} {
		amounts := make([]string, n)
		for i := range amounts {
			amounts[i] = fmt.Sprintf("%d per %ds", 1000+n, i+1)
		}
		rules += fmt.Sprintf("  l%d: {when: {n: '%d'}, per: [k], allow: [%s]}\n", n, n, strings.Join(amounts, ", "))
	}
	clock := newTestClock()
	s := setup{engine: buckets.New(buckets.Config{Clock: clock.read, Shards: 8}), rules: newRules(t, rules)}.start(t)
	p := s.dial()
	counts := map[string]int64{}
	for i := range 60 {
		var input strings.Builder
		var want []string
		for j := range 1 + i%20 {
			n, key := []string{"0", "1", "5", "31", "32"}[(i*7+j*3)%5], fmt.Sprint("k", j%3)
			input.WriteString(request("CL.CHECK", "d", "n", n, "k", key))
			counts[n+key]++
			if n == "0" {
				want = append(want, unlimitedFive)
			} else {
				want = append(want, fmt.Sprintf("0 %s %d -1 ", plus(n, 1000), plus64(n, 1000)-counts[n+key]))
			}
			if j%4 == 3 {
				input.WriteString(request("CL.THROTTLE", "other", "1000000", "1", "1"))
				want = append(want, "0 1000001 ")
			}
		}
		p.send(input.String())
		for _, prefix := range want {
			if got := p.read().brief(); !strings.HasPrefix(got, "["+prefix) {
				t.Fatalf("got %.60s, want [%s at the beginning", got, prefix)
			}
		}
	}
}

// TestChecksOfOneVersion changes the rules while pipelines run. All replies to one pipeline in one batch must be decided
// by the same version.
func TestChecksOfOneVersion(t *testing.T) {
	t.Parallel()
	text := func(n int) string {
		return fmt.Sprintf("version: 1\ndomain: d\nlimits:\n  a: {allow: %d per 1s}\n  b: {allow: %d per 2s}\n", n, n)
	}
	store := newRules(t, text(1000))
	p := setup{rules: store}.start(t).dial()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 200 {
			setRules(t, store, text(2000+n))
		}
	}()
	newest := int64(0)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		p.send(strings.Repeat(request("CL.CHECK", "d"), 10))
		for range 10 {
			v := p.read()
			first, second := v.list[7].list[0].list[3].int(), v.list[7].list[1].list[3].int()
			if first != second || first < newest {
				t.Fatalf("limits %d and %d in one reply, after %d; want equal limits that do not decrease", first, second, newest)
			}
			newest = first
		}
	}
}

// TestTransactionsUseOneVersion changes the rules while a transaction runs. Other commands are between those that use the
// rules.
func TestTransactionsUseOneVersion(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return fmt.Sprintf("version: 1\ndomain: d\nlimits: {a: {allow: %d per 1s}}\n", n) }
	store := newRules(t, text(10))
	s := setup{rules: store, tune: func(s *Server) {
		clock, n := s.rules.clock, 0
		s.rules.clock = func() time.Time { // called after the first command has read the rules
			n++
			setRules(t, store, text(10+n))
			return clock()
		}
	}}.start(t)
	p := s.dial()
	for want := range int64(3) {
		p.send(request("MULTI") + strings.Repeat(request("CL.CHECK", "d")+ping, 3) + request("EXEC"))
		for range 7 {
			p.read()
		}
		replies := p.read().list
		for i := 0; i < len(replies); i += 2 {
			if got := replies[i].list; got[1].int() != 10+want || got[8].int() != 1+want {
				t.Errorf("command %d of transaction %d: limit %d of version %d, want %d of version %d", i, want, got[1].int(), got[8].int(), 10+want, 1+want)
			}
		}
	}
}

// TestChecksAreShown checks MONITOR and the slow log.
func TestChecksAreShown(t *testing.T) {
	t.Parallel()
	s := setup{rules: newRules(t, labRules), options: func(o *options.Options) { o.SlowlogLogSlowerThan = 0 }}.start(t)
	p, monitor := s.dial(), s.dial()
	monitor.do("+OK\r\n", "MONITOR")
	p.send(strings.Repeat(request("CL.CHECK", "d", "b", "x"), 2))
	p.read()
	p.read()
	for range 2 {
		if got := shownBy(t, monitor.read()); got != `"CL.CHECK" "d" "b" "x"` {
			t.Errorf("MONITOR shows %s, want CL.CHECK", got)
		}
	}
	if got := strings.Join(p.ask("SLOWLOG", "GET", "1").list[0].list[3].words(), " "); got != "cl.check rule|d|login|fixed|1m ... (and other commands of the batch)" {
		t.Errorf("the slow log shows %q", got)
	}
	p.fails("ERR The command has no key arguments", "COMMAND", "GETKEYS", "CL.CHECK", "d", "b", "x")
	p.ask("HELLO", "3")
	p.do("+OK\r\n", "CLIENT", "TRACKING", "ON")
	p.send(request("CL.CHECK", "d", "other", "x") + ping)
	if v := p.read(); v.kind != '%' {
		t.Errorf("got %s, want a map", v)
	}
	p.expect("+PONG\r\n") // no invalidation: the command is not read-only, and has no key arguments
}

func plus64(n string, add int64) (sum int64) {
	_, _ = fmt.Sscan(n, &sum)
	return sum + add
}

func plus(n string, add int64) string { return fmt.Sprint(plus64(n, add)) }

// TestCheckEnvoy checks a domain whose limits are charged each on its own.
func TestCheckEnvoy(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
semantics: envoy
limits:
  a: {when: {a: x}, allow: 3 per 1m, algorithm: fixed}
  b: {when: {b: x}, allow: 5 per 1m, algorithm: fixed}
  c: {when: {c: x}, allow: 1 per 1m, algorithm: fixed, shadow: true}
`)
	p := s.dial()
	p.checks("CL.CHECK d COST 2 a x b x", "[0 3 1 -1 40 a [] [[a 1m 0 3 1 -1 40 []] [b 1m 0 5 3 -1 40 []]] 1]")
	p.checks("CL.CHECK d DRYRUN COST 2 a x b x", "[1 3 1 40 40 a [] [[a 1m 1 3 1 40 40 []] [b 1m 0 5 1 -1 40 []]] 1]")
	p.checks("CL.CHECK d COST 2 a x b x", "[1 3 0 40 40 a [] [[a 1m 1 3 0 40 40 []] [b 1m 0 5 1 -1 40 []]] 1]")
	p.checks("CL.CHECK d a x b x", "[1 3 0 40 40 a [] [[a 1m 1 3 0 40 40 []] [b 1m 0 5 0 -1 40 []]] 1]")
	s.clock.advance(time.Minute)
	p.checks("CL.CHECK d COST 4 a x b x", "[1 3 0 -1 40 a [] [[a 1m 1 3 0 -1 40 []] [b 1m 0 5 1 -1 40 []]] 1]")
	if got := p.count("stats", "limited_decisions"); got != 4 {
		t.Errorf("limited_decisions is %d, want 4", got)
	}
	p.ask(words("CL.CHECK d c x")...)
	p.checks("CL.CHECK d c x", "["+unlimitedFive+" '' [shadow unmatched] [[c 1m 1 1 0 40 40 [shadow]]] 1]")
	if got := p.count("stats", "limited_decisions"); got != 4 {
		t.Errorf("limited_decisions is %d after a full shadow limit, want 4", got)
	}
}
