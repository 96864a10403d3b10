package server

import (
	"net"
	"slices"
	"strings"
	"testing"
)

// eventLoop drives pipelines without connections, as an event loop would: one goroutine advances all pipelines, and
// starts another goroutine for each wait.
type eventLoop struct {
	waited  chan *client // receives each client whose wait is over
	pending int
	needs   map[*client][]need // needs of each client, in order
	written map[*client]string // replies of each client, in order
	largest int                // size of the largest reply buffer before a write
}

func newEventLoop() *eventLoop {
	return &eventLoop{waited: make(chan *client), needs: map[*client][]need{}, written: map[*client]string{}}
}

// feed passes commands to a client and advances its pipeline.
func (e *eventLoop) feed(t *testing.T, c *client, text string) {
	t.Helper()
	input := strings.NewReader(text)
	for input.Len() > 0 {
		if _, err := c.conn.in.Fill(input); err != nil {
			t.Fatal(err)
		}
	}
	c.pipe.begin(c.conn.in)
	e.advance(c)
}

func (e *eventLoop) advance(c *client) {
	n := c.pipe.advance()
	for ; n == needWrite; n = c.pipe.advance() {
		e.write(c)
	}
	e.write(c)
	if n == needNothing {
		c.pipe.idle()
		return
	}
	e.needs[c] = append(e.needs[c], n)
	e.pending++
	go func() {
		c.pipe.wait()
		e.waited <- c
	}()
}

func (e *eventLoop) write(c *client) {
	e.largest = max(e.largest, c.out.Size())
	e.written[c] += string(c.out.Bytes())
	c.out.Truncate(0, keepOut)
}

// run advances pipelines until none waits.
func (e *eventLoop) run() {
	for ; e.pending > 0; e.pending-- {
		e.advance(<-e.waited)
	}
}

// detached returns a client of server s. No goroutine serves the client.
func detached(t *testing.T, s *Server) *client {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return newClient(s, near, &redisListener)
}

// mixed contains commands for every way in which a pipeline runs a command. mixedReplies contains their replies.
var (
	mixed = throttle("k") + ping + request("TTL", "k") + request("CL.THROTTLE", "k", "2", "1", "60", "1", "x") +
		request("MULTI") + throttle("k") + request("PING") + request("EXEC") + request("KEYS", "*") + request("DEL", "k") + throttle("k") +
		request("NONSENSE") + request("CLIENT", "REPLY", "SKIP") + throttle("k") + throttle("k")
	mixedReplies = five(0, 3, 2, -1, 60) + "+PONG\r\n:60\r\n" + failure(errArity("cl.throttle")) +
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + five(0, 3, 1, -1, 120) + "+PONG\r\n" + "*1\r\n" + bulk("k") + ":1\r\n" + five(0, 3, 2, -1, 60) +
		unknown("NONSENSE") + five(0, 3, 0, -1, 180)
)

// TestPipeline_LateCommit delays the commits on a leader. No command that needs a commit may be answered before the
// commit, and a second client of the same event loop must be served in the meantime.
func TestPipeline_LateCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	release := l.hold()
	c, other := detached(t, l.nodes["a"].Server), detached(t, l.nodes["a"].Server)
	e := newEventLoop()
	e.feed(t, c, mixed)
	e.feed(t, other, ping)
	if e.written[c] != "" || e.written[other] != "+PONG\r\n" {
		t.Errorf("before the commit: the client got %q, want nothing; the other client got %q, want +PONG", e.written[c], e.written[other])
	}
	release(nil)
	e.run()
	if e.written[c] != mixedReplies {
		t.Errorf("after the commit: the client got %q, want %q", e.written[c], mixedReplies)
	}
	want := []need{
		needCommit,              // CL.THROTTLE
		needCommit,              // TTL
		needCommand, needCommit, // EXEC
		needCommand, needCommit, // KEYS
		needCommand, needCommit, // DEL
		needCommit,  // CL.THROTTLE
		needCommand, // CLIENT REPLY
		needCommit,  // CL.THROTTLE whose reply is skipped
		needCommit,
	}
	if !slices.Equal(e.needs[c], want) {
		t.Errorf("the pipeline waited for the needs %v, want %v", e.needs[c], want)
	}
}

// TestPipeline_NoLeader drives a pipeline on node b of a cluster that has no leader at first. Once there is a leader,
// the commands must be forwarded to it, or run on b if b is the leader.
func TestPipeline_NoLeader(t *testing.T) {
	t.Parallel()
	for _, leader := range []string{"a", "b"} {
		l := newLab(t, "a", "b")
		b := l.nodes["b"]
		c, other := detached(t, b.Server), detached(t, b.Server)
		e := newEventLoop()
		e.feed(t, c, mixed)
		e.feed(t, other, ping+request("TTL", "other"))
		if e.written[c] != "" || e.written[other] != "+PONG\r\n" {
			t.Errorf("without a leader: the client got %q, want nothing; the other client got %q, want +PONG", e.written[c], e.written[other])
		}
		l.lead(leader)
		e.run()
		if e.written[c] != mixedReplies {
			t.Errorf("leader %s: the client got %q, want %q", leader, e.written[c], mixedReplies)
		}
		if want := "+PONG\r\n:-2\r\n"; e.written[other] != want {
			t.Errorf("leader %s: the other client got %q, want %q", leader, e.written[other], want)
		}
		if e.needs[c][0] != needView || slices.Contains(e.needs[c], needLeader) != (leader == "a") {
			t.Errorf("leader %s: the pipeline waited for the needs %v, want needView first, and needLeader only if the leader is a", leader, e.needs[c])
		}
	}
}

