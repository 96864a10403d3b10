package server

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/server/forward"
)

// TestStreamsAreFew serves many clients of a follower in both versions of the protocol, with different leaders. It
// checks that the number of streams to the leader does not exceed forward.MaxStreams.
func TestStreamsAreFew(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	var wait sync.WaitGroup
	for i, leader := range []string{"a", "c", "a"} {
		l.decide(leader)
		for _, id := range l.ids {
			l.setViewLeader(id, leader)
		}
		for k := range 60 {
			p := l.nodes["b"].dial()
			wait.Go(func() {
				p.ask("HELLO", fmt.Sprint(2+k%2))
				for range 20 {
					p.do(five(0, 3, 3, -1, 0), "CL.THROTTLE", fmt.Sprint(i, k), "2", "1", "60", "0")
				}
			})
		}
		wait.Wait()
		srv := l.nodes[leader].Server
		srv.mu.Lock()
		if n := srv.peers; n == 0 || n > forward.MaxStreams {
			t.Errorf("%d streams to the leader are open, want 1 to forward.MaxStreams", n)
		}
		srv.mu.Unlock()
	}
}

// TestBusyForwarder makes the maximum number of clients wait for the leader. The next client must be refused
// immediately.
func TestBusyForwarder(t *testing.T) { synctest.Test(t, testBusyForwarder) }

func testBusyForwarder(t *testing.T) {
	l := newPipedLab(t, "a", "b")
	l.dialWith(func(ctx context.Context, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	l.lead("a")
	const most = 128 + 1024 // all streams of the pool, and all clients that may wait for one of them
	var waiting [most]*peer
	for i := range waiting {
		waiting[i] = l.nodes["b"].dial()
		waiting[i].send(request("DEL", "k")) // not sent over a shared stream
	}
	synctest.Wait()
	start := time.Now()
	l.nodes["b"].dial().do(failure(errBusy), "DEL", "k")
	if took := time.Since(start); took > 0 {
		t.Errorf("the refusal took %v, want 0", took)
	}
	for _, p := range waiting {
		if v := p.read(); v.kind != '-' {
			t.Fatalf("a client that has waited for the leader got %s, want an error", v)
		}
	}
}
