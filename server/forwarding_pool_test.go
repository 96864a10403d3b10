package server

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestStreamsAreFew serves many clients in both versions of the protocol, of a leader that
// changes, and counts the streams.
func TestStreamsAreFew(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	var wait sync.WaitGroup
	for i, leader := range []string{"a", "c", "a"} {
		l.decide(leader)
		for _, id := range l.ids {
			l.show(id, leader)
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
		f := &l.nodes["b"].forward
		f.mu.Lock()
		if n := len(f.idle); n == 0 || n > maxStreams {
			t.Errorf("%d streams are kept", n)
		}
		f.mu.Unlock()
	}
}

// TestPartingStreams sees that a stream to a node that leads no more stays for its time, however often leadership has
// changed hands before, and for good if the node leads again.
func TestPartingStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f forwarder
		f.init(alone{})
		near, far := net.Pipe()
		defer func() { _ = far.Close() }()
		st := newStream(near, "a", 2)
		f.follow("a")
		f.note(st)
		isOpen := func() bool {
			synctest.Wait()
			return len(f.streams()) > 0
		}
		for range 5 { // each is over before the time of the one before
			f.follow("b")
			<-time.After(partingPatience * 2 / 3)
			f.follow("a")
			if !isOpen() {
				t.Fatal("a stream to the leader is closed")
			}
		}
		f.follow("")
		<-time.After(partingPatience - 1)
		f.follow("b")
		if !isOpen() {
			t.Error("a stream is closed too early")
		}
		<-time.After(time.Nanosecond)
		if isOpen() {
			t.Error("a stream to a node that does not lead stays open")
		}
		f.close()
	})
}

// TestBusyForwarder has no stream left, and then no place to wait for one.
func TestBusyForwarder(t *testing.T) { synctest.Test(t, testBusyForwarder) }

func testBusyForwarder(t *testing.T) {
	l := newPipedLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["b"].dial()
	f := &l.nodes["b"].forward
	for range maxStreams {
		f.slots <- struct{}{}
	}
	p.do(failure(errBusy), "CL.THROTTLE", "k", "2", "1", "60")
	f.waiting.Store(maxWaiters)
	start := time.Now()
	p.do(failure(errBusy), "CL.THROTTLE", "k", "2", "1", "60")
	if took := time.Since(start); took > 0 {
		t.Errorf("it took %v to say that there is no place to wait", took)
	}
	f.waiting.Store(0)
	p.send(throttle("k"))
	if !eventually(func() bool { return f.waiting.Load() == 1 }) {
		t.Error("nobody waits")
	}
	<-f.slots
	p.expect(five(0, 3, 2, -1, 60))
}

// TestDialsAreFew has many clients want a stream at once, and then none of them get one.
func TestDialsAreFew(t *testing.T) { synctest.Test(t, testDialsAreFew) }

func testDialsAreFew(t *testing.T) {
	l := newPipedLab(t, "a", "b")
	var now, most, all atomic.Int32
	l.dialWith(func(ctx context.Context, id string) (net.Conn, error) {
		all.Add(1)
		raise(&most, now.Add(1))
		defer now.Add(-1)
		conn, err := l.connect(ctx, id)
		<-time.After(2 * time.Millisecond) // as long as a handshake takes
		return conn, err
	})
	l.lead("a")
	const clients = 100
	var wait sync.WaitGroup
	for i := range clients {
		p := l.nodes["b"].dial()
		wait.Go(func() { p.do(five(0, 3, 3, -1, 0), "CL.THROTTLE", fmt.Sprint(i), "2", "1", "60", "0") })
	}
	wait.Wait()
	if most.Load() > maxDials || all.Load() == 0 || all.Load() > clients/2 {
		t.Errorf("%d streams were opened for %d clients, %d at a time", all.Load(), clients, most.Load())
	}
	l.dialWith(func(ctx context.Context, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	l.nodes["b"].forward.follow("")
	l.nodes["b"].forward.follow("a")
	for range 2 * maxDials {
		p := l.nodes["b"].dial()
		wait.Go(func() { p.do(failure(errNotLeading), "CL.THROTTLE", "k", "2", "1", "60") })
	}
	wait.Wait()
}

// TestDialsToTheLeaderBefore has more clients than may dial at a time dial a node that is not there any more, when
// another leads.
func TestDialsToTheLeaderBefore(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	var hang atomic.Int32
	l.dialWith(func(ctx context.Context, id string) (net.Conn, error) {
		if id == "a" {
			hang.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return l.connect(ctx, id)
	})
	l.lead("a")
	var wait sync.WaitGroup
	for range 4 * maxDials {
		p := l.nodes["b"].dial()
		wait.Go(func() { p.do(five(0, 3, 3, -1, 0), "CL.THROTTLE", "k", "2", "1", "60", "0") })
	}
	if !eventually(func() bool { return hang.Load() == maxDials }) {
		t.Errorf("%d dial", hang.Load())
	}
	l.lead("c")
	wait.Wait() // all within their patience, or they are answered otherwise
}

// hanging is a cluster whose nodes are not reached.
type hanging struct{ alone }

func (hanging) Dial(ctx context.Context, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestDialsOfStaleViews does not dial a node that stopped leading after the caller had looked: nothing would end that
// attempt before its deadline.
func TestDialsOfStaleViews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f forwarder
		f.init(hanging{})
		f.follow("a")
		f.follow("c")
		begun, deadline := time.Now(), time.Now().Add(time.Hour)
		if _, err := f.get("a", 2, deadline); err != errDials {
			t.Errorf("get returns %v", err)
		}
		if _, err := f.watch("a", 2, deadline); err != errDials {
			t.Errorf("watch returns %v", err)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("it took %v", took)
		}
		if len(f.slots)+len(f.watches) > 0 {
			t.Error("a stream counts as in use")
		}
		f.close()
	})
}

func raise(most *atomic.Int32, n int32) {
	for old := most.Load(); old < n && !most.CompareAndSwap(old, n); {
		old = most.Load()
	}
}
