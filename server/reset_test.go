package server

import (
	"net"
	"testing"
)

// TestResetConnections sends an empty request, which gets no reply, and resets the connection immediately, so that the
// server receives the bytes and the reset together. No such connection may stay open on the server.
func TestResetConnections(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for range 300 {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("\r\n")); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s.greet().await("clients", "connected_clients", 1)
}

// TestKeysIsBounded checks that KEYS is refused if its reply exceeds the limit. In a transaction, KEYS must always be
// refused, since other clients would have to wait for it.
func TestKeysIsBounded(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.dial()
	long := make([]byte, 400<<10)
	for i := range maxKeysReply/len(long) + 1 {
		long[0] = byte(i)
		p.ask("CL.THROTTLE", string(long), "1", "1", "3600")
	}
	p.do(failure(errManyKeys), "KEYS", "*")
	p.do("*0\r\n", "KEYS", "nothing")
	p.do("+OK\r\n", "MULTI")
	p.do("+QUEUED\r\n", "KEYS", "nothing")
	p.do("+QUEUED\r\n", "CONFIG", "REWRITE")
	p.do("*2\r\n"+failure(errKeysInMulti)+failure(errRewriteMulti), "EXEC")
}
