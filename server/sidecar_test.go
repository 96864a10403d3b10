package server

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/internal/testserve"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/topology"
)

// fakeSidecar is the connection of a sidecar to a server in this process. The test sets whether the upstream is in use
// and whether it is silent.
type fakeSidecar struct {
	topology.Cluster // nil: the other methods are not called
	addr             string
	decides          bool
	serves           func(net.Conn) // if set, Dial takes 30 ms, and connects to a pipe that it serves
	silent           atomic.Bool
	oldRules         atomic.Bool
	suspected        atomic.Int32
	refused          atomic.Int32

	mu   sync.Mutex
	view *topology.View
	next chan struct{}
}

func (f *fakeSidecar) Status() topology.Status { return topology.Status{Mode: "sync"} }
func (f *fakeSidecar) Hold() bool              { return false }
func (f *fakeSidecar) Flush() error            { return limiter.ErrNotLeading }
func (f *fakeSidecar) Silent() bool            { return f.silent.Load() }
func (f *fakeSidecar) Suspect()                { f.suspected.Add(1) }
func (f *fakeSidecar) Refused(error)           { f.refused.Add(1) }
func (f *fakeSidecar) User() string            { return "app" }
func (f *fakeSidecar) Decides() bool           { return f.decides }
func (f *fakeSidecar) RulesKnown() bool        { return !f.oldRules.Load() }

func (f *fakeSidecar) View() *topology.View {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view
}

// use makes an address the upstream; "" for none.
func (f *fakeSidecar) use(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := f.next
	f.next = make(chan struct{})
	f.view = &topology.View{Leader: addr, Changed: f.next}
	if changed != nil {
		close(changed)
	}
}

func (f *fakeSidecar) Upstream() topology.Upstream {
	return topology.Upstream{Addresses: []string{"first:1", "second:2"}, Address: f.View().Leader, Connects: 3, Failures: 4}
}

func (f *fakeSidecar) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if f.serves != nil {
		<-time.After(30 * time.Millisecond) // the time of a handshake
		near, far := net.Pipe()
		go f.serves(far)
		return near, nil
	}
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// newSidecar starts an upstream and a sidecar of it. The engine of the sidecar decides no requests if it is nil.
func newSidecar(t *testing.T, engine limiter.Engine) (f *fakeSidecar, up, side *testServer) {
	t.Helper()
	up = setup{rules: newRules(t, labRules)}.start(t)
	f = &fakeSidecar{addr: up.addr, decides: engine != nil}
	f.use(up.addr)
	return f, up, f.serve(t, listen(t), engine, patience)
}

// serve starts a sidecar on a listener. Its engine decides no requests if it is nil.
func (f *fakeSidecar) serve(t *testing.T, ln net.Listener, engine limiter.Engine, timeout time.Duration) *testServer {
	t.Helper()
	if engine == nil {
		engine = decidesPrefix("\x00no key has this prefix")
	}
	store, err := options.New(options.Default())
	if err != nil {
		t.Fatal(err)
	}
	rules := ruleset.NewStore()
	srv := New(Config{Engine: engine, Sidecar: f, UpstreamTimeout: timeout, Options: store, Version: "test", Rules: rules, RulesLog: ruleset.NewLocal(rules, time.Now)})
	side := &testServer{Server: srv, t: t, addr: ln.Addr().String(), ln: ln, served: make(chan error, 1)}
	go func() { side.served <- srv.Serve(ln) }()
	t.Cleanup(side.end)
	return side
}

// greetOnly is an upstream that replies to the greeting of a stream, and then does not reply.
func greetOnly(conn net.Conn) {
	_, _ = conn.Read(make([]byte, 4096)) // the greeting of the stream
	_, _ = conn.Write([]byte("-ERR unknown subcommand\r\n"))
	mute(conn)
}

// mute is an upstream that does not reply.
func mute(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// TestSidecar_Deadline checks that a command of a sidecar waits for upstream-timeout at most, although the connection to the
// upstream is open late and the upstream then does not reply.
func TestSidecar_Deadline(t *testing.T) {
	const timeout = policyPatience + 100*time.Millisecond
	for name, upstream := range map[string]func(net.Conn){"greets": greetOnly, "is mute": mute} {
		for _, input := range []string{
			throttle("k"), throttle("k") + throttle("l"), request("CL.CHECK", "d", "a", "x"), request("CL.ALL", "1", "WINDOW", "w", "5", "60"),
			request("DEL", "k"), request("TTL", "k"), request("KEYS", "*"),
		} {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeSidecar{serves: upstream}
				f.use("up")
				p := f.serve(t, newPipes(), nil, timeout).dial()
				begun := time.Now()
				p.send(input)
				p.read()
				if took := time.Since(begun); took != timeout || f.suspected.Load() == 0 {
					t.Errorf("an upstream that %s, %q: the reply takes %v, want %v; Suspect is called %d times, want at least once", name, input, took, timeout, f.suspected.Load())
				}
			})
		}
	}
}

