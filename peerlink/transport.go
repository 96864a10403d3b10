package peerlink

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Transport is raft.NetworkTransport with two changes.
//
// A [Guard] judges every message of another node and every answer.
//
// A trap of version 1.7.3 (hashicorp/raft issue 612) is closed. Where
// a pipeline of entries to a follower comes to an answer that ends it, the library stops taking answers;
// if it is about to send another request at that moment, it waits for ever for somebody to take the
// answers before that. Such a follower gets heartbeats and no entry until another node leads, and
// Shutdown of the node that leads never ends.
type Transport struct {
	*raft.NetworkTransport // dials; it accepts nothing
	config                 raft.NetworkTransportConfig
	guard                  Guard // set by Serve
	acknowledged           atomic.Pointer[func(id string, term, index uint64)]

	incoming  chan raft.RPC
	heartbeat atomic.Pointer[func(raft.RPC)]
	tasks     sync.WaitGroup
	closing   sync.Once
	closed    chan struct{}
}

// NewTransport returns a Transport. It neither accepts nor sends messages before Serve is called.
func NewTransport(c *raft.NetworkTransportConfig) *Transport {
	t := &Transport{config: *c, incoming: make(chan raft.RPC), closed: make(chan struct{})}
	out := *c
	out.Stream = dialing{c.Stream, make(chan struct{})}
	t.NetworkTransport = raft.NewNetworkTransportWithConfig(&out)
	return t
}

// Serve begins to accept messages, judged by a guard. It must be called once, before Raft is started.
func (t *Transport) Serve(guard Guard) {
	t.guard = guard
	t.tasks.Go(t.accept)
}

// Consumer returns the messages that have passed the guard.
func (t *Transport) Consumer() <-chan raft.RPC { return t.incoming }

// SetHeartbeatHandler sets the function that handles heartbeats.
func (t *Transport) SetHeartbeatHandler(handle func(raft.RPC)) { t.heartbeat.Store(&handle) }

// Close stops the Transport and waits for its goroutines. It closes the stream layer but not the streams.
// Calls after the first do nothing.
func (t *Transport) Close() (err error) {
	t.closing.Do(func() {
		close(t.closed)
		err = t.NetworkTransport.Close()
		t.tasks.Wait()
	})
	return err
}

// AppendEntries sends entries or a heartbeat.
func (t *Transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := t.NetworkTransport.AppendEntries(id, to, args, resp); err != nil {
		return err
	}
	return t.guard.Term(resp.Term)
}

// RequestVote asks a node for its vote.
func (t *Transport) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := t.NetworkTransport.RequestVote(id, to, args, resp); err != nil {
		return err
	}
	return t.guard.Term(resp.Term)
}

// RequestPreVote asks a node whether it would vote for this one.
func (t *Transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := t.NetworkTransport.RequestPreVote(id, to, args, resp); err != nil {
		return err
	}
	return t.guard.Term(resp.Term)
}

// InstallSnapshot sends a snapshot.
func (t *Transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := t.NetworkTransport.InstallSnapshot(id, to, args, resp, data); err != nil {
		return err
	}
	return t.guard.Term(resp.Term)
}

// Acknowledged has f called with each answer in a pipeline by which a node acknowledges that it has the log of this one, which leads
// in a term, up to an index. It is called before Raft takes the answer, by one goroutine for each pipeline.
func (t *Transport) Acknowledged(f func(id string, term, index uint64)) { t.acknowledged.Store(&f) }

// note tells of an answer.
func (t *Transport) note(id raft.ServerID, f raft.AppendFuture) {
	q, a := f.Request(), f.Response()
	if told := t.acknowledged.Load(); told != nil && a.Success && a.Term <= q.Term {
		(*told)(string(id), q.Term, q.PrevLogEntry+uint64(len(q.Entries)))
	}
}

// AppendEntriesPipeline opens a pipeline to a node. Errors are those of raft.NetworkTransport.
func (t *Transport) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, to)
	if err != nil {
		return nil, err
	}
	p := &pipeline{AppendPipeline: inner, guard: t.guard, note: func(f raft.AppendFuture) { t.note(id, f) }, answers: make(chan raft.AppendFuture), closed: make(chan struct{})}
	go p.pass()
	return p, nil
}

// pipeline is one that closes itself behind the answer that ends it, so that whoever is sending
// then gets an error.
type pipeline struct {
	raft.AppendPipeline
	guard   Guard
	note    func(raft.AppendFuture)
	answers chan raft.AppendFuture
	closing sync.Once
	closed  chan struct{}
}

// Consumer returns what answers come in on.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// pass hands answers on until the pipeline is closed.
func (p *pipeline) pass() {
	for {
		select {
		case f := <-p.AppendPipeline.Consumer():
			p.judge(f)
			p.note(f)
			select {
			case p.answers <- f:
			case <-p.closed:
				return
			}
			if isLast(f) {
				_ = p.Close() // there is nobody to tell
				return
			}
		case <-p.closed:
			return
		}
	}
}

// judge makes a refusal of an answer whose term must not reach Raft. Nobody else has the answer yet.
func (p *pipeline) judge(f raft.AppendFuture) {
	if r := f.Response(); p.guard.Term(r.Term) != nil {
		r.Term, r.Success = f.Request().Term, false
	}
}

// isLast reports whether Raft takes no answer after this one: a refusal, the end of the stream, which
// looks like one, or a newer term.
func isLast(f raft.AppendFuture) bool {
	r := f.Response()
	return !r.Success || r.Term > f.Request().Term
}

// Close ends the pipeline. Calls after the first do nothing.
func (p *pipeline) Close() (err error) {
	p.closing.Do(func() {
		close(p.closed)
		err = p.AppendPipeline.Close()
	})
	return err
}
