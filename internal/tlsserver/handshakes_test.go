package tlsserver

import (
	"net"
	"runtime"
	"sync/atomic"
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

// TestWire_Acquire checks that goroutines that are runnable on the processor of a handshake run before it computes, and
// before it has its turn: another handshake can take the turn. The runtime may rarely choose another order.
func TestWire_Acquire(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	w := &wire{turns: make(chan struct{}, 1)}
	const tries = 20
	before, free := 0, 0
	for range tries {
		var ran atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			select {
			case w.turns <- struct{}{}:
				free++
				w.release()
			default:
			}
			ran.Store(true)
		}()
		w.acquire()
		if ran.Load() {
			before++
		}
		w.release()
		<-done
	}
	if before < tries/2 {
		t.Errorf("%d of %d runnable goroutines ran before the handshake, want at least half", before, tries)
	}
	if free < tries/2 {
		t.Errorf("the turn was free for %d of %d runnable goroutines, want at least half", free, tries)
	}
}