// TestSidecar_Forwards checks that commands run on the upstream, and others on the sidecar.
func TestSidecar_Forwards(t *testing.T) {
	t.Parallel()
	f, up, side := newSidecar(t, nil)
	p, direct := side.dial(), up.dial()
	p.do(five(0, 3, 2, -1, 60), "CL.THROTTLE", "k", "2", "1", "60")
	direct.do(":1\r\n", "EXISTS", "k")
	p.do(":1\r\n", "EXISTS", "k")
	p.do(":1\r\n", "DBSIZE")
	p.do("+OK\r\n", "WATCH", "k")
	p.do("+OK\r\n", "MULTI")
	p.do("+QUEUED\r\n", "DEL", "k")
	p.do("+QUEUED\r\n", "PING")
	p.do("*2\r\n:1\r\n+PONG\r\n", "EXEC")
	p.do(":0\r\n", "WAIT", "0", "10")
	if got := p.ask("CL.CHECK", "d", "a", "x"); got.kind != '*' {
		t.Errorf("CL.CHECK: got %s, want the reply of the upstream", got)
	}
	if info := p.info("server"); info["ready"] != "1" || info["redis_mode"] != "standalone" {
		t.Errorf("INFO server: got %v, want a ready standalone server", info)
	}
	if role := p.info("replication")["role"]; role != "master" {
		t.Errorf("INFO replication: the role is %q, want master", role)
	}
	info := p.info("sidecar")
	for name, want := range map[string]string{
		"upstream": "first:1,second:2", "upstream_address": f.addr, "upstream_link_status": "up", "upstream_connects": "3",
		"upstream_connect_failures": "4", "upstream_away_open": "0", "upstream_away_closed": "0",
	} {
		if info[name] != want {
			t.Errorf("INFO sidecar: %s is %q, want %q", name, info[name], want)
		}
	}
	if info := direct.info("sidecar"); len(info) > 0 {
		t.Errorf("INFO sidecar of another server: got %v, want no section", info)
	}
	if s := side.Statistics().Upstream; !s.Used || !s.Answers || s.Connects != 3 || s.Failures != 4 {
		t.Errorf("Statistics: got %+v", s)
	}
}

// TestSidecar_Refuses checks the error of each refused command, also in a transaction, and that it names the upstream.
func TestSidecar_Refuses(t *testing.T) {
	t.Parallel()
	f, _, side := newSidecar(t, nil)
	p := side.dial()
	rows := newRegistry(commandTable(), onRedis)
	for name := range refusedBySidecar {
		cmd := rows.named(name)
		if cmd == nil {
			t.Errorf("%s: there is no such command", name)
			continue
		}
		words := strings.Split(strings.ToUpper(name), "|")
		for len(words) < max(cmd.arity, -cmd.arity) {
			words = append(words, "x")
		}
		p.fails("ERR a sidecar holds no state; send "+strings.ReplaceAll(strings.ToUpper(name), "|", " ")+" to "+f.addr, words...)
	}
	f.use("")
	p.fails("ERR a sidecar holds no state; send FLUSHALL to first:1", "FLUSHALL")
	p.fails("ERR a sidecar holds no state; send CL.LEASE.LIST to first:1", "CL.LEASE.LIST", "k") // see refusedBySidecar
	p.do("+OK\r\n", "MULTI")
	p.fails("ERR a sidecar holds no state", "FLUSHALL")
	p.fails("EXECABORT", "EXEC")
}

// TestSidecar_Classified checks that each command that only a leader runs, or that changes all keys, is either refused by
// a sidecar or in the list of those that it forwards.
func TestSidecar_Classified(t *testing.T) {
	forwarded := map[string]bool{
		"cl.rules|explain": true, "cl.rules|get": true, "cl.rules|history": true, "cl.rules|list": true, "wait": true,
		"cl.check": true, "cl.report": true, "cl.lease.return": true,
	}
	for _, cmd := range newRegistry(commandTable(), onRedis).every {
		if (cmd.leader || cmd.is(write) && cmd.keys.first == 0) && refusedBySidecar[cmd.name] == forwarded[cmd.name] {
			t.Errorf("%s: refused is %t, forwarded %t, want one of both", cmd.name, refusedBySidecar[cmd.name], forwarded[cmd.name])
		}
	}
}

