package peerlink

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Transport is raft.NetworkTransport without a trap of version 1.7.3 (hashicorp/raft issue 612). Where
// a pipeline of entries to a follower comes to an answer that ends it, the library stops taking answers;
// if it is about to send another request at that moment, it waits for ever for somebody to take the
// answers before that. Such a follower gets heartbeats and no entry until another node leads, and
// Shutdown of the node that leads never ends.
type Transport struct {
	*raft.NetworkTransport
	acknowledged atomic.Pointer[func(id string, term, index uint64)]
}

// NewTransport returns a Transport, which serves at once.
func NewTransport(c *raft.NetworkTransportConfig) *Transport {
	return &Transport{NetworkTransport: raft.NewNetworkTransportWithConfig(c)}
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
	p := &pipeline{AppendPipeline: inner, note: func(f raft.AppendFuture) { t.note(id, f) }, answers: make(chan raft.AppendFuture), closed: make(chan struct{})}
	go p.pass()
	return p, nil
}

// pipeline is one that closes itself behind the answer that ends it, so that whoever is sending
// then gets an error.
type pipeline struct {
	raft.AppendPipeline
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
