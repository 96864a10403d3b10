package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/goroutines"
	"github.com/throttledhq/throttled/options"
)

// The tests in this file attack or overload the server.

// connections is the number of connections that a test opens. Some tests open a multiple of this number.
const connections = 200

// footprint returns the heap and stack memory of the process, which grows with its connections.
func footprint() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestIdleConnectionsAreSmall measures the memory of a connection that is idle after use. The result
// includes the memory of the client, which is in the same process.
func TestIdleConnectionsAreSmall(t *testing.T) {
	s := start(t, nil)
	observer := s.greet()
	conns := make([]net.Conn, connections)
	text := strings.Repeat("x", 100<<10)
	before := footprint()
	for i := range conns {
		conns[i] = s.connect()
		if _, err := io.WriteString(conns[i], request("ECHO", text)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, conns[i], int64(len(bulk(text)))); err != nil {
			t.Fatal(err)
		}
	}
	each := int64(0)
	if !eventually(func() bool { each = (footprint() - before) / connections; return each <= 25<<10 }) {
		t.Errorf("an idle connection uses %d bytes, want at most 25 KiB", each)
	}
	observer.do("+PONG\r\n", "PING")
	runtime.KeepAlive(conns)
}

// TestUnfinishedCommandsAreSmall sends commands without their last argument on many connections. It checks how much
// memory each incomplete command uses, and that command-timeout closes the connections without a reply.
func TestUnfinishedCommandsAreSmall(t *testing.T) {
	s := start(t, func(o *options.Options) { o.CommandTimeout = time.Hour })
	observer := s.greet()
	sent := "*1024\r\n" + strings.Repeat("$10\r\n0123456789\r\n", 1023)
	conns := make([]net.Conn, connections)
	before := footprint()
	input := observer.count("stats", "total_net_input_bytes")
	for i := range conns {
		conns[i] = s.connect()
		if _, err := io.WriteString(conns[i], sent); err != nil {
			t.Fatal(err)
		}
	}
	for observer.count("stats", "total_net_input_bytes") < input+int64(connections*len(sent)) {
		<-time.After(time.Millisecond)
	}
	if each := (footprint() - before) / connections; each > 64<<10 {
		t.Errorf("an incomplete command uses %d bytes, want at most 64 KiB", each)
	}
	observer.do("+OK\r\n", "CONFIG", "SET", "command-timeout", "1")
	for _, conn := range conns {
		if rest := newPeer(t, conn).rest(); rest != "" {
			t.Fatalf("got %q, want no reply before the connection is closed", rest)
		}
	}
	if n := observer.count("stats", "timed_out_connections"); n != connections {
		t.Errorf("%d connections timed out, want %d", n, connections)
	}
}

// TestAnnouncedSizes announces large sizes but sends only a few bytes. Memory must grow with the bytes
// received, not with the sizes announced.
func TestAnnouncedSizes(t *testing.T) {
	s := start(t, nil)
	p := s.dial()
	p.send("*1\r\n$60000000\r\n")
	p.expect(badLength)
	p.closed()

	conns := make([]net.Conn, connections)
	before := footprint()
	for i := range conns {
		conns[i] = s.connect()
		if _, err := io.WriteString(conns[i], ping+"*1024\r\n$524288\r\nxxxx"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conns[i], make([]byte, len("+PONG\r\n"))); err != nil {
			t.Fatal(err)
		}
	}
	if each := (footprint() - before) / connections; each > 32<<10 {
		t.Errorf("a connection that announces 512 KiB and sends 4 bytes uses %d bytes, want at most 32 KiB", each)
	}

	// Many arguments of a valid size together exceed the query buffer limit.
	p = s.dial()
	go func() {
		_, _ = io.WriteString(p.Conn, "*1024\r\n")
		for range 1024 {
			if _, err := io.WriteString(p.Conn, bulk(strings.Repeat("x", 64<<10))); err != nil {
				return
			}
		}
	}()
	p.expect(refused("request exceeds the query buffer limit"))
	p.closed()
}

