package server

import (
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
)

// concurrency measures how many goroutines at most are between a call of the method enter and a call of the method
// leave.
type concurrency struct{ now, most atomic.Int64 }

// enter counts the calling goroutine. It then yields the processor, so that other goroutines can also call enter.
func (c *concurrency) enter() {
	now := c.now.Add(1)
	for old := c.most.Load(); now > old && !c.most.CompareAndSwap(old, now); old = c.most.Load() {
	}
	for range 100 {
		runtime.Gosched()
	}
}

func (c *concurrency) leave() { c.now.Add(-1) }

// countingEngine measures the number of concurrent calls of Decide.
type countingEngine struct {
	*buckets.Table
	decides *concurrency
}

func (e countingEngine) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	e.decides.enter()
	defer e.decides.leave()
	return e.Table.Decide(reqs, out)
}

// TestTurns_Decide checks that the number of concurrent calls of Decide is limited by the number of
// turns.
func TestTurns_Decide(t *testing.T) {
	t.Parallel()
	for _, bound := range []int{0, 2} {
		decides := &concurrency{}
		s := setup{turns: bound, engine: countingEngine{buckets.New(buckets.Config{Shards: 8}), decides}}.start(t)
		throttleOften(s.dial, 20, 20)
		if most := decides.most.Load(); bound > 0 && most > int64(bound) || bound == 0 && most < 2 {
			t.Errorf("%d turns: %d concurrent calls of Decide; want at most one call per turn or, with 0 turns (no limit), more than one call", bound, most)
		}
	}
}

// throttleOften sends limiter commands from many clients concurrently.
func throttleOften(dial func() *peer, clients, each int) {
	var group sync.WaitGroup
	for range clients {
		p := dial()
		group.Go(func() {
			for range each {
				p.ask("CL.THROTTLE", "k", "1000000", "1", "60")
			}
		})
	}
	group.Wait()
}

// TestTurns_Held makes clients wait for a leader. When their own node becomes the leader, their commands must acquire
// turns before they are decided.
func TestTurns_Held(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a")
	waiting := make([]*peer, 20)
	for i := range waiting {
		waiting[i] = l.nodes["a"].dial()
		waiting[i].send(throttle("k"))
	}
	if !eventually(func() bool { return l.nodes["a"].forward.Retries.Load() > int64(2*len(waiting)) }) {
		t.Error("the clients do not wait for a leader")
	}
	l.lead("a")
	for _, p := range waiting {
		p.read()
	}
	if most := l.decides.most.Load(); most != 1 {
		t.Errorf("one turn: %d concurrent calls of Decide, want 1", most)
	}
}

// TestTurns checks that the number of concurrent holders is limited, and that every goroutine gets
// a turn.
func TestTurns(t *testing.T) {
	t.Parallel()
	const bound, all = 2, 200
	turns := newTurns(bound)
	var running, most, done atomic.Int64
	var group sync.WaitGroup
	for range all {
		group.Go(func() {
			turns.acquire()
			now := running.Add(1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			running.Add(-1)
			turns.release()
			done.Add(1)
		})
	}
	group.Wait()
	if most.Load() > bound || done.Load() != all {
		t.Errorf("%d turns were held concurrently, %d in total; want at most %d concurrently, and %d in total", most.Load(), done.Load(), bound, all)
	}
}

// TestTurns_Unbounded checks that acquire does not block without a limit.
func TestTurns_Unbounded(t *testing.T) {
	t.Parallel()
	turns := newTurns(0)
	for range 3 { // no turn is released
		turns.acquire()
	}
}

// TestTurns_Waiting checks that clients that wait for a commit hold no turns, so that another
// client is served.
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
			t.Errorf("a client that waited for the commit got %+v, want an admitted request", got)
		}
	}
}

// TestTurns_SlowReaders sends commands while the goroutine of the client's feed is still writing replies to earlier
// commands. The goroutine of the feed must neither acquire a turn nor release the turn of the client.
func TestTurns_SlowReaders(t *testing.T) {
	t.Parallel()
	const bound, clients, n = 2, 4, 300
	s := setup{turns: bound}.start(t)
	text := strings.Repeat("x", 64<<10)
	var group sync.WaitGroup
	for range clients {
		p := s.dial()
		group.Go(func() {
			for range n { // more than fits in the socket buffers
				_, _ = io.WriteString(p.Conn, request("ECHO", text))
			}
			_, _ = io.WriteString(p.Conn, request("QUIT"))
			got, err := io.Copy(io.Discard, p.in)
			if want := int64(n*len(bulk(text)) + len("+OK\r\n")); got != want || err != nil {
				t.Errorf("received %d bytes, want %d; the error is %v", got, want, err)
			}
		})
	}
	group.Wait()
	if !eventually(func() bool { return len(s.turns.slots) == 0 }) {
		t.Errorf("%d turns are held although no client is running a command", len(s.turns.slots))
	}
}
