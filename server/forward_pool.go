package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// How much of this node is spent on asking the leader.
const (
	maxStreams = 128  // round trips at a time, and streams kept
	maxWatches = 16   // clients that WATCH keys there, each with a stream of its own
	maxWaiters = 1024 // clients that wait for a stream
	// maxDials is how many streams are being opened at a time. When another node leads all clients want
	// one at once, and what a handshake costs holds up those who have theirs; most
	// get one that another has opened and used.
	maxDials = 8
)

// MaxStreams is how many streams a node that follows has open to the one that leads, at the most.
const MaxStreams = maxStreams + maxWatches

// errDials is for a client that has waited for others to reach the leader, in vain as they have, or until
// another node leads, or that wants to reach one which does not lead any more.
var errDials = errors.New("the leader is not reached")

// partingPatience is how long a node that leads no more may take to answer what it was asked. One
// that has handed over does so at once; one that is cut off never does.
const partingPatience = 100 * time.Millisecond

// forwardTimeouts bounds how long a forwarder waits: for a leader, for its answer, and for the answer of
// a node that leads no more. Tests on a busy machine set longer ones.
type forwardTimeouts struct{ leader, reply, parting time.Duration }

// forwarder keeps the streams to the leader. A client has one for itself as long as it waits
// for replies.
type forwarder struct {
	cluster topology.Cluster
	readers sync.WaitGroup
	slots   chan struct{} // holds a token for each stream in use
	watches chan struct{} // likewise for those that a client keeps
	waiting atomic.Int32
	timeout forwardTimeouts

	commands atomic.Int64 // answered by the leader
	retries  atomic.Int64 // commands that were to be tried again
	errors   atomic.Int64 // commands that got no answer from it

	mu     sync.Mutex
	leader string // who leads, as far as follow was told
	road   *road  // to it; nil without a cluster
	idle   []*stream
	open   map[*stream]struct{} // all there are
}

func (f *forwarder) init(cluster topology.Cluster) {
	f.cluster = cluster
	f.slots = make(chan struct{}, maxStreams)
	f.watches = make(chan struct{}, maxWatches)
	f.road = newRoad()
	f.open = map[*stream]struct{}{}
	f.timeout = forwardTimeouts{leader: leaderPatience, reply: replyPatience, parting: partingPatience}
}

// road is the way to one leader for as long as it leads.
type road struct {
	ctx   context.Context // ends with it
	end   context.CancelFunc
	dials chan struct{} // holds a token for each stream that is being opened
}

func newRoad() *road {
	ctx, end := context.WithCancel(context.Background())
	return &road{ctx, end, make(chan struct{}, maxDials)}
}

// way returns the road to a node. The error is errDials if the node is not the leader: a client may have seen the
// change of leadership before follow did, or not yet.
func (f *forwarder) way(to string) (*road, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if to != f.leader {
		return nil, errDials
	}
	return f.road, nil
}

// reset sets the counters to zero.
func (f *forwarder) reset() {
	for _, counter := range []*atomic.Int64{&f.commands, &f.retries, &f.errors} {
		counter.Store(0)
	}
}

// get returns a stream to a node, which has to be put back. The error is errBusy if
// too many others want one.
func (f *forwarder) get(to string, protocol int, deadline time.Time) (*stream, error) {
	if !f.enter(deadline) {
		return nil, errBusy
	}
	st, err := f.find(to, protocol, deadline)
	if err != nil {
		<-f.slots
	}
	return st, err
}

// find returns a stream that nobody uses, or a new one.
func (f *forwarder) find(to string, protocol int, deadline time.Time) (*stream, error) {
	if st := f.reuse(to, protocol); st != nil {
		return st, nil
	}
	r, err := f.way(to)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(r.ctx, deadline)
	defer cancel()
	select {
	case r.dials <- struct{}{}:
		defer func() { <-r.dials }()
	case <-ctx.Done():
		return nil, errDials
	}
	if st := f.reuse(to, protocol); st != nil { // which has come back meanwhile
		return st, nil
	}
	return f.dial(ctx, to, protocol, deadline)
}

