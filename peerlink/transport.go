package peerlink

import (
	"sync"

	"github.com/hashicorp/raft"
)

// Transport is raft.NetworkTransport without a trap of version 1.7.3 (hashicorp/raft issue 612). Where
// a pipeline of entries to a follower comes to an answer that ends it, the library stops taking answers;
// if it is about to send another request at that moment, it waits for ever for somebody to take the
// answers before that. Such a follower gets heartbeats and no entry until another node leads, and
// Shutdown of the node that leads never ends.
type Transport struct{ *raft.NetworkTransport }

// NewTransport returns a Transport, which serves at once.
func NewTransport(c *raft.NetworkTransportConfig) *Transport {
	return &Transport{raft.NewNetworkTransportWithConfig(c)}
}

// AppendEntriesPipeline opens a pipeline to a node. Errors are those of raft.NetworkTransport.
func (t *Transport) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, to)
	if err != nil {
		return nil, err
	}
	p := &pipeline{AppendPipeline: inner, answers: make(chan raft.AppendFuture), closed: make(chan struct{})}
	go p.pass()
	return p, nil
}

// pipeline is one that closes itself behind the answer that ends it, so that whoever is sending
// then gets an error.
type pipeline struct {
	raft.AppendPipeline
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