// TestPipeline_CompleteBatches checks the number of calls (commands and transactions) that are forwarded together in
// one batch. A call whose reply may be long, and a transaction, must be the last call of a batch. The cluster has no
// leader at first, so that the first batch of node b waits and the test can examine it.
func TestPipeline_CompleteBatches(t *testing.T) {
	t.Parallel()
	unlink, keys := request("UNLINK", "k"), request("KEYS", "none")
	exec := request("MULTI") + throttle("k") + request("EXEC")
	for _, tt := range []struct {
		name, input string
		calls       int
		want        string
	}{
		{"fast commands", unlink + unlink, 2, ":0\r\n:0\r\n"},
		{"a command that is not fast", keys + unlink, 1, "*0\r\n:0\r\n"},
		{"a fast command first", unlink + keys + unlink, 2, ":0\r\n*0\r\n:0\r\n"},
		{"a transaction", exec + unlink, 1, "+OK\r\n+QUEUED\r\n*1\r\n" + five(0, 3, 2, -1, 60) + ":1\r\n"},
	} {
		l := newLab(t, "a", "b")
		c := detached(t, l.nodes["b"].Server)
		e := newEventLoop()
		e.feed(t, c, tt.input)
		for ; e.needs[c][len(e.needs[c])-1] != needView; e.pending-- {
			e.advance(<-e.waited)
		}
		if n := len(c.pipe.collector.batch.calls); n != tt.calls {
			t.Errorf("%s: the first batch has %d calls, want %d", tt.name, n, tt.calls)
		}
		l.lead("a")
		e.run()
		if e.written[c] != tt.want {
			t.Errorf("%s: the client got %q, want %q", tt.name, e.written[c], tt.want)
		}
	}
}

// TestPipeline_Lock drives a pipeline while the exec lock is held. The pipeline must wait for the lock, and release it
// after the commands.
func TestPipeline_Lock(t *testing.T) {
	t.Parallel()
	s := setup{}.build(t)
	defer (&testServer{Server: s}).end()
	c := detached(t, s)
	e := newEventLoop()
	s.exec.Lock()
	e.feed(t, c, throttle("k")+request("EXISTS", "k")+request("UNLINK", "k", "l")+ping)
	if e.written[c] != "" || !slices.Equal(e.needs[c], []need{needLock}) {
		t.Errorf("while another client holds the lock: the client got %q, want nothing; the pipeline waited for the needs %v, want only needLock", e.written[c], e.needs[c])
	}
	s.exec.Unlock()
	e.run()
	if want := five(0, 3, 2, -1, 60) + ":1\r\n:1\r\n+PONG\r\n"; e.written[c] != want {
		t.Errorf("after the lock is released: the client got %q, want %q", e.written[c], want)
	}
	if !s.exec.TryLock() {
		t.Error("the exec lock is still held after the commands")
	}
}

// TestPipeline_Snapshot runs SAVE in one pipeline. Another client must be served while the snapshot is written.
func TestPipeline_Snapshot(t *testing.T) {
	t.Parallel()
	snapshots := &fakeSnapshots{entered: make(chan struct{}), release: make(chan struct{})}
	s := setup{snapshots: snapshots}.build(t)
	defer (&testServer{Server: s}).end()
	c, other := detached(t, s), detached(t, s)
	e := newEventLoop()
	e.feed(t, c, request("SAVE")+ping)
	<-snapshots.entered
	e.feed(t, other, throttle("k"))
	if e.written[c] != "" || e.written[other] != five(0, 3, 2, -1, 60) {
		t.Errorf("during SAVE: the client got %q, want nothing; the other client got %q, want an admitted request", e.written[c], e.written[other])
	}
	close(snapshots.release)
	e.run()
	if e.written[c] != "+OK\r\n+PONG\r\n" {
		t.Errorf("after SAVE: the client got %q, want +OK and +PONG", e.written[c])
	}
}

// TestPipeline_UnauthenticatedReplies checks that the replies to an unauthenticated client are written before they use much
// memory.
func TestPipeline_UnauthenticatedReplies(t *testing.T) {
	t.Parallel()
	s := start(t, withPassword)
	const n = 5000
	c, e := detached(t, s.Server), newEventLoop()
	e.feed(t, c, strings.Repeat(ping, n))
	e.run()
	if want := strings.Repeat(failure(errNoAuth), n); e.written[c] != want {
		t.Errorf("got %d bytes of replies, want %d", len(e.written[c]), len(want))
	}
	if e.largest > 2*unauthenticatedReplies {
		t.Errorf("the reply buffer has %d bytes, want at most %d", e.largest, 2*unauthenticatedReplies)
	}
}