// TestLongArgumentByteByByte sends the longest argument in segments of one byte. Neither the time for each
// segment nor the stack depth may grow with the number of segments.
func TestLongArgumentByteByByte(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options.Options) { o.CommandTimeout = 0 })
	p := s.dial()
	const size = 64 << 10
	p.send(fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n", size))
	for range size {
		p.send("x")
	}
	p.send("\r\n")
	p.expect(bulk(strings.Repeat("x", size)))
}

// tight is a listener whose connections have a small send buffer.
type tight struct{ net.Listener }

func (l tight) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return conn, err
}

// TestSlowReaders pipelines commands with long or short replies on many connections, and reads none of the replies. The
// server must use little memory for these slow clients, serve other clients meanwhile, and close the connections of the
// slow clients.
func TestSlowReaders(t *testing.T) {
	f := func(change func(o *options.Options), call string) {
		t.Helper()
		const readers = 20
		s := setup{
			options: change,
			listen:  func(ln net.Listener) net.Listener { return tight{ln} },
		}.start(t)
		good := s.dial()
		good.ask("AUTH", "secret") // only the last server requires a password: the others return an error
		good.do("+OK\r\n", "CONFIG", "SET", "command-timeout", "1", "write-timeout", "1")
		input := []byte(strings.Repeat(call, 1+(1<<20)/len(call)))
		before := footprint()
		for range readers {
			conn := s.connect()
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			t.Cleanup(func() { _ = conn.Close() })
			go func() {
				for {
					if _, err := conn.Write(input); err != nil {
						return
					}
				}
			}()
		}
		most := int64(0)
		if !eventually(func() bool {
			most = max(most, footprint()-before)
			good.do("+PONG\r\n", "PING")
			return good.count("stats", "timed_out_connections") == readers
		}) {
			t.Fatal("not all connections of the slow clients were closed")
		}
		if most/readers > 1<<20 {
			t.Errorf("a slow client uses %d bytes, want at most 1 MiB", most/readers)
		}
		good.await("clients", "connected_clients", 1)
	}
	small := func(o *options.Options) { o.ClientReplyBufferLimit = 64 << 10 }
	f(small, request("COMMAND", "DOCS"))
	f(small, request("ECHO", strings.Repeat("x", 100<<10)))
	f(withPassword, request("PING"))
}

// TestDeepPipeline sends 100,000 commands in one write. The replies must arrive in order. When half of the replies have
// arrived, the connection must not use much memory.
func TestDeepPipeline(t *testing.T) {
	s := start(t, nil)
	p := s.dial()
	const n = 100_000
	var input strings.Builder
	for i := range n {
		fmt.Fprintf(&input, "*2\r\n$4\r\nECHO\r\n$6\r\n%06d\r\n", i)
	}
	before := footprint()
	go func() { _, _ = io.WriteString(p.Conn, input.String()) }()
	for i := range n {
		p.expect(fmt.Sprintf("$6\r\n%06d\r\n", i))
		if i == n/2 {
			if grown := footprint() - before; grown > 4<<20 {
				t.Errorf("the connection uses %d bytes, want at most 4 MiB", grown)
			}
		}
	}
}

