package transport

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// RaftTransport is raft.NetworkTransport with two changes.
//
// First, a [Guard] checks every message from another node and every answer.
//
// Second, it works around a deadlock in version 1.7.3 of hashicorp/raft, called the library below (issue 612
// of its repository). A leader sends entries to a follower through a pipeline. After an answer that ends the
// pipeline, such as a refusal, the library receives no further answers. If the library sends another request
// at that moment, the call can block forever, because it waits until answers to earlier requests are
// received. The follower then gets heartbeats but no entries until a different node is the leader, and
// Shutdown never returns on the old leader.
type RaftTransport struct {
	*raft.NetworkTransport // for outgoing messages; it accepts no streams
	config                 raft.NetworkTransportConfig
	guard                  Guard // set by Serve
	acknowledged           atomic.Pointer[func(id string, term, index uint64)]

	incoming  chan raft.RPC
	heartbeat atomic.Pointer[func(raft.RPC)]
	tasks     sync.WaitGroup
	closing   sync.Once
	closed    chan struct{}
}

// NewRaftTransport returns a RaftTransport. Before Serve is called, the transport accepts no messages, and
// the caller must not send any.
func NewRaftTransport(c *raft.NetworkTransportConfig) *RaftTransport {
	t := &RaftTransport{config: *c, incoming: make(chan raft.RPC), closed: make(chan struct{})}
	out := *c
	out.Stream = dialing{c.Stream, make(chan struct{})}
	t.NetworkTransport = raft.NewNetworkTransportWithConfig(&out)
	return t
}

// Serve starts to accept messages, and calls guard to check each of them. Serve must be called once, before
// Raft is started.
func (t *RaftTransport) Serve(guard Guard) {
	t.guard = guard
	t.tasks.Go(t.accept)
}

// Consumer returns the channel of messages accepted by the guard.
func (t *RaftTransport) Consumer() <-chan raft.RPC { return t.incoming }

// SetHeartbeatHandler sets the function that handles heartbeats.
func (t *RaftTransport) SetHeartbeatHandler(handle func(raft.RPC)) { t.heartbeat.Store(&handle) }

// Close stops the transport and waits for its goroutines. It closes the stream layer but not the streams.
// Further calls have no effect.
func (t *RaftTransport) Close() (err error) {
	t.closing.Do(func() {
		close(t.closed)
		err = t.NetworkTransport.Close()
		t.tasks.Wait()
	})
	return err
}

// AppendEntries sends entries or a heartbeat.
func (t *RaftTransport) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := t.NetworkTransport.AppendEntries(id, to, args, resp); err != nil {
		return err
	}
	return t.guard.Term(resp.Term)
}

// RequestVote requests the vote of a node.
func (t *RaftTransport) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := t.NetworkTransport.RequestVote(id, to, args, resp); err != nil {
		return err
	}
	return t.guard.Term(resp.Term)
}

// RequestPreVote requests the pre-vote of a node.
func (t *RaftTransport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := t.NetworkTransport.RequestPreVote(id, to, args, resp); err != nil {
		return err
	}
	return t.guard.Term(resp.Term)
}

// InstallSnapshot sends a snapshot.
func (t *RaftTransport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := t.NetworkTransport.InstallSnapshot(id, to, args, resp, data); err != nil {
		return err
	}
	return t.guard.Term(resp.Term)
}

// Acknowledged sets the function f, which is called for each acknowledgment in a pipeline. The follower
// with the given id acknowledges that its log equals the log of this node up to the given index. term is
// the term in which this node leads. f is called before Raft receives the answer, by one goroutine for
// each pipeline.
func (t *RaftTransport) Acknowledged(f func(id string, term, index uint64)) { t.acknowledged.Store(&f) }

// reportAcknowledgment calls the function set by Acknowledged if an answer is an acknowledgment.
func (t *RaftTransport) reportAcknowledgment(id raft.ServerID, f raft.AppendFuture) {
	q, a := f.Request(), f.Response()
	if report := t.acknowledged.Load(); report != nil && a.Success && a.Term <= q.Term {
		(*report)(string(id), q.Term, q.PrevLogEntry+uint64(len(q.Entries)))
	}
}

// AppendEntriesPipeline opens a pipeline to a node. Errors are those of raft.NetworkTransport.
func (t *RaftTransport) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, to)
	if err != nil {
		return nil, err
	}
	p := &pipeline{AppendPipeline: inner, guard: t.guard, report: func(f raft.AppendFuture) { t.reportAcknowledgment(id, f) }, answers: make(chan raft.AppendFuture), closed: make(chan struct{})}
	go p.forward()
	return p, nil
}

// pipeline is a raft.AppendPipeline that closes itself after the last answer that Raft receives, see
// isLast. A concurrent send then returns an error instead of blocking.
type pipeline struct {
	raft.AppendPipeline
	guard   Guard
	report  func(raft.AppendFuture) // called with each answer
	answers chan raft.AppendFuture
	closing sync.Once
	closed  chan struct{}
}

// Consumer returns the channel of answers.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// forward passes answers to Raft until the pipeline is closed.
func (p *pipeline) forward() {
	for {
		select {
		case f := <-p.AppendPipeline.Consumer():
			p.checkTerm(f)
			p.report(f)
			select {
			case p.answers <- f:
			case <-p.closed:
				return
			}
			if isLast(f) {
				_ = p.Close() // a failure to close has no effect
				return
			}
		case <-p.closed:
			return
		}
	}
}

// checkTerm converts an answer to a refusal if its term must not reach Raft. No other
// goroutine has access to the answer yet.
func (p *pipeline) checkTerm(f raft.AppendFuture) {
	if r := f.Response(); p.guard.Term(r.Term) != nil {
		r.Term, r.Success = f.Request().Term, false
	}
}

// isLast reports whether Raft stops receiving answers after this one, because the answer
// is a refusal or has a newer term. If the stream is closed, the library reports an answer that is a refusal.
func isLast(f raft.AppendFuture) bool {
	r := f.Response()
	return !r.Success || r.Term > f.Request().Term
}

// Close closes the pipeline. Further calls have no effect.
func (p *pipeline) Close() (err error) {
	p.closing.Do(func() {
		close(p.closed)
		err = p.AppendPipeline.Close()
	})
	return err
}
