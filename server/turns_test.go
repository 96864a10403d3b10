package server

import (
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestTurns runs no more at a time than there are turns, and everybody in the end.
func TestTurns(t *testing.T) {
	t.Parallel()
	const bound, all = 2, 200
	turns := newTurns(bound)
	var running, most, done atomic.Int64
	var group sync.WaitGroup
	for range all {
		group.Go(func() {
			turns.take()
			now := running.Add(1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			running.Add(-1)
			turns.give()
			done.Add(1)
		})
	}
	group.Wait()
	if most.Load() > bound || done.Load() != all {
		t.Errorf("%d at a time, %d in all; want at most %d, and %d", most.Load(), done.Load(), bound, all)
	}
}

// TestTurns_Unbounded needs no give for a take.
func TestTurns_Unbounded(t *testing.T) {
	t.Parallel()
	turns := newTurns(0)
	for range 3 { // none is given back
		turns.take()
	}
}

// TestTurns_Waiting serves a client while others wait, more of them than there are turns: for a commit, and for
// their own peer to read.
func TestTurns_Waiting(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	release := l.hold()
	waiting := make([]*peer, 3)
	for i := range waiting {
		waiting[i] = l.nodes["a"].dial()
		waiting[i].send("CL.THROTTLE k 9 10 60\r\n")
	}
	for l.awaits() < len(waiting) {
		runtime.Gosched()
	}
	l.nodes["a"].dial().do("+PONG\r\n", "PING")
	release(nil)
	for _, p := range waiting {
		if got := p.read(); len(got.list) != 5 || got.list[0].int() != 0 {
			t.Errorf("%+v, want it admitted", got)
		}
	}
}

// TestTurns_SlowReaders sends commands while replies to earlier ones are still being written by another goroutine.
// That goroutine neither takes a turn nor ends that of the client.
func TestTurns_SlowReaders(t *testing.T) {
	t.Parallel()
	const bound, clients, n = 2, 4, 300
	s := setup{turns: bound}.start(t)
	text := strings.Repeat("x", 64<<10)
	var group sync.WaitGroup
	for range clients {
		p := s.dial()
		group.Go(func() {
			for range n { // more than the system buffers
				_, _ = io.WriteString(p.Conn, request("ECHO", text))
			}
			_, _ = io.WriteString(p.Conn, request("QUIT"))
			got, err := io.Copy(io.Discard, p.in)
			if want := int64(n*len(bulk(text)) + len("+OK\r\n")); got != want || err != nil {
				t.Errorf("%d bytes of %d: %v", got, want, err)
			}
		})
	}
	group.Wait()
	if !eventually(func() bool { return len(s.turns.slots) == 0 }) {
		t.Errorf("%d turns are taken and no client runs a command", len(s.turns.slots))
	}
}
