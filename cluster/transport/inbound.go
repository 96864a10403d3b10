package transport

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Guard checks messages from other nodes before Raft receives them. Its methods are called
// for every message and must not block.
type Guard interface {
	// Request returns nil if a message from a peer may reach Raft, or the reason why not.
	Request(peer string, message raft.WithRPCHeader) error
	// Term returns nil if the term in an answer to this node may reach Raft, or the reason
	// why not.
	Term(term uint64) error
}

// errUnguarded is returned for messages that do not name their sender.
var errUnguarded = errors.New("the message has no header that names its sender")

// inbound serves one accepted stream with its own raft.NetworkTransport, which is called the server below.
// The sender of each message is therefore known: it is the peer of the stream. A NetworkTransport shared by
// several streams does not report the sender.
type inbound struct {
	net.Conn
	peer   string
	server *raft.NetworkTransport
	addr   net.Addr

	stream chan net.Conn // holds the stream until the server accepts it
	served chan struct{} // closed when the server has finished with the stream
	ended  chan struct{} // closed when the server is closed
	once   sync.Once
}

// newInbound returns an inbound and starts its server.
func newInbound(conn net.Conn, addr net.Addr, log hclog.Logger) *inbound {
	in := &inbound{
		Conn: conn, peer: PeerOf(conn), addr: addr,
		stream: make(chan net.Conn, 1), served: make(chan struct{}), ended: make(chan struct{}),
	}
	in.stream <- in
	in.server = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: singleStreamLayer{in}, Logger: log})
	return in
}

// Close closes the stream. The server calls it when it has finished with the stream.
func (in *inbound) Close() error {
	in.once.Do(func() { close(in.served) })
	return in.Conn.Close()
}

// singleStreamLayer is the stream layer of the server of an inbound. It accepts one stream and
// dials none.
type singleStreamLayer struct{ in *inbound }

func (l singleStreamLayer) Accept() (net.Conn, error) {
	select {
	case c := <-l.in.stream:
		return c, nil
	case <-l.in.ended:
		return nil, net.ErrClosed
	}
}

func (l singleStreamLayer) Close() error {
	close(l.in.ended) // the server calls Close once
	return nil
}

func (l singleStreamLayer) Addr() net.Addr { return l.in.addr }

func (singleStreamLayer) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	return nil, net.ErrClosed
}

// accept serves streams until the stream layer is closed.
func (t *RaftTransport) accept() {
	for {
		conn, err := t.config.Stream.Accept()
		if err != nil {
			return
		}
		in := newInbound(conn, t.config.Stream.Addr(), t.config.Logger)
		in.server.SetHeartbeatHandler(func(rpc raft.RPC) { t.handleHeartbeat(in, rpc) })
		t.tasks.Go(func() { t.forward(in) })
	}
}

// forward passes the messages of a stream to Raft, if the guard accepts them.
func (t *RaftTransport) forward(in *inbound) {
	defer func() { _ = in.server.Close() }() // Close returns nil
	for {
		select {
		case rpc := <-in.server.Consumer():
			t.deliver(in, rpc)
		case <-in.served:
			return
		case <-t.closed:
			return
		}
	}
}

func (t *RaftTransport) deliver(in *inbound, rpc raft.RPC) {
	if err := t.checkRequest(in.peer, rpc.Command); err != nil {
		in.refuse(rpc, err)
		return
	}
	select {
	case t.incoming <- rpc:
	case <-t.closed:
	}
}

// handleHeartbeat handles a heartbeat without queuing it behind entries. Until Raft has
// set a handler, heartbeats are delivered like other messages.
func (t *RaftTransport) handleHeartbeat(in *inbound, rpc raft.RPC) {
	handle := t.heartbeat.Load()
	if handle == nil {
		t.deliver(in, rpc)
		return
	}
	if err := t.checkRequest(in.peer, rpc.Command); err != nil {
		in.refuse(rpc, err)
		return
	}
	(*handle)(rpc)
}

func (t *RaftTransport) checkRequest(peer string, command any) error {
	message, ok := command.(raft.WithRPCHeader)
	if !ok {
		return errUnguarded
	}
	return t.guard.Request(peer, message)
}

// refuse answers a message with err, without passing the message to Raft. If the message begins a snapshot,
// refuse first closes the stream, to avoid reading the complete snapshot.
func (in *inbound) refuse(rpc raft.RPC, err error) {
	if rpc.Reader != nil {
		_ = in.Conn.Close() // the server detects the closed stream when it answers
	}
	rpc.Respond(nil, err)
}

// dialing is a stream layer that dials streams, but accepts none.
type dialing struct {
	raft.StreamLayer
	closed chan struct{}
}

// Accept blocks until the stream layer is closed.
func (d dialing) Accept() (net.Conn, error) {
	<-d.closed
	return nil, net.ErrClosed
}

// Close closes the stream layer. The transport calls it once.
func (d dialing) Close() error {
	close(d.closed)
	return d.StreamLayer.Close()
}
