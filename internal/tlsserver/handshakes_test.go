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

// TestAddrOf checks that all addresses of an IPv6 network are counted together.
func TestAddrOf(t *testing.T) {
	for ip, want := range map[string]string{
		"192.0.2.1":            "192.0.2.1",
		"::ffff:192.0.2.1":     "192.0.2.1",
		"2001:db8:1:2::1":      "2001:db8:1:2::",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::",
		"2001:db8:1:3::1":      "2001:db8:1:3::",
		"::1":                  "::1",
	} {
		if got := addrOf(addressed{remote: &net.TCPAddr{IP: net.ParseIP(ip)}}); got.String() != want {
			t.Errorf("%s is counted for %s, want %s", ip, got, want)
		}
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
