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

// Bounds of the resources that a Forwarder uses.
const (
	maxStreams = 128  // streams in the pool, both in use and idle
	maxWatches = 16   // streams for watching keys
	maxWaiters = 1024 // callers that wait for a stream of the pool, or for one shared stream
	maxShared  = 4    // shared streams for each version of RESP
	// maxDials bounds concurrent dials. After a change of leadership, all callers need a stream at the same time, and
	// the cost of handshakes would delay callers that already have a stream. With the limit, most callers reuse a
	// stream that another caller has dialed.
	maxDials = 8
)

// MaxStreams is the maximum number of open streams of a Forwarder.
const MaxStreams = maxStreams + maxWatches + 2*maxShared

// Timeouts bound the duration of an exchange.
type Timeouts struct {
	Reply        time.Duration // maximum wait for one reply
	FormerLeader time.Duration // maximum wait for all replies from a node that is no longer the leader
	// Open is the time for which the opening of a stream continues although the deadline of its caller has passed, so that later
	// callers find the stream open. Otherwise, if a caller waits for less time than it takes to open a stream, no stream would
	// ever be open. Optional; if zero, the opening ends at the deadline.
	Open time.Duration
	// Ahead is the time without a reply after which a shared stream sends further calls. Optional; if zero, it sends them when all
	// earlier ones are answered.
	Ahead time.Duration
}

// The timeouts of a new Forwarder.
const (
	ReplyTimeout        = 2 * time.Second
	FormerLeaderTimeout = 100 * time.Millisecond
)

// Dialer opens authenticated streams to nodes.
type Dialer interface {
	// Dial opens a stream to the node with the given id. It fails when ctx is done.
	Dial(ctx context.Context, id string) (net.Conn, error)
}

// refusalObserver is a Dialer that limits its dials to nodes that refuse connections.
type refusalObserver interface {
	// Refused is called once for each connection of Dial that a node has refused in its reply to the greeting. The error
	// wraps a *topology.ConnRefusedError.
	Refused(err error)
}

// Forwarder is a pool of streams to the leader. It is safe for concurrent use.
type Forwarder struct {
	Timeouts Timeouts // must not be changed after the first Forward
	Stats

	dialer  Dialer
	readers sync.WaitGroup
	slots   chan struct{} // holds a token for each stream in use
	watches chan struct{} // holds a token for each Watch
	waiting atomic.Int32

	unused sync.Pool // queued batches

	mu     sync.Mutex
	leader string
	dials  *dials // dials to the leader in progress
	idle   []*stream
	shared []*sharedStream // to the leader
	open   map[*stream]struct{}
}

// Stats are counters of a Forwarder.
type Stats struct {
	Commands atomic.Int64 // commands answered by the leader
	Retries  atomic.Int64 // commands sent again; counted by the caller
	Errors   atomic.Int64 // Uncertain calls; the caller adds the calls that it gives up on
	// Uncertain counts the Uncertain calls, which are also in Errors. It is added after Errors, so it is never greater
	// than Errors if it is read before Errors.
	Uncertain atomic.Int64
}

// Reset sets the counters to zero.
func (s *Stats) Reset() {
	for _, counter := range []*atomic.Int64{&s.Commands, &s.Retries, &s.Errors, &s.Uncertain} {
		counter.Store(0)
	}
}

// New returns a Forwarder without a leader.
func New(d Dialer) *Forwarder {
	return &Forwarder{
		Timeouts: Timeouts{Reply: ReplyTimeout, FormerLeader: FormerLeaderTimeout},
		dialer:   d,
		slots:    make(chan struct{}, maxStreams),
		watches:  make(chan struct{}, maxWatches),
		dials:    newDials(),
		open:     map[*stream]struct{}{},
	}
}

// SetLeader sets the leader. An empty id means that there is no leader. SetLeader closes idle streams to other nodes. For
// streams to other nodes that are in use, it starts the timeout FormerLeader. Calls that wait for a shared stream to a
// former leader are Refused immediately.
func (f *Forwarder) SetLeader(leader string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if leader != f.leader {
		f.dials.cancel()
		f.leader, f.dials = leader, newDials()
		f.retireShared()
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

// expire starts the timer that closes a stream if the node of the stream is not the leader, and stops the timer if
// the node is the leader. Each stream has its own timer, so that the full timeout begins again if the node regains and
// loses leadership. The caller holds f.mu.
func (f *Forwarder) expire(st *stream) {
	switch leads := st.to == f.leader; {
	case leads && st.expiry != nil:
		st.expiry.Stop()
		st.expiry = nil
	case !leads && st.expiry == nil:
		st.expiry = time.AfterFunc(f.Timeouts.FormerLeader, func() { f.closeFormer(st) })
	}
}

// closeFormer closes a stream if its node is not the leader, unless a command in progress on the stream may have
// changed the leader.
func (f *Forwarder) closeFormer(st *stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if st.to != f.leader && !st.changesLeader.Load() {
		st.close()
	}
}

// Close closes all streams. No exchange may be in progress.
func (f *Forwarder) Close() {
	f.SetLeader("")
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