// enter waits for its turn to use a stream.
func (f *forwarder) enter(deadline time.Time) bool {
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

// reuse takes the stream that was used last, of those that are for this use. If there is none
// it makes room for a new one.
func (f *forwarder) reuse(to string, protocol int) *stream {
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

// put takes a stream back, which can be used again if it is whole and leads where it should.
func (f *forwarder) put(st *stream, whole bool) {
	whole = whole && st.rest()
	f.mu.Lock()
	if whole && st.to == f.leader {
		f.idle = append(f.idle, st)
	} else {
		st.close()
	}
	f.mu.Unlock()
	<-f.slots
}

// watch returns a stream for a client that WATCHes keys, which has to be given to unwatch.
func (f *forwarder) watch(to string, protocol int, deadline time.Time) (*stream, error) {
	select {
	case f.watches <- struct{}{}:
	default:
		return nil, errBusy
	}
	st, err := f.dialWatch(to, protocol, deadline)
	if err != nil {
		<-f.watches
	}
	return st, err
}

func (f *forwarder) dialWatch(to string, protocol int, deadline time.Time) (*stream, error) {
	r, err := f.way(to)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(r.ctx, deadline)
	defer cancel()
	return f.dial(ctx, to, protocol, deadline)
}

// unwatch ends a stream, if there is one.
func (f *forwarder) unwatch(st *stream) {
	if st != nil {
		st.close()
		<-f.watches
	}
}

// dial opens a stream that speaks a version of the protocol.
func (f *forwarder) dial(ctx context.Context, to string, protocol int, deadline time.Time) (*stream, error) {
	conn, err := f.cluster.Dial(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("dial the leader %s: %w", to, err)
	}
	st := newStream(conn, to, protocol)
	f.note(st)
	if protocol != 3 {
		return st, nil
	}
	if err := st.greet(time.Until(deadline)); err != nil {
		st.close()
		return nil, fmt.Errorf("greet the leader %s: %w", to, err)
	}
	return st, nil
}

// greet chooses version 3 of the protocol.
func (st *stream) greet(patience time.Duration) error {
	_ = st.conn.SetWriteDeadline(time.Now().Add(patience))
	if _, err := st.conn.Write([]byte("*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n")); err != nil {
		return err
	}
	reply, err := st.next(nil, patience)
	if err == nil && reply[0] == '-' {
		err = errNoReply
	}
	return err
}

// note has a stream read until it ends.
func (f *forwarder) note(st *stream) {
	f.mu.Lock()
	f.open[st] = struct{}{}
	f.expire(st)
	f.mu.Unlock()
	f.readers.Go(func() {
		st.read()
		f.mu.Lock()
		delete(f.open, st)
		if st.expiry != nil {
			st.expiry.Stop()
		}
		f.mu.Unlock()
	})
}

// follow closes the streams that lead to another node than the leader: at once those that nobody
// uses, and in a moment those whose clients wait for an answer. Without a leader these are all.
func (f *forwarder) follow(leader string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if leader != f.leader {
		f.road.end() // nobody is kept by dials that lead nowhere
		f.leader, f.road = leader, newRoad()
	}
	f.idle = slices.DeleteFunc(f.idle, func(st *stream) bool {
		if st.to != leader {
			st.close()
		}
		return st.to != leader
	})
	for st := range f.open {
		f.expire(st)
	}
}

// expire starts the time that a stream has left if it leads to another node than the leader. Each has its own: a
// node may lead, stop and lead again within the time, and what is sent to it last has as long as what was sent
// first. f.mu is held.
func (f *forwarder) expire(st *stream) {
	switch astray := st.to != f.leader; {
	case !astray && st.expiry != nil:
		st.expiry.Stop()
		st.expiry = nil
	case astray && st.expiry == nil:
		st.expiry = time.AfterFunc(f.timeout.parting, func() { f.part(st) })
	}
}

// part closes a stream if it leads to another node than the leader, unless a command on it may have caused that.
func (f *forwarder) part(st *stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if st.to != f.leader && !st.changes.Load() {
		st.close()
	}
}

// streams returns all that are open.
func (f *forwarder) streams() []*stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.open))
}

// close ends all streams. Nobody uses one any more.
func (f *forwarder) close() {
	f.follow("")
	for _, st := range f.streams() {
		f.part(st)
	}
	f.mu.Lock()
	if f.road != nil {
		f.road.end()
	}
	f.mu.Unlock()
	f.readers.Wait()
}