// TestSidecar_Away checks the replies by upstream-away of limiter commands, and the errors of other commands.
func TestSidecar_Away(t *testing.T) {
	t.Parallel()
	f, _, side := newSidecar(t, nil)
	f.use("")
	f.silent.Store(true)
	p := side.dial()
	none := "*0\r\n"
	for _, tt := range []struct {
		words        string
		closed, open string
	}{
		{"CL.THROTTLE k 2 1 60", five(1, 3, 0, 1, 1), five(0, 3, 2, -1, 0)},
		{"CL.THROTTLE k 2 1 60 MS", five(1, 3, 0, 1000, 1000), five(0, 3, 2, -1, 0)},
		{"CL.THROTTLE k 2 1 60 0", five(1, 3, 0, 1, 1), five(0, 3, 3, -1, 0)},
		{"CL.THROTTLE k 2 1 60 -5", five(1, 3, 0, 1, 1), five(0, 3, 3, -1, 0)},
		{"CL.THROTTLE k 2 1 60 9", five(1, 3, 0, -1, 1), five(0, 3, 0, -1, 0)},
		{"CL.LEAKY k 2 1 60", "*6\r\n:1\r\n:2\r\n:0\r\n:1\r\n:1\r\n:-1\r\n", "*6\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:0\r\n:0\r\n"},
		{"CL.CHECK d a x", "*9\r\n:1\r\n:0\r\n:0\r\n:1\r\n:1\r\n$0\r\n\r\n*1\r\n$10\r\nfailclosed\r\n" + none + ":0\r\n",
			"*9\r\n:0\r\n:9223372036854775807\r\n:9223372036854775807\r\n:-1\r\n:0\r\n$0\r\n\r\n*1\r\n$8\r\nfailopen\r\n" + none + ":0\r\n"},
	} {
		p.do("+OK\r\n", "CONFIG", "SET", "upstream-away", "closed")
		p.do(tt.closed, strings.Fields(tt.words)...)
		p.do("+OK\r\n", "CONFIG", "SET", "upstream-away", "open")
		p.do(tt.open, strings.Fields(tt.words)...)
	}
	p.fails("ERR", "CL.THROTTLE", "k", "x", "1", "60")
	p.fails("ERR", "CL.CHECK", "d", "COST")
	if got := p.ask("CL.ALL", "1", "THROTTLE", "k", "2", "1", "60", "WINDOW", "w", "5", "60"); got.kind != '*' || !strings.Contains(got.String(), "0") {
		t.Errorf("CL.ALL: got %s, want an array", got)
	}
	for _, words := range []string{"DEL k", "TTL k", "CL.REPORT d 401 b x", "CL.RULES LIST"} {
		p.fails("LOADING the upstream server does not answer", strings.Fields(words)...)
	}
	if open, closed := p.count("sidecar", "upstream_away_open"), p.count("sidecar", "upstream_away_closed"); open != 8 || closed != 7 {
		t.Errorf("upstream_away_open is %d, upstream_away_closed %d, want 8 and 7", open, closed)
	}
	if n := p.count("stats", "rules_failopen"); n != 1 {
		t.Errorf("rules_failopen is %d, want 1", n)
	}
	p.do("+OK\r\n", "CONFIG", "RESETSTAT")
	if n := p.count("sidecar", "upstream_away_open"); n != 0 {
		t.Errorf("upstream_away_open after CONFIG RESETSTAT is %d, want 0", n)
	}
	f.silent.Store(false)
	f.use(f.addr)
	p.do(five(0, 3, 2, -1, 60), "CL.THROTTLE", "k", "2", "1", "60")
}

// TestSidecar_UpstreamUndecided checks that upstream-away applies to replies of an upstream without a leader, and not to
// other errors.
func TestSidecar_UpstreamUndecided(t *testing.T) {
	t.Parallel()
	f, _, side := newSidecar(t, nil)
	p := side.dial()
	for reply, want := range map[string]string{
		"-LOADING the cluster has no leader": five(1, 3, 0, 1, 1), "-UNCERTAIN leadership": five(1, 3, 0, 1, 1), "-BUSY clients": five(1, 3, 0, 1, 1),
		"-NOPERM no": "-NOPERM no\r\n", "-OOM memory": "-OOM memory\r\n",
	} {
		f.use(answering(t, reply))
		p.do(want, "CL.THROTTLE", "k", "2", "1", "60")
	}
}

