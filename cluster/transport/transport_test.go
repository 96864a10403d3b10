package transport

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

func newTransport(l *Link) *RaftTransport {
	return servedBy(l, trusting{})
}

// servedBy returns a transport over a link. g is the guard of the transport.
func servedBy(l *Link, g Guard) *RaftTransport {
	t := NewRaftTransport(&raft.NetworkTransportConfig{Stream: l.Raft(), MaxPool: 3, Timeout: 2 * time.Second, Logger: hclog.NewNullLogger()})
	t.Serve(g)
	return t
}

// trusting is a Guard that accepts everything.
type trusting struct{}

func (trusting) Request(string, raft.WithRPCHeader) error { return nil }
func (trusting) Term(uint64) error                        { return nil }

// limited is a Guard that rejects answers with a term above highest.
type limited struct {
	trusting
	highest uint64
}

var errTooHigh = errors.New("the term is too high")

func (g limited) Term(term uint64) error {
	if term > g.highest {
		return errTooHigh
	}
	return nil
}

// transportTo returns a transport with the guard g, and the address of a node that answers messages by
// calling answer.
func transportTo(t *testing.T, g Guard, answer func(command any) any) (from *RaftTransport, addr raft.ServerAddress) {
	t.Helper()
	from, to := servedBy(open(t, plain("n1")), g), newTransport(open(t, plain("n2")))
	t.Cleanup(func() {
		_ = from.Close() // errors do not matter at the end of the test
		_ = to.Close()
	})
	go func() {
		for {
			select {
			case rpc := <-to.Consumer():
				rpc.Respond(answer(rpc.Command), nil)
			case <-t.Context().Done():
				return
			}
		}
	}()
	return from, to.LocalAddr()
}

// startPipeline opens a pipeline to a node that answers requests by calling answer.
func startPipeline(t *testing.T, answer func(*raft.AppendEntriesRequest) *raft.AppendEntriesResponse) raft.AppendPipeline {
	t.Helper()
	from, addr := transportTo(t, trusting{}, func(command any) any { return answer(command.(*raft.AppendEntriesRequest)) })
	return openPipeline(t, from, addr)
}

func openPipeline(t *testing.T, from *RaftTransport, addr raft.ServerAddress) raft.AppendPipeline {
	t.Helper()
	p, err := from.AppendEntriesPipeline("n2", addr)
	if err != nil {
		t.Fatalf("open a pipeline: %v", err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// appendEntries sends a request in a term, and fails the test if the call blocks.
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
		t.Fatal("AppendEntries does not return; want a result")
		return nil
	}
}

func awaitAnswer(t *testing.T, p raft.AppendPipeline) raft.AppendFuture {
	t.Helper()
	select {
	case f := <-p.Consumer():
		return f
	case <-time.After(patience):
		t.Fatal("the pipeline delivers no answer; want one")
		return nil
	}
}

func TestPipeline(t *testing.T) {
	p := startPipeline(t, func(q *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
		return &raft.AppendEntriesResponse{Term: q.Term, LastLog: 10 + q.Term, Success: true}
	})
	for term := range uint64(100) {
		if err := appendEntries(t, p, term); err != nil {
			t.Fatalf("AppendEntries in term %d returns %v; want nil", term, err)
		}
		f := awaitAnswer(t, p)
		if f.Request().Term != term || f.Response().LastLog != 10+term || f.Error() != nil {
			t.Fatalf("in term %d, the answer is %+v to the request %+v, error %v; want the answer to the last request", term, f.Response(), f.Request(), f.Error())
		}
	}
	if err := p.Close(); err != nil {
		t.Errorf("Close of the pipeline returns %v; want nil", err)
	}
	if err := appendEntries(t, p, 100); err == nil {
		t.Error("AppendEntries on a closed pipeline succeeds; want an error")
	}
}

// TestPipelineEnds continues to send requests after the answer that ends the pipeline. Like Raft, it
// receives no further answers. A request must fail instead of blocking.
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
				t.Fatalf("AppendEntries of the first request returns %v; want nil", err)
			}
			awaitAnswer(t, p)
			var err error
			for range 4 { // two requests can be in flight: without the workaround, the third would block
				err = appendEntries(t, p, 5)
			}
			if err == nil {
				t.Error("AppendEntries succeeds after the answer that ends the pipeline; want an error")
			}
		})
	}
}

