package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/options"
)

// TestManyCommandsBeforeAReplyIsRead sends commands whose replies exceed the socket buffers, and reads no reply before
// all commands are sent. The server must read and answer all commands.
func TestManyCommandsBeforeAReplyIsRead(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	const n = 40_000
	text := strings.Repeat("x", 500)
	p := s.dial()
	p.send(strings.Repeat("ECHO "+text+"\r\n", n)) // fails after write-timeout if the server stops reading
	p.send(request("QUIT"))
	if got, want := p.rest(), strings.Repeat(bulk(text), n)+"+OK\r\n"; got != want {
		t.Errorf("got %d bytes of replies, want %d", len(got), len(want))
	}
	s.greet().await("clients", "connected_clients", 1)
	if !eventually(func() bool { return s.clientMemory.total.Load() < 2*smallUsage }) {
		t.Errorf("%d bytes are still counted for clients, want less than 2 * smallUsage", s.clientMemory.total.Load())
	}
}

// TestManyCommandsAreForwarded is like TestManyCommandsBeforeAReplyIsRead, but with commands that a follower forwards.
func TestManyCommandsAreForwarded(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["b"].dial()
	_ = p.SetDeadline(time.Now().Add(4 * patience))
	// With small socket buffers, p.send blocks until its deadline if the server stops reading.
	conn := p.Conn.(*net.TCPConn)
	if err := errors.Join(conn.SetReadBuffer(64<<10), conn.SetWriteBuffer(64<<10)); err != nil {
		t.Fatal(err)
	}
	const n, limits = 9000, 32
	call, want := "CL.ALL 0", fmt.Sprintf("*%d\r\n:0\r\n:16\r\n:16\r\n:-1\r\n:0\r\n", 5+limits)
	for i := range limits {
		call += fmt.Sprintf(" THROTTLE k%d 15 30 60", i)
		want += five(0, 16, 16, -1, 0)
	}
	p.send(strings.Repeat(call+"\r\n", n))
	p.send(request("QUIT"))
	if got := p.rest(); got != strings.Repeat(want, n)+"+OK\r\n" {
		t.Errorf("got %d bytes of replies, want %d: %.300q", len(got), n*len(want), got)
	}
}

// smallBuffers sets small send buffers on the connections of a listener.
func smallBuffers(ln net.Listener) net.Listener { return tight{ln} }

// connectSmall is like dial, but with a small receive buffer.
func (s *testServer) connectSmall() *peer {
	s.t.Helper()
	p := s.dial()
	if err := p.Conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		s.t.Fatal(err)
	}
	return p
}

// lockedBuffer is a log that can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// TestFullBacklog checks that a client is closed if it reads nothing for write-timeout while its replies exceed
// client-reply-buffer-limit, and that the reason is logged.
func TestFullBacklog(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	s := setup{
		options: func(o *options.Options) { hasty(o); o.ClientReplyBufferLimit = 64 << 10 },
		log:     slog.New(slog.NewTextHandler(&log, nil)),
		listen:  smallBuffers,
	}.start(t)
	p := s.connectSmall()
	go func() {
		for call := []byte(request("ECHO", strings.Repeat("x", 10<<10))); ; {
			if _, err := p.Write(call); err != nil {
				return
			}
		}
	}()
	s.greet().await("stats", "timed_out_connections", 1) // this counter is incremented before the line is logged
	if !eventually(func() bool {
		return strings.Contains(log.String(), "connection closed: the client does not read its replies")
	}) {
		t.Errorf("the log is %q, want a line about a client that does not read its replies", log.String())
	}
}

// TestUnauthenticatedRepliesAreNotQueued sends commands without a password and reads no reply. No reply may be queued. Then
// the client reads: it must get all replies.
func TestUnauthenticatedRepliesAreNotQueued(t *testing.T) {
	t.Parallel()
	s := setup{options: func(o *options.Options) { withPassword(o); o.CommandTimeout = 0 }, listen: smallBuffers}.start(t)
	const n = 3_000
	p := s.connectSmall()
	go func() { _, _ = io.WriteString(p.Conn, strings.Repeat(ping, n)) }()
	var c *client
	if !eventually(func() bool { c = s.writing(); return c != nil }) {
		t.Fatal("no write waits for the client")
	}
	if queued := c.conn.usage.queued.Load(); queued != 0 {
		t.Errorf("%d bytes of replies are queued, want none", queued)
	}
	p.expect(strings.Repeat(failure(errNoAuth), n))
}

// writing returns a client for which a write waits, or nil.
func (s *testServer) writing() *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if c.conn.activity.writing.Load() != 0 {
			return c
		}
	}
	return nil
}

