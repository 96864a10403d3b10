package peerlink

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

func newTransport(l *Link) *Transport {
	return servedBy(l, trusting{})
}

// servedBy returns a transport over a link that a guard watches.
func servedBy(l *Link, g Guard) *Transport {
	t := NewTransport(&raft.NetworkTransportConfig{Stream: l.Raft(), MaxPool: 3, Timeout: 2 * time.Second, Logger: hclog.NewNullLogger()})
	t.Serve(g)
	return t
}

// trusting is a Guard that lets everything pass.
type trusting struct{}

func (trusting) Request(string, raft.WithRPCHeader) error { return nil }
func (trusting) Term(uint64) error                        { return nil }

// startPipeline opens a pipeline to a node that answers requests as it is told to.
func startPipeline(t *testing.T, answer func(*raft.AppendEntriesRequest) *raft.AppendEntriesResponse) raft.AppendPipeline {
	t.Helper()
	from, to := newTransport(open(t, plain("n1"))), newTransport(open(t, plain("n2")))
	t.Cleanup(func() {
		_ = from.Close() // neither has anything to lose
		_ = to.Close()
	})
	go func() {
		for {
			select {
			case rpc := <-to.Consumer():
				rpc.Respond(answer(rpc.Command.(*raft.AppendEntriesRequest)), nil)
			case <-t.Context().Done():
				return
			}
		}
	}()
	p, err := from.AppendEntriesPipeline("n2", to.LocalAddr())
	if err != nil {
		t.Fatalf("open a pipeline: %v", err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// appendEntries sends a request of a term, and fails the test if it is not through in a while.
func appendEntries(t *testing.T, p raft.AppendPipeline, term uint64) error {
	t.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: term}, new(raft.AppendEntriesResponse))
		sent <- err
	}()
	select {
	case err := <-sent:
		return err
	case <-time.After(patience):
		t.Fatal("a request is neither sent nor refused")
		return nil
	}
}

func awaitAnswer(t *testing.T, p raft.AppendPipeline) raft.AppendFuture {
	t.Helper()
	select {
	case f := <-p.Consumer():
		return f
	case <-time.After(patience):
		t.Fatal("there is no answer")
		return nil
	}
}

func TestPipeline(t *testing.T) {
	p := startPipeline(t, func(q *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
		return &raft.AppendEntriesResponse{Term: q.Term, LastLog: 10 + q.Term, Success: true}
	})
	for term := range uint64(100) {
		if err := appendEntries(t, p, term); err != nil {
			t.Fatalf("request %d: %v", term, err)
		}
		f := awaitAnswer(t, p)
		if f.Request().Term != term || f.Response().LastLog != 10+term || f.Error() != nil {
			t.Fatalf("answer %d is %+v to %+v, %v", term, f.Response(), f.Request(), f.Error())
		}
	}
	if err := p.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := appendEntries(t, p, 100); err == nil {
		t.Error("a pipeline that is closed takes a request")
	}
}

// TestPipelineEnds takes no answer after the one that ends the pipeline, as Raft does, and goes on sending.
func TestPipelineEnds(t *testing.T) {
	for name, answer := range map[string]raft.AppendEntriesResponse{
		"refused":      {Term: 5},
		"newer term":   {Term: 6, Success: true},
		"both of them": {Term: 6},
	} {
		t.Run(name, func(t *testing.T) {
			p := startPipeline(t, func(*raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
				a := answer
				return &a
			})
			if err := appendEntries(t, p, 5); err != nil {
				t.Fatalf("the first request: %v", err)
			}
			awaitAnswer(t, p)
			var err error
			for range 4 { // two are on their way while nobody takes answers, and no third
				err = appendEntries(t, p, 5)
			}
			if err == nil {
				t.Error("requests go on")
			}
		})
	}
}

// TestPipelineCloses closes a pipeline whose answers do not come.
func TestPipelineCloses(t *testing.T) {
	asked := make(chan struct{}, 10)
	p := startPipeline(t, func(*raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
		asked <- struct{}{}
		<-t.Context().Done() // it says nothing
		return &raft.AppendEntriesResponse{}
	})
	go func() {
		<-asked
		_ = p.Close()
	}()
	for range 4 {
		if err := appendEntries(t, p, 5); err != nil {
			return
		}
	}
	t.Error("requests go on")
}