// TestDeepPipelineOfDecisions pipelines more decisions than fit in one batch, on many connections concurrently. Each
// decision must get its own reply.
func TestDeepPipelineOfDecisions(t *testing.T) {
	t.Parallel()
	s, _ := startFrozen(t, nil)
	const conns, n = 8, 5000
	done := make(chan error, conns)
	for i := range conns {
		p := s.dial()
		go func() {
			call := request("CL.THROTTLE", fmt.Sprint("key", i), fmt.Sprint(n), "1", "1")
			go func() { _, _ = io.WriteString(p.Conn, strings.Repeat(call, n)+request("QUIT")) }()
			var want strings.Builder
			for j := range int64(n) {
				want.WriteString(five(0, n+1, n-j, -1, j+1))
			}
			got, err := io.ReadAll(p.in)
			if string(got) != want.String()+"+OK\r\n" {
				err = errors.Join(err, fmt.Errorf("connection %d got wrong replies", i))
			}
			done <- err
		}()
	}
	for range conns {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestResets resets connections in the middle of commands. The server must remove the connections and end their
// goroutines.
func TestResets(t *testing.T) {
	s := start(t, nil)
	p := s.greet()
	before := goroutines.Of(ofServers)
	for range 2 * connections {
		conn := s.connect().(*net.TCPConn)
		if _, err := io.WriteString(conn, ping+"*3\r\n$11\r\nCL.THR"); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
	p.await("clients", "connected_clients", 1)
	goroutines.AwaitEnd(t, ofServers, before)
}

// TestHalfClose closes the write side of a client after its last command. The command must be answered exactly
// once. The connection must be closed although the timeouts for commands and writes are disabled.
func TestHalfClose(t *testing.T) {
	t.Parallel()
	s, _ := startFrozen(t, func(o *options.Options) { o.CommandTimeout, o.WriteTimeout = 0, 0 })
	f := func(input, want string) {
		t.Helper()
		p := s.greet()
		p.send(input)
		if err := p.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		p.expect(want)
		p.closed()
	}
	f(request("CL.THROTTLE", "k", "1", "1", "60"), five(0, 2, 1, -1, 60))
	f(request("CL.THROTTLE", "k", "1", "1", "60"), five(0, 2, 0, -1, 120))
	f(ping+"*1\r\n$4\r\nPI", "+PONG\r\n")
	f("", "")
	for range 20 {
		f(ping, "+PONG\r\n")
	}
	s.greet().await("clients", "connected_clients", 1)
}

// TestErrorFlood floods the server with commands that fail. Other clients must be served, and the log must stay
// short.
func TestErrorFlood(t *testing.T) {
	t.Parallel()
	var log lockedLog
	s := setup{log: log.logger()}.start(t)
	begin := time.Now()
	good := s.greet()
	floods := make(chan error, 4)
	for _, flood := range []string{"NONSENSE\r\n", request("CL.THROTTLE", "k", "x", "1", "1"), request("AUTH", "default"), request("CLIENT", "NONSENSE")} {
		p := s.dial()
		go func() {
			const n = 20_000
			go func() { _, _ = io.WriteString(p.Conn, strings.Repeat(flood, n)+request("QUIT")) }()
			_, err := io.Copy(io.Discard, p.in)
			floods <- err
		}()
	}
	for range 1000 {
		good.do("+PONG\r\n", "PING")
	}
	for range 200 {
		s.dial().send("POST / HTTP/1.1\r\n")
		s.dial().send("*x\r\n")
	}
	for range cap(floods) {
		if err := <-floods; err != nil {
			t.Errorf("a flood failed: %v", err)
		}
	}
	good.await("clients", "connected_clients", 1)
	// The number of log lines per second is limited for each kind of line: POST, protocol errors, and reset
	// connections.
	seconds := int(time.Since(begin)/time.Second) + 2
	if lines := strings.Count(log.String(), "\n"); lines > 3*linesPerSecond*seconds || lines < linesPerSecond {
		t.Errorf("the log has %d lines after %d s, want at least linesPerSecond, and at most 3*linesPerSecond per second:\n%.2000s", lines, seconds, log.String())
	}
}

// TestFloodOfConnections opens and closes connections as fast as possible. The server must serve all
// connections, and must not leave a file descriptor open.
func TestFloodOfConnections(t *testing.T) {
	s := start(t, nil)
	p := s.greet()
	before := openFiles(t)
	for range 5 * connections {
		q := s.greet()
		_ = q.Close()
	}
	p.await("clients", "connected_clients", 1)
	if !eventually(func() bool { return openFiles(t) <= before+10 }) {
		t.Errorf("%d descriptors were left open, want at most 10", openFiles(t)-before)
	}
}

// openFiles returns the lowest free descriptor, which equals the number of open descriptors if there are no gaps.
func openFiles(t *testing.T) int {
	t.Helper()
	fd, err := syscall.Open("/dev/null", syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Close(fd)
	return fd
}
