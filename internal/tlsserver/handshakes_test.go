package tlsserver

import (
	"net"
	"testing"
	"time"
)

// addressed is a connection with a remote address.
type addressed struct {
	net.Conn
	remote net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.remote }

// TestSourceOf checks that all addresses of an IPv6 network are counted together.
func TestSourceOf(t *testing.T) {
	remote := addressed{remote: &net.TCPAddr{IP: net.ParseIP("2001:db8:1:2:3:4:5:6")}}
	if got := sourceOf(remote); got.String() != "2001:db8:1:2::" {
		t.Errorf("the connection is counted for %s, want its network", got)
	}
}

// TestWire_Write checks that a handshake whose client does not read does not delay the computations of other handshakes.
func TestWire_Write(t *testing.T) {
	client, conn := net.Pipe()
	w := &wire{Conn: conn, turns: make(chan struct{}, 1)}
	done := make(chan error, 1)
	w.acquire()
	go func() {
		_, err := w.Write([]byte("x"))
		w.release()
		done <- err
	}()
	select {
	case w.turns <- struct{}{}:
	case <-time.After(patience):
		t.Fatal("a blocked write keeps its turn")
	}
	w.release()
	if _, err := client.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
