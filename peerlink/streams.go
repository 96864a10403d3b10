package peerlink

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// address is one that is advertised; a host may be a name.
type address string

// Network returns "tcp".
func (a address) Network() string { return "tcp" }

// String returns host:port.
func (a address) String() string { return string(a) }

// Streams are the streams of one purpose that a [Link] accepts. They are a net.Listener.
type Streams struct {
	link  *Link
	queue chan *conn
	done  chan struct{}
	once  sync.Once
}

func newStreams(l *Link) *Streams {
	return &Streams{link: l, queue: make(chan *conn), done: make(chan struct{})}
}

// Streams returns the streams of a purpose that are accepted, the same at each call; nil if
// there is no such purpose. Until somebody accepts them they wait, within the bounds on
// the number of streams.
func (l *Link) Streams(p Purpose) *Streams { return l.streams[p] }

// Accept returns the next stream, whose peer PeerOf tells. Errors wrap net.ErrClosed, once
// the Streams or the Link is closed.
func (s *Streams) Accept() (net.Conn, error) {
	select {
	case c := <-s.queue:
		return c, nil
	case <-s.done:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: s.Addr(), Err: net.ErrClosed}
	}
}

// Close ends Accept. From then on nodes are refused that want a stream of this purpose;
// those that were accepted stay. It returns nil.
func (s *Streams) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

// Addr returns the address under which other nodes reach this one.
func (s *Streams) Addr() net.Addr { return s.link.advertise }

func (s *Streams) isClosed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// hand gives a stream to who accepts it, or closes it if nobody does any more.
func (s *Streams) hand(c *conn) {
	select {
	case s.queue <- c:
	case <-s.done:
		_ = c.Close() // nobody is there to tell
	}
}

// raftLayer is what Raft knows of a Link.
type raftLayer struct{ *Streams }

// Raft returns the stream layer for raft.NewNetworkTransport. See SetExpected for whom it
// dials. Closing it, as the transport does, leaves the streams of Raft open until the Link
// is closed.
//
// The deadlines of the streams that it dials are ones of progress: one that is set for two seconds from now
// is missed when nothing has moved for two seconds, however long a message takes, or when less than 8 KiB
// a second have.
func (l *Link) Raft() raft.StreamLayer { return raftLayer{l.streams[Raft]} }

// Dial opens a stream for Raft. A timeout of 0 leaves it at Config.HandshakeTimeout.
func (r raftLayer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx := r.link.ctx
	if timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ctx = limited
	}
	node := ""
	if expected := r.link.expected.Load(); expected != nil {
		node = (*expected)(string(addr))
	}
	return r.link.Dial(ctx, node, string(addr), Raft)
}
