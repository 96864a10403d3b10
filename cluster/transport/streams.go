package transport

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// address is an advertised address, host:port. The host may be a name or an IP address.
type address string

// Network returns "tcp".
func (a address) Network() string { return "tcp" }

// String returns host:port.
func (a address) String() string { return string(a) }

// Streams provides the accepted streams of one purpose of a [Link]. It implements net.Listener.
type Streams struct {
	link  *Link
	queue chan *conn
	done  chan struct{}
	once  sync.Once
}

func newStreams(l *Link) *Streams {
	return &Streams{link: l, queue: make(chan *conn), done: make(chan struct{})}
}

// Streams returns the accepted streams of a purpose, or nil if the purpose does not exist.
// It returns the same value at each call. Streams are queued until Accept returns them,
// and count toward the limits on the number of streams.
func (l *Link) Streams(p Purpose) *Streams { return l.streams[p] }

// Accept returns the next stream; PeerOf returns the name of its peer. Once the Streams or the Link
// are closed, it returns an error that wraps net.ErrClosed.
func (s *Streams) Accept() (net.Conn, error) {
	select {
	case c := <-s.queue:
		return c, nil
	case <-s.done:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: s.Addr(), Err: net.ErrClosed}
	}
}

// Close unblocks Accept. New streams of this purpose are refused from then on, and
// accepted streams stay open. It returns nil.
func (s *Streams) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

// Addr returns the address at which other nodes reach this one.
func (s *Streams) Addr() net.Addr { return s.link.advertise }

func (s *Streams) isClosed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// offer passes a stream to Accept, or closes it if the Streams are closed.
func (s *Streams) offer(c *conn) {
	select {
	case s.queue <- c:
	case <-s.done:
		_ = c.Close() // a failure to close has no effect
	}
}

// raftLayer is the stream layer of a Link for Raft.
type raftLayer struct{ *Streams }

// Raft returns the stream layer for raft.NewNetworkTransport. SetExpected determines which node the layer
// expects at an address. When the transport is closed, it also closes the layer. Open Raft streams stay open
// until the Link is closed.
//
// The deadlines of dialed streams are progress deadlines. A deadline set to two seconds from now
// expires after two seconds in which no bytes move. Every 8 KiB that have moved extend it by at most
// one second. On a network that is fast enough, messages of any length can therefore be transferred.
func (l *Link) Raft() raft.StreamLayer { return raftLayer{l.streams[Raft]} }

// Dial opens a stream for Raft. With a timeout of 0 only Config.HandshakeTimeout applies.
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