// TestSidecar_UncertainRefund checks that a refund or a return of leased units that the upstream may have run is not answered by
// upstream-away, with or without rules, and that other ones are.
func TestSidecar_UncertainRefund(t *testing.T) {
	t.Parallel()
	f, _, side := newSidecar(t, nil)
	p := side.dial()
	refunds := []string{"CL.THROTTLE k 2 1 60 -1", "CL.WINDOW w 3 60 -1 FIXED", "CL.ALL -1 THROTTLE a 2 1 60 THROTTLE b 2 1 60", "CL.CHECK d COST -1 p x ip 1", "CL.LEASE.RETURN 0000000000000001:k 1"}
	check := func(certain bool) {
		t.Helper()
		for _, policy := range []string{"closed", "open"} {
			p.do("+OK\r\n", "CONFIG", "SET", "upstream-away", policy)
			for _, refund := range refunds {
				v := p.ask(words(refund)...)
				if got := v.kind != '-'; got != certain || !certain && v.brief() != "-"+string(errUpstreamUncertain) && v.brief() != "-UNCERTAIN lost" {
					t.Errorf("%s, by upstream-away %s: got %s; want a decision: %t", refund, policy, v.brief(), certain)
				}
			}
		}
		if v := p.ask(words("CL.CHECK d DRYRUN COST -1 p x ip 1")...); v.kind != '*' {
			t.Errorf("a refund with DRYRUN, which has no effect: got %s, want a decision", v.brief())
		}
	}
	for range 2 { // without rules, and with them
		f.use(answering(t, "-UNCERTAIN lost"))
		check(false)
		f.use(answering(t, "-LOADING no leader"))
		check(true)
		setRules(t, side.rules.store, awayRules)
	}
}

// answering returns the address of a server that replies to each command of one argument or more with the same line.
func answering(t *testing.T, line string) string {
	t.Helper()
	return testserve.Each(t, listen(t), func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		for buf := make([]byte, 4096); ; {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			if _, err := conn.Write([]byte(line + "\r\n")); err != nil {
				return
			}
		}
	})
}

// TestSidecar_Suspects checks the timeouts of an upstream that accepts connections and then does not reply: the first
// command waits, and is reported to the connection.
func TestSidecar_Suspects(t *testing.T) {
	t.Parallel()
	f, _, side := newSidecar(t, nil)
	side.upstreamTimeout, side.forward.Timeouts.Reply = patience, 20*time.Millisecond // patience: until the connection is open
	f.use(testserve.Each(t, listen(t), greetOnly))
	p := side.dial()
	p.do(five(1, 3, 0, 1, 1), "CL.THROTTLE", "k", "2", "1", "60")
	if f.suspected.Load() == 0 {
		t.Error("Suspect was not called, want a call")
	}
	p.fails("UNCERTAIN the upstream server has not replied in time", "DEL", "k")
	f.silent.Store(true)
	before := side.forward.Errors.Load()
	p.do(five(1, 3, 0, 1, 1), "CL.THROTTLE", "k", "2", "1", "60")
	if f.suspected.Load() > 2 || side.forward.Errors.Load() == before {
		t.Error("a command was sent to a silent upstream, want none")
	}
}

// TestSidecar_LeaseAmongOthers sends a draw, which is forwarded, together with requests that the sidecar decides. Their decisions
// must stand: their units are spent.
func TestSidecar_LeaseAmongOthers(t *testing.T) {
	t.Parallel()
	engine := spending{decidesPrefix("local"), new(atomic.Int32)}
	_, up, side := newSidecar(t, engine)
	p := side.dial()
	p.send(throttle("local1") + request(lease...) + throttle("local2"))
	p.expect(five(0, 7, 6, -1, 0))
	if v := p.read(); len(v.list) != 8 || v.list[0].text != "10" {
		t.Errorf("got %s, want a lease of 10 units", v)
	}
	p.expect(five(0, 7, 6, -1, 0))
	if got := engine.spent.Load(); got != 2 {
		t.Errorf("the sidecar has decided %d requests, want 2", got)
	}
	up.dial().do(":1\r\n", "DBSIZE")
}

// TestSidecar_ForwardsLeases draws and returns a lease through a sidecar. The upstream must grant it to the user of the
// sidecar, and the sidecar grant no units of its own, also while the upstream does not answer.
func TestSidecar_ForwardsLeases(t *testing.T) {
	t.Parallel()
	f, up, side := newSidecar(t, nil)
	p, direct := side.dial(), up.dial()
	id := p.draw()
	if got := direct.ask("CL.LEASE.LIST", "k").brief(); !strings.Contains(got, "user default lessee one units 10") {
		t.Errorf("the upstream lists %s, want a lease of 10 units of the user of the sidecar", got)
	}
	p.do(":4\r\n", "CL.LEASE.RETURN", id, "4")
	direct.do(":6\r\n", "CL.LEASE.RETURN", id, "6")
	f.use("")
	f.silent.Store(true)
	for _, policy := range []string{"closed", "open", "local"} {
		p.do("+OK\r\n", "CONFIG", "SET", "upstream-away", policy)
		if v := p.ask(lease...); len(v.list) != 8 || v.list[0].text != "0" {
			t.Errorf("upstream-away %s: got %s, want no units", policy, v)
		}
		p.do(":0\r\n", "CL.LEASE.RETURN", id, "1")
	}
}
