package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

const (
	callWithin     = 500 * time.Millisecond
	transferWithin = 2 * time.Second
)

var errLost = errors.New("the message was lost")

// wire is the transport of a simulated process.
type wire struct {
	process  *process
	consumer chan raft.RPC
}

func newWire(p *process) *wire { return &wire{process: p, consumer: make(chan raft.RPC, 16)} }

func (w *wire) Consumer() <-chan raft.RPC                                  { return w.consumer }
func (w *wire) LocalAddr() raft.ServerAddress                              { return raft.ServerAddress(w.process.node.id) }
func (w *wire) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }
func (w *wire) DecodePeer(b []byte) raft.ServerAddress                     { return raft.ServerAddress(b) }
func (w *wire) SetHeartbeatHandler(func(raft.RPC))                         {}
func (w *wire) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func (w *wire) AppendEntries(_ raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	w.process.node.sim.noteCommitted(w.process, args.LeaderCommitIndex)
	return call(w, to, args, nil, callWithin, resp)
}

func (w *wire) RequestVote(_ raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return call(w, to, args, nil, callWithin, resp)
}

func (w *wire) RequestPreVote(_ raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return call(w, to, args, nil, callWithin, resp)
}

func (w *wire) InstallSnapshot(_ raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	b, err := io.ReadAll(data)
	if err != nil {
		return err
	}
	return call(w, to, args, b, 10*callWithin, resp)
}

func (w *wire) TimeoutNow(_ raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return call(w, to, args, nil, transferWithin, resp)
}

// call sends a request, and waits for the response.
func call[T any](w *wire, to raft.ServerAddress, args any, data []byte, within time.Duration, resp *T) error {
	ctx, cancel := context.WithTimeout(w.process.ctx, within)
	defer cancel()
	answers := make(chan raft.RPCResponse, 1)
	if err := w.process.exchange(ctx, string(to), func(there *process) error {
		if !there.access.rejoin.allows(w.process.node.id) || !there.Current(w.process.node.id, w.process.config.Self.Boot) {
			return errUnchecked
		}
		return there.wire.handle(raft.RPC{Command: args, Reader: bytes.NewReader(data)}, answers)
	}); err != nil {
		return err
	}
	a := <-answers
	if a.Error != nil {
		return a.Error
	}
	*resp = *a.Response.(*T)
	return nil
}

// handle passes a request to Raft, waits for the response, and sends the response to answers.
func (w *wire) handle(rpc raft.RPC, answers chan<- raft.RPCResponse) error {
	responses := make(chan raft.RPCResponse, 1)
	rpc.RespChan = responses
	select {
	case w.consumer <- rpc:
	case <-w.process.ctx.Done():
		return net.ErrClosed
	}
	select {
	case r := <-responses:
		answers <- r
		return nil
	case <-w.process.ctx.Done():
		return net.ErrClosed
	}
}

// exchange simulates a request to another node, the receiver, and its response. It calls the function do with the
// process of the receiver, and returns the result of do when the response has arrived. If the receiver is down,
// exchange fails immediately. If the receiver is paused, exchange calls do when the receiver is resumed, even if ctx is
// done by then. A link that is cut in one direction drops the messages in that direction.
func (p *process) exchange(ctx context.Context, to string, do func(*process) error) error {
	if !p.resumed() {
		return net.ErrClosed
	}
	s := p.node.sim
	there := s.alive(to)
	if there == nil {
		return net.ErrClosed
	}
	done := make(chan error, 1)
	s.ending.Go(func() {
		pass(s.latency())
		if s.isCut(p.node.id, to) || !there.arrives() {
			return
		}
		err := do(there)
		if !there.resumed() {
			return
		}
		pass(s.latency())
		if !s.isCut(to, p.node.id) {
			done <- err
		}
	})
	select {
	case err := <-done:
		if !p.resumed() {
			return net.ErrClosed
		}
		return err
	case <-ctx.Done():
		return errLost
	}
}

// simPeers implements Peers for a process.
type simPeers struct{ process *process }

func (p simPeers) Ask(ctx context.Context, to topology.Member, q Question) (Answer, error) {
	if p.process.unknown.Load() == q.About {
		return Answer{Error: errQuestion.Error()}, nil
	}
	answers := make(chan Answer, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.process.ctx, cancel)()
	err := p.process.exchange(ctx, to.Raft, func(there *process) error {
		replyCtx, cancel := context.WithTimeout(there.ctx, topics[q.About].timeout())
		defer cancel()
		answers <- there.Reply(replyCtx, q)
		return nil
	})
	if err != nil {
		return Answer{}, err
	}
	return <-answers, nil
}

// Dial opens a stream that breaks when either process stops. While the link is cut, no stream is opened and none
// breaks.
func (p simPeers) Dial(ctx context.Context, to topology.Member) (net.Conn, error) {
	accepted := make(chan net.Conn, 1)
	if there := p.process.node.sim.alive(to.Raft); there == nil || there.refuses.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	err := p.process.exchange(ctx, to.Raft, func(there *process) error {
		near, far := net.Pipe()
		for _, end := range []*process{p.process, there} {
			context.AfterFunc(end.ctx, func() { _ = far.Close() })
		}
		there.accept(far)
		accepted <- near
		return nil
	})
	if err != nil {
		return nil, err
	}
	return <-accepted, nil
}
