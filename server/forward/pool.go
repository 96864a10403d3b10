package forward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// errNotDialed is returned if the node is not the leader, or stops being the leader, or if maxDials other dials are in
// progress until the deadline.
var errNotDialed = errors.New("no stream to the leader could be opened")

// dials tracks the dials in progress to one leader.
type dials struct {
	ctx    context.Context // canceled when the leader changes
	cancel context.CancelFunc
	slots  chan struct{} // holds a token for each dial in progress
}

func newDials() *dials {
	ctx, cancel := context.WithCancel(context.Background())
	return &dials{ctx, cancel, make(chan struct{}, maxDials)}
}

// dialsTo returns the dials to a node. The error is errNotDialed if the node is not the leader that SetLeader has set.
// The node may differ from this leader, because the caller and SetLeader may receive a change of leadership at
// different times.
func (f *Forwarder) dialsTo(node string) (*dials, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if node != f.leader {
		return nil, errNotDialed
	}
	return f.dials, nil
}

// get returns a stream to a node. The caller must return it with put.
func (f *Forwarder) get(to string, protocol int, deadline time.Time) (*stream, error) {
	if !f.acquire(deadline) {
		return nil, ErrBusy
	}
	st, err := f.findInTime(to, protocol, deadline)
	if err != nil {
		<-f.slots
	}
	return st, err
}

// findInTime is like find. If a stream is not open at the deadline, it continues to open it, for later callers.
func (f *Forwarder) findInTime(to string, protocol int, deadline time.Time) (*stream, error) {
	limit := f.openUntil(deadline)
	if limit.Equal(deadline) {
		return f.find(to, protocol, deadline)
	}
	if st := f.reuse(to, protocol); st != nil {
		return st, nil
	}
	type result struct {
		st  *stream
		err error
	}
	found, stop := make(chan result), make(chan struct{})
	defer close(stop)
	f.readers.Go(func() {
		st, err := f.find(to, protocol, limit)
		select {
		case found <- result{st, err}:
		case <-stop:
			if err == nil {
				f.keep(st)
			}
		}
	})
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case r := <-found:
		return r.st, r.err
	case <-timer.C:
		return nil, errNotDialed
	}
}

// openUntil returns the time at which the opening of a stream ends, for a caller with a deadline.
func (f *Forwarder) openUntil(deadline time.Time) time.Time {
	if limit := time.Now().Add(f.Timeouts.Open); limit.After(deadline) {
		return limit
	}
	return deadline
}

// find returns an idle stream to a node if there is one, and otherwise dials the node.
func (f *Forwarder) find(to string, protocol int, deadline time.Time) (*stream, error) {
	if st := f.reuse(to, protocol); st != nil {
		return st, nil
	}
	d, err := f.dialsTo(to)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(d.ctx, deadline)
	defer cancel()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return nil, errNotDialed
	}
	if st := f.reuse(to, protocol); st != nil { // a stream was returned to the pool during the wait
		return st, nil
	}
	return f.dial(ctx, to, protocol, deadline)
}

// acquire waits until fewer than maxStreams streams are in use, and then takes a slot. It returns false if the
// deadline passes first, or if too many callers already wait.
func (f *Forwarder) acquire(deadline time.Time) bool {
	select {
	case f.slots <- struct{}{}:
		return true
	default:
	}
	defer f.waiting.Add(-1)
	if f.waiting.Add(1) > maxWaiters {
		return false
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case f.slots <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

// reuse returns the most recently used idle stream to a node with the given version of RESP, or nil if there is none.
// Before it returns nil, it closes the least recently used idle stream if the pool is full.
func (f *Forwarder) reuse(to string, protocol int) *stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.idle) - 1; i >= 0; i-- {
		st := f.idle[i]
		if st.to != to || st.protocol != protocol {
			continue
		}
		f.idle = slices.Delete(f.idle, i, i+1)
		if st.rest() {
			return st
		}
		st.close()
	}
	if len(f.idle) > 0 && len(f.idle)+len(f.slots) > maxStreams {
		f.idle[0].close()
		f.idle = slices.Delete(f.idle, 0, 1)
	}
	return nil
}

// put returns a stream to the pool. The pool keeps the stream if it is usable and its node is the leader. reusable is
// the result of exchange.
func (f *Forwarder) put(st *stream, reusable bool) {
	if reusable {
		f.keep(st)
	} else {
		st.close()
	}
	<-f.slots
}

// keep adds a stream to the idle ones if it is usable and its node is the leader, and otherwise closes it.
func (f *Forwarder) keep(st *stream) {
	reusable := st.rest()
	f.mu.Lock()
	defer f.mu.Unlock()
	if reusable && st.to == f.leader {
		f.idle = append(f.idle, st)
	} else {
		st.close()
	}
}

// dialWatch opens a stream outside the pool.
func (f *Forwarder) dialWatch(to string, protocol int, deadline time.Time) (*stream, error) {
	d, err := f.dialsTo(to)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(d.ctx, deadline)
	defer cancel()
	return f.dial(ctx, to, protocol, deadline)
}

// dial opens a stream and negotiates the version of RESP.
func (f *Forwarder) dial(ctx context.Context, to string, protocol int, deadline time.Time) (*stream, error) {
	conn, err := f.dialer.Dial(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("dial the leader %s: %w", to, err)
	}
	st := newStream(conn, to, protocol)
	f.track(st)
	if err := st.greet(time.Until(deadline)); err != nil {
		st.close()
		f.reportRefusal(err)
		return nil, fmt.Errorf("handshake with the leader %s: %w", to, err)
	}
	return st, nil
}

// reportRefusal reports an error of a greeting to the dialer if the node has refused the connection.
func (f *Forwarder) reportRefusal(err error) {
	observer, observes := f.dialer.(refusalObserver)
	if refused := new(topology.ConnRefusedError); observes && errors.As(err, &refused) {
		observer.Refused(err)
	}
}

// track registers a stream, and starts the goroutine that reads from it until it is closed.
func (f *Forwarder) track(st *stream) {
	f.mu.Lock()
	f.open[st] = struct{}{}
	f.expire(st)
	f.mu.Unlock()
	f.readers.Go(func() {
		st.receive()
		f.mu.Lock()
		delete(f.open, st)
		if st.expiry != nil {
			st.expiry.Stop()
		}
		f.mu.Unlock()
	})
}