// TestPipelineCloses closes a pipeline before its requests are answered. A request must then fail.
func TestPipelineCloses(t *testing.T) {
	asked := make(chan struct{}, 10)
	p := startPipeline(t, func(*raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
		asked <- struct{}{}
		<-t.Context().Done() // delays the answer until the end of the test
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
	t.Error("AppendEntries succeeds after the pipeline was closed; want an error")
}

// answerAt returns a function that answers any message with success and the given term.
func answerAt(term uint64) func(command any) any {
	return func(command any) any {
		switch command.(type) {
		case *raft.AppendEntriesRequest:
			return &raft.AppendEntriesResponse{Term: term, Success: true}
		case *raft.RequestVoteRequest:
			return &raft.RequestVoteResponse{Term: term, Granted: true}
		case *raft.RequestPreVoteRequest:
			return &raft.RequestPreVoteResponse{Term: term, Granted: true}
		case *raft.InstallSnapshotRequest:
			return &raft.InstallSnapshotResponse{Term: term, Success: true}
		}
		return nil
	}
}

// TestGuardOfAnswers answers each kind of message with a term that the guard accepts, and with a term
// that the guard rejects. The call must return the error of the guard.
func TestGuardOfAnswers(t *testing.T) {
	const highest = 7
	calls := map[string]func(*RaftTransport, raft.ServerAddress) error{
		"entries": func(from *RaftTransport, to raft.ServerAddress) error {
			return from.AppendEntries("n2", to, &raft.AppendEntriesRequest{Term: 5}, new(raft.AppendEntriesResponse))
		},
		"vote": func(from *RaftTransport, to raft.ServerAddress) error {
			return from.RequestVote("n2", to, &raft.RequestVoteRequest{Term: 5}, new(raft.RequestVoteResponse))
		},
		"pre-vote": func(from *RaftTransport, to raft.ServerAddress) error {
			return from.RequestPreVote("n2", to, &raft.RequestPreVoteRequest{Term: 5}, new(raft.RequestPreVoteResponse))
		},
		"snapshot": func(from *RaftTransport, to raft.ServerAddress) error {
			q := &raft.InstallSnapshotRequest{SnapshotVersion: raft.SnapshotVersionMax, Term: 5}
			return from.InstallSnapshot("n2", to, q, new(raft.InstallSnapshotResponse), strings.NewReader(""))
		},
	}
	for name, call := range calls {
		for term, want := range map[uint64]error{highest: nil, highest + 1: errTooHigh} {
			from, to := transportTo(t, limited{highest: highest}, answerAt(term))
			if err := call(from, to); !errors.Is(err, want) {
				t.Errorf("%s: if the answer has term %d, the call returns %v; want %v", name, term, err, want)
			}
		}
	}
}

// TestGuardOfPipeline checks that an answer in a pipeline becomes a refusal if the guard rejects its term.
// The answer must not be reported as an acknowledgment.
func TestGuardOfPipeline(t *testing.T) {
	from, to := transportTo(t, limited{highest: 7}, answerAt(8))
	from.Acknowledged(func(id string, term, index uint64) {
		t.Errorf("an acknowledgment by %s of entry %d in term %d is reported; want none", id, index, term)
	})
	p := openPipeline(t, from, to)
	if err := appendEntries(t, p, 8); err != nil {
		t.Fatal(err)
	}
	if r := awaitAnswer(t, p).Response(); r.Success || r.Term != 8 {
		t.Errorf("the answer is %+v; want a refusal in term 8", r)
	}
	q := openPipeline(t, from, to)
	if err := appendEntries(t, q, 5); err != nil {
		t.Fatal(err)
	}
	if r := awaitAnswer(t, q).Response(); r.Success || r.Term != 5 {
		t.Errorf("the answer is %+v; want a refusal in term 5, the term of the request", r)
	}
}
