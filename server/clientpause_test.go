package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// noReply checks that no reply arrives within a time on the clock of the test.
func noReply(t *testing.T, p *peer, d time.Duration) {
	t.Helper()
	if err := p.SetReadDeadline(time.Now().Add(d)); err != nil {
		t.Fatal(err)
	}
	if b, err := p.in.Peek(1); !isTimeout(err) {
		t.Errorf("during the pause the client reads %q, error %v; want no reply", b, err)
	}
	if err := p.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
}

// paused runs a test with virtual time on a server and two connections to it.
func paused(t *testing.T, test func(t *testing.T, s *testServer, operator, other *peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, ln := setup{}.startPiped(t)
		test(t, s, newPeer(t, ln.connect()), newPeer(t, ln.connect()))
	})
}

// TestClientPause_All checks that commands wait until the end of a pause, and that the replies to earlier commands of the
// same read are sent before.
func TestClientPause_All(t *testing.T) {
	paused(t, func(t *testing.T, _ *testServer, operator, other *peer) {
		begin := time.Now()
		operator.send(request("PING") + request("CLIENT", "PAUSE", "10000") + request("ECHO", "a") + throttle("mine"))
		operator.expect("+PONG\r\n+OK\r\n")
		other.send(throttle("k"))
		noReply(t, other, 9*time.Second)
		other.expect(five(0, 3, 2, -1, 60))
		if waited := time.Since(begin); waited != 10*time.Second {
			t.Errorf("the command of another client has waited for %v, want 10 s", waited)
		}
		operator.expect(bulk("a") + five(0, 3, 2, -1, 60))
	})
}

// TestClientPause_Write checks which commands wait, and that CLIENT UNPAUSE ends the pause.
func TestClientPause_Write(t *testing.T) {
	paused(t, func(t *testing.T, _ *testServer, operator, other *peer) {
		other.do("+OK\r\n", "MULTI")
		other.do("+QUEUED\r\n", "CL.THROTTLE", "k", "2", "1", "60")
		operator.do("+OK\r\n", "CLIENT", "PAUSE", "3600000", "WRITE")
		operator.do(":0\r\n", "EXISTS", "k")
		other.send(request("EXEC"))
		noReply(t, other, time.Minute)
		operator.do(":0\r\n", "EXISTS", "k")
		operator.do("+OK\r\n", "CLIENT", "UNPAUSE")
		other.expect("*1\r\n" + five(0, 3, 2, -1, 60))
		operator.do("+OK\r\n", "CLIENT", "PAUSE", "30000", "WRITE")
		operator.do("+OK\r\n", "CLIENT", "PAUSE", "1", "WRITE") // does not shorten the pause
		other.send(request("DEL", "k") + request("PUBLISH", "a", "b"))
		noReply(t, other, 29*time.Second)
		other.expect(":1\r\n:0\r\n")
	})
}

// TestClientPause_Stronger checks that a pause of all commands extends a pause of writes until its end.
func TestClientPause_Stronger(t *testing.T) {
	paused(t, func(t *testing.T, _ *testServer, operator, other *peer) {
		operator.do("+OK\r\n", "CLIENT", "PAUSE", "5000", "WRITE")
		operator.do("+OK\r\n", "CLIENT", "PAUSE", "10", "ALL")
		other.send(request("PING"))
		noReply(t, other, 4999*time.Millisecond)
		other.expect("+PONG\r\n")
	})
}

// TestClientPause_Closed checks that a paused command of a closed connection does not run, and that a pause does not delay
// the end of the server.
func TestClientPause_Closed(t *testing.T) {
	paused(t, func(t *testing.T, s *testServer, operator, other *peer) {
		id := other.ask("CLIENT", "ID").text
		operator.do("+OK\r\n", "CLIENT", "PAUSE", "3600000", "WRITE")
		other.send(throttle("k"))
		synctest.Wait()
		operator.do(":1\r\n", "CLIENT", "KILL", "ID", id)
		other.closed()
		operator.do(":0\r\n", "EXISTS", "k")
		operator.send(throttle("k"))
		synctest.Wait()
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(context.Background()) }()
		operator.expect(five(0, 3, 2, -1, 60)) // the command was read before the shutdown
		if err := <-ended; err != nil {
			t.Errorf("Shutdown during a pause: %v", err)
		}
	})
}

// TestClientPause_Caller checks that requests of HTTP and gRPC do not wait.
func TestClientPause_Caller(t *testing.T) {
	paused(t, func(t *testing.T, s *testServer, operator, _ *peer) {
		operator.do("+OK\r\n", "CLIENT", "PAUSE", "3600000", "ALL")
		c := s.NewCaller()
		defer c.Close()
		if replies, err := c.Run([]byte(throttle("k")), nil); err != nil || string(replies) != five(0, 3, 2, -1, 60) {
			t.Errorf("Run during a pause returns %q, error %v; want the decision", replies, err)
		}
	})
}

// TestClientPause_Timeouts checks that a paused client is not closed because it is idle.
func TestClientPause_Timeouts(t *testing.T) {
	paused(t, func(t *testing.T, _ *testServer, operator, other *peer) {
		operator.do("+OK\r\n", "CONFIG", "SET", "timeout", "10")
		operator.do("+OK\r\n", "CLIENT", "PAUSE", "60000", "ALL")
		other.send(request("PING"))
		noReply(t, other, 59*time.Second)
		other.expect("+PONG\r\n")
	})
}
