package forward

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the work that this node spends on asking the leader.
const (
	maxStreams = 128  // exchanges in progress, and streams kept
	maxWatches = 16   // streams of connections that watch keys
	maxWaiters = 1024 // callers that wait for a stream
	// maxDials bounds concurrent dials. After a change of leadership all callers want a stream at the same time, and the
	// cost of handshakes would delay those that have one; most callers get a stream that another has dialed and used.
	maxDials = 8
)

// MaxStreams is the maximum number of streams that a Forwarder has open.
const MaxStreams = maxStreams + maxWatches

// Timeouts bound how long an exchange takes.
type Timeouts struct {
	Reply   time.Duration // for one reply
	Parting time.Duration // for all replies of a node that no longer leads
}

// The timeouts of a new Forwarder.
const (
	ReplyTimeout   = 2 * time.Second
	PartingTimeout = 100 * time.Millisecond
)

// Dialer opens streams to nodes that have been authenticated.
type Dialer interface {
	Dial(ctx context.Context, id string) (net.Conn, error)
}

// Forwarder keeps streams to the leader. Its methods may be called concurrently.
type Forwarder struct {
	Timeouts Timeouts // not to be changed after the first Forward
	Stats

	dialer  Dialer
	readers sync.WaitGroup
	slots   chan struct{} // holds a token for each stream in use
	watches chan struct{} // holds a token for each Watch
	waiting atomic.Int32

	mu     sync.Mutex
	leader string
	dials  *dials // to leader
	idle   []*stream
	open   map[*stream]struct{}
}

// Stats are counters of a Forwarder.
type Stats struct {
	Commands atomic.Int64 // answered by the leader
	Retries  atomic.Int64 // commands that are sent again; counted by the caller
	Errors   atomic.Int64 // commands without an answer, also those that the caller gives up
}

// Reset sets the counters to zero.
func (s *Stats) Reset() {
	for _, counter := range []*atomic.Int64{&s.Commands, &s.Retries, &s.Errors} {
		counter.Store(0)
	}
}

// New returns a Forwarder that knows of no leader.
func New(d Dialer) *Forwarder {
	return &Forwarder{
		Timeouts: Timeouts{ReplyTimeout, PartingTimeout},
		dialer:   d,
		slots:    make(chan struct{}, maxStreams),
		watches:  make(chan struct{}, maxWatches),
		dials:    newDials(),
		open:     map[*stream]struct{}{},
	}
}

// Follow sets the leader, "" for none. It closes idle streams to other nodes, and starts the time that streams in use
// have left.
func (f *Forwarder) Follow(leader string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if leader != f.leader {
		f.dials.cancel()
		f.leader, f.dials = leader, newDials()
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

// expire starts or stops the timer that closes a stream to a node that does not lead. Each stream has its own: a node
// may stop leading and lead again within the time, and commands sent last have as long as those sent first. f.mu is
// held.
func (f *Forwarder) expire(st *stream) {
	switch leads := st.to == f.leader; {
	case leads && st.expiry != nil:
		st.expiry.Stop()
		st.expiry = nil
	case !leads && st.expiry == nil:
		st.expiry = time.AfterFunc(f.Timeouts.Parting, func() { f.closeFormer(st) })
	}
}

// closeFormer closes a stream if its node does not lead, unless a command on it may have caused that.
func (f *Forwarder) closeFormer(st *stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if st.to != f.leader && !st.changesLeader.Load() {
		st.close()
	}
}

// Close closes all streams. No exchange may be in progress.
func (f *Forwarder) Close() {
	f.Follow("")
	for _, st := range f.streams() {
		f.closeFormer(st)
	}
	f.mu.Lock()
	f.dials.cancel()
	f.mu.Unlock()
	f.readers.Wait()
}

func (f *Forwarder) streams() []*stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.open))
}