// TestStalled checks that a client that receives only replies is stalled only if there is no room for more replies, or
// if client memory is tight.
func TestStalled(t *testing.T) {
	t.Parallel()
	o := options.Default()
	late := int64(o.WriteTimeout/tick) + 10
	for _, tt := range []struct {
		name          string
		writing, full int64
		repliesOnly   bool
		tight         int64
		want          bool
	}{
		{"nothing to write", 0, 0, false, 0, false},
		{"pushed output not read for long", 1, 0, false, 0, true},
		{"reply not read for long, queue has room", 1, 0, true, 0, false},
		{"queue full longer than write-timeout", 1, 1, true, 0, true},
		{"queue full only for a short time", 1, late - 5, true, 0, false},
		{"queue full for long, but the client has just read", late - 5, 1, true, 0, false},
		{"memory is tight", 1, 0, true, 1, true},
		{"memory has just become tight", 1, 0, true, late - 5, false},
	} {
		out := &output{activity: &activity{}}
		out.activity.writing.Store(tt.writing)
		out.backlog.repliesOnly.Store(tt.repliesOnly)
		out.backlog.fullSince.Store(tt.full)
		if got := out.stalled(&o, reaperRun{now: late, tightSince: tt.tight}); got != tt.want {
			t.Errorf("%s: stalled returned %v, want %v", tt.name, got, tt.want)
		}
	}
	out := &output{activity: &activity{}}
	out.activity.writing.Store(1)
	o.WriteTimeout = 0
	if out.stalled(&o, reaperRun{now: late}) {
		t.Error("stalled returned true although write-timeout is 0")
	}
}

// TestBacklogThenMonitor runs MONITOR while earlier replies to the client are still queued.
func TestBacklogThenMonitor(t *testing.T) {
	t.Parallel()
	s := setup{listen: smallBuffers}.start(t)
	p := s.connectSmall()
	const n = 5000
	p.send(strings.Repeat("ECHO 123456789012\r\n", n) + "MONITOR\r\nRESET\r\nMONITOR\r\n")
	other := s.greet()
	if !eventually(func() bool { return strings.HasPrefix(other.info("commandstats")["cmdstat_monitor"], "calls=2,") }) {
		t.Fatal("MONITOR did not run twice")
	}
	// The registration waits until there is room for the reply to MONITOR, so only a client that has received the reply
	// receives each later command.
	p.expect(strings.Repeat(bulk("123456789012"), n) + "+OK\r\n")
	for p.read().text != "OK" { // lines shown to the first MONITOR, and the reply to RESET
		continue
	}
	other.do("+PONG\r\n", "PING")
	for line := p.read().text; !strings.HasSuffix(line, `"PING"`); line = p.read().text {
		continue
	}
}

// TestBacklogAfterSubscriptions checks that a client may again leave its replies unread after its last subscription is
// removed.
func TestBacklogAfterSubscriptions(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.greet()
	repliesOnly := &s.sortedClients()[0].conn.output.backlog.repliesOnly
	for _, calls := range [][2][]string{
		{{"SUBSCRIBE", "c"}, {"UNSUBSCRIBE"}},
		{{"PSUBSCRIBE", "c"}, {"PUNSUBSCRIBE", "c"}},
	} {
		p.ask(calls[0]...)
		if repliesOnly.Load() {
			t.Errorf("after %q: repliesOnly is true, although the client receives messages", calls[0])
		}
		p.ask(calls[1]...)
		if !eventually(repliesOnly.Load) {
			t.Errorf("after %q: repliesOnly is false, although the client has no subscriptions", calls[1])
		}
		p.do("+PONG\r\n", "PING")
	}
}

// TestBacklogOutlivesRequests checks that a client that half-closes its connection receives all
// replies.
func TestBacklogOutlivesRequests(t *testing.T) {
	t.Parallel()
	s := setup{listen: smallBuffers}.start(t)
	p := s.connectSmall()
	const n = 10_000
	p.send(strings.Repeat("ECHO 123456789012\r\n", n))
	if err := p.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := p.rest(); got != strings.Repeat(bulk("123456789012"), n) {
		t.Errorf("got %d bytes of replies, want all replies", len(got))
	}
}

// TestBacklogIsNotIdle checks that a client that reads its replies slowly is not closed as idle, although it sends
// nothing for longer than the value of the option timeout.
func TestBacklogIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ln := setup{options: func(o *options.Options) { o.Timeout, o.ClientReplyBufferLimit = 5*time.Second, 64<<10 }}.startPiped(t)
		p := newPeer(t, ln.connect())
		p.do("+OK\r\n", "MONITOR")
		want := bulk(strings.Repeat("x", 300<<10))
		p.send(request("ECHO", strings.Repeat("x", 300<<10)))
		for range 4 {
			<-time.After(3 * time.Second)
			if _, err := io.ReadFull(p.in, make([]byte, flushAt)); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = io.CopyN(io.Discard, p.in, int64(len(want)-4*flushAt))
	})
}
