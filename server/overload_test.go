package server

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/options"
)

// takeAll counts the commands that run out of n.
func takeAll(u *unread, n int) (run int) {
	for range n {
		run += countTrue(u.take())
	}
	return run
}

// TestUnread checks the rule that selects the commands to refuse.
func TestUnread(t *testing.T) {
	const target = 5 * time.Millisecond
	var u unread
	if got := takeAll(&u, 1000); got != 1000 {
		t.Errorf("%d of 1000 commands run before any has waited, want all", got)
	}
	if !u.wait(0, target, true) {
		t.Error("the client does not begin to wait")
	}
	takeAll(&u, 10)
	if u.wait(target, target, true); takeAll(&u, 10) != 10 {
		t.Error("commands are refused although none has waited for longer than the target")
	}
	if u.wait(2*target, target, false); takeAll(&u, 10) != 10 {
		t.Error("commands are refused although few clients wait")
	}
	if u.wait(2*target, target, true) {
		t.Error("the client begins to wait a second time")
	}
	if got := takeAll(&u, 40); got != 40-30/decisionsPerRefusal {
		t.Errorf("%d of 40 commands run after 30 decisions, want one refusal for each %d decisions", got, decisionsPerRefusal)
	}
	if u.wait(3*target, target, true); takeAll(&u, 10) != 10 {
		t.Error("commands are refused within the target after a refusal")
	}
	if u.wait(9*target, target, true); takeAll(&u, 1) != 0 {
		t.Error("no command is refused after a second wait")
	}
	if !u.end() || takeAll(&u, 10) != 10 {
		t.Error("commands are refused after the client has stopped to wait")
	}
	if u.end() {
		t.Error("a client that does not wait ends its wait")
	}
}

// overloadClient sends pipelines, and counts the replies to limiter commands.
type overloadClient struct {
	*peer
	key           string
	decided, busy int
}

// Each pipeline has rounds of limiter commands, a PING and a transaction.
const overloadRounds, overloadCommands = 100, 200

// overloadBurst is a limit that is not reached, of which nothing is restored during the test.
const overloadBurst = 2500000

// overload sends a pipeline and checks the order of the replies.
func (c *overloadClient) overload() {
	limiter := request("CL.THROTTLE", c.key, fmt.Sprint(overloadBurst), "1", "3600")
	round := strings.Repeat(limiter, overloadCommands) + request("PING") + request("MULTI") + limiter + request("EXEC")
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write([]byte(strings.Repeat(round, overloadRounds)))
		sent <- err
	}()
	for range overloadRounds {
		for range overloadCommands {
			c.reply()
		}
		for _, want := range []string{"+PONG", "+OK", "+QUEUED", "*1"} {
			if got := c.line(); got != want {
				c.t.Errorf("reply %q, want %q", got, want)
				return
			}
		}
		before := c.busy
		if c.reply(); c.busy > before {
			c.t.Error("a command of a transaction was refused")
		}
	}
	if err := <-sent; err != nil {
		c.t.Errorf("write: %v", err)
	}
}

// remaining returns the remaining units in the reply to a request without a charge.
func (c *overloadClient) remaining() string {
	if _, err := c.Write([]byte(request("CL.THROTTLE", c.key, fmt.Sprint(overloadBurst), "1", "3600", "0"))); err != nil {
		c.t.Errorf("write: %v", err)
	}
	lines := make([]string, 6)
	for i := range lines {
		lines[i] = c.line()
	}
	return lines[3]
}

func (c *overloadClient) line() string {
	text, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Errorf("read: %v", err)
		runtime.Goexit()
	}
	return strings.TrimRight(text, "\r\n")
}

// reply reads the reply to a limiter command.
func (c *overloadClient) reply() {
	switch got := c.line(); got {
	case "*5":
		for range 5 {
			c.line()
		}
		c.decided++
	case "-" + string(errOverloaded):
		c.busy++
	default:
		c.t.Errorf("unexpected reply %.100q", got)
	}
}

// TestOverload overloads a server, and checks that the refused commands have charged nothing, that all replies are in
// order, and that a client that awaits each reply is not refused.
func TestOverload(t *testing.T) {
	s := start(t, func(o *options.Options) { o.OverloadTarget = time.Millisecond })
	polite := s.dial()
	clients := make([]*overloadClient, 2*overloadClients)
	for i := range clients {
		clients[i] = &overloadClient{peer: s.dial(), key: fmt.Sprint("k", i)}
	}
	for deadline := time.Now().Add(time.Minute); s.stats.overloaded.Load() == 0 && time.Now().Before(deadline); {
		var all sync.WaitGroup
		for _, c := range clients {
			all.Go(c.overload)
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
				polite.do("*5\r\n:0\r\n:16\r\n:16\r\n:-1\r\n:0\r\n", "CL.THROTTLE", "polite", "15", "30", "60", "0")
			}
		}
	}
	decided, busy := 0, 0
	for _, c := range clients {
		decided, busy = decided+c.decided, busy+c.busy
		if got, want := c.remaining(), fmt.Sprintf(":%d", overloadBurst+1-c.decided); got != want {
			t.Errorf("the key of a client has %s left after %d decisions, want %s", got, c.decided, want)
		}
	}
	if busy == 0 || int64(busy) != s.stats.overloaded.Load() || s.stats.errorCounts()["BUSY"] != int64(busy) {
		t.Errorf("%d commands were refused; %d are counted, %d errors", busy, s.stats.overloaded.Load(), s.stats.errorCounts()["BUSY"])
	}
	if decided < busy*decisionsPerRefusal {
		t.Errorf("%d commands were decided and %d refused, want at most one for each %d decisions", decided, busy, decisionsPerRefusal)
	}
	if n := s.overload.waiting.Load(); n > int64(len(clients)) || n < 0 {
		t.Errorf("%d clients wait", n)
	}
}

// TestOverload_Commands checks which commands are refused.
func TestOverload_Commands(t *testing.T) {
	rules := newRules(t, "version: 1\ndomain: shop\nlimits:\n  api: {allow: 5 per minute, on_failure: closed}\n  login: {charge: {status: [401]}, allow: 5 per minute}\n")
	s := setup{rules: rules}.start(t)
	for _, c := range []struct {
		refused bool
		words   []string
	}{
		{true, []string{"CL.THROTTLE", "k", "1", "1", "60"}},
		{true, []string{"CL.ALL", "1", "THROTTLE", "k", "1", "1", "60"}},
		{true, []string{"CL.REPORT", "shop", "OUTCOME", "status=401"}},
		{false, []string{"CL.CHECK", "shop", "path", "/"}}, // on_failure applies to it
		{false, []string{"PING"}},
		{false, []string{"DEL", "k"}},
	} {
		caller := callerOf(t, s.Server)
		caller.client.pipe.unread.refuse = 1
		got, err := caller.Run([]byte(request(c.words...)), nil)
		if refused := string(got) == string(overloadedReply); err != nil || refused != c.refused || !refused && got[0] == '-' {
			t.Errorf("%s: reply %q, error %v; want refused: %v", c.words[0], got, err, c.refused)
		}
	}
}
