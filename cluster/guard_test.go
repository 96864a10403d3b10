package cluster

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/topology"
)

// lockedLog is a log that is read while it is written.
type lockedLog struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// count returns in how many places of the log a text is.
func (l *lockedLog) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// credulous is a guard that lets everything pass.
type credulous struct{}

func (credulous) Request(string, raft.WithRPCHeader) error { return nil }
func (credulous) Term(uint64) error                        { return nil }

// besieged is a voter of three over TLS whose other peers are in the hands of a test. It has no leader.
type besieged struct {
	*Node
	log   *lockedLog
	links map[string]*transport.Link // n1, its own; n2 and n3, voters; n4, without a vote; n9, which has never joined
}

func addrOf(l *transport.Link) string { return l.Streams(transport.Raft).Addr().String() }

// besiege starts the node with its own guard, or with another one. A heartbeat of a minute keeps it a follower: as a
// candidate, which it otherwise becomes soon, Raft ignores a request to start an election.
func besiege(t *testing.T, other transport.Guard, heartbeat time.Duration) *besieged {
	t.Helper()
	ids := []string{"n1", "n2", "n3", "n4", "n9"}
	b := &besieged{links: map[string]*transport.Link{}, log: &lockedLog{}}
	c := soloConfig("n1")
	c.Bootstrap, c.Heartbeat, c.Logger = nil, heartbeat, b.log.logger()
	for i, l := range openLinks(t, false, ids...) {
		b.links[ids[i]] = l
		if ids[i] < "n4" {
			c.Bootstrap = append(c.Bootstrap, topology.Member{ID: ids[i], Raft: addrOf(l)})
		}
	}
	c.Advertise, c.Peers = addrOf(b.links["n1"]), Over(b.links["n1"])
	trans := transport.NewRaftTransport(&raft.NetworkTransportConfig{
		Stream: b.links["n1"].Raft(), MaxPool: 3, Timeout: 2 * time.Second, Logger: hclog.NewNullLogger(),
	})
	c.Transport = trans
	c.Fatal = func(error) {} // a term of 2^64-1 has no next one
	b.Node = New(c)
	for _, id := range []string{"n2", "n3"} {
		b.met[id] = Announcement{ID: id}
	}
	if other == nil {
		other = b.Guard()
	}
	trans.Serve(other)
	first := firstConfiguration(c.Bootstrap)
	first.Servers = append(first.Servers, raft.Server{Suffrage: raft.Nonvoter, ID: "n4", Address: raft.ServerAddress(addrOf(b.links["n4"]))})
	if err := raft.BootstrapCluster(b.settings(), c.Logs, c.Stable, c.Snapshots, c.Transport, first); err != nil {
		t.Fatal(err)
	}
	if err := b.startRaft(false); err != nil {
		t.Fatal(err)
	}
	b.observe()
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), trans.Close()); err != nil {
			t.Error(err)
		}
	})
	for v := b.View(); len(v.Members) < 4; v = b.View() {
		<-v.Changed
	}
	return b
}

// header is that of a message in the name of a node.
func (b *besieged) header(id string) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(addrOf(b.links[id]))}
}

// send sends a message over the link of a node, and returns why it was refused, and whether a vote was granted.
func (b *besieged) send(t *testing.T, from string, message any) (granted bool, err error) {
	t.Helper()
	l := b.links[from]
	l.SetExpected(func(string) string { return "n1" })
	trans := raft.NewNetworkTransport(l.Raft(), 1, 10*time.Second, io.Discard)
	defer func() { _ = trans.Close() }() // returns nil
	to := raft.ServerAddress(addrOf(b.links["n1"]))
	switch m := message.(type) {
	case *raft.RequestVoteRequest:
		var r raft.RequestVoteResponse
		err = trans.RequestVote("n1", to, m, &r)
		return r.Granted, err
	case *raft.RequestPreVoteRequest:
		var r raft.RequestPreVoteResponse
		err = trans.RequestPreVote("n1", to, m, &r)
		return r.Granted, err
	case *raft.AppendEntriesRequest:
		return false, trans.AppendEntries("n1", to, m, new(raft.AppendEntriesResponse))
	case *raft.InstallSnapshotRequest:
		return false, trans.InstallSnapshot("n1", to, m, new(raft.InstallSnapshotResponse), strings.NewReader("garbage"))
	case *raft.TimeoutNowRequest:
		return false, trans.TimeoutNow("n1", to, m, new(raft.TimeoutNowResponse))
	}
	t.Fatalf("%T", message)
	return false, nil
}

// forgery is a message that must not reach Raft.
type forgery struct {
	name, from string
	message    func(b *besieged, term uint64) any // term is the node's
	want       error
}

func vote(h raft.RPCHeader, term uint64) *raft.RequestVoteRequest {
	return &raft.RequestVoteRequest{RPCHeader: h, Term: term, LastLogIndex: 1 << 30, LastLogTerm: 1, LeadershipTransfer: true}
}

func heartbeat(h raft.RPCHeader, term uint64) *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{RPCHeader: h, Term: term}
}

func snapshotOf(h raft.RPCHeader, term uint64) *raft.InstallSnapshotRequest {
	return &raft.InstallSnapshotRequest{
		RPCHeader: h, SnapshotVersion: raft.SnapshotVersionMax, Term: term, LastLogIndex: 1 << 30, LastLogTerm: 1,
		Configuration: raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(h.ID), Address: raft.ServerAddress(h.Addr)}}}),
		Size:          int64(len("garbage")),
	}
}

// forgeries are sent by n9, which is no member, by n4, which has no vote, and by n3, which has one.
func forgeries() []forgery {
	nobody := func(b *besieged) raft.RPCHeader {
		h := b.header("n3")
		h.ID = nil
		return h
	}
	elsewhere := func(b *besieged) raft.RPCHeader {
		h := b.header("n3")
		h.Addr = []byte(addrOf(b.links["n9"]))
		return h
	}
	const far = maxTermJump + 1
	return []forgery{
		{"vote of nobody", "n9", func(b *besieged, _ uint64) any { return vote(nobody(b), math.MaxUint64) }, errStranger},
		{"heartbeat of a stranger", "n9", func(b *besieged, term uint64) any { return heartbeat(b.header("n9"), term+1) }, errStranger},
		{"entries of a stranger", "n9", func(b *besieged, term uint64) any {
			m := heartbeat(b.header("n9"), term+1)
			m.LeaderCommitIndex = 1
			return m
		}, errStranger},
		{"entries of a stranger as a member", "n9", func(b *besieged, term uint64) any { return heartbeat(b.header("n3"), term+1) }, errStranger},
		{"snapshot of a stranger", "n9", func(b *besieged, term uint64) any { return snapshotOf(b.header("n9"), term+1) }, nil},
		{"timeout of a stranger", "n9", func(b *besieged, _ uint64) any { return &raft.TimeoutNowRequest{RPCHeader: b.header("n9")} }, errStranger},
		{"vote of a node without one", "n4", func(b *besieged, term uint64) any { return vote(b.header("n4"), term+1) }, errNoVoter},
		{"timeout of a node without a vote", "n4", func(b *besieged, _ uint64) any { return &raft.TimeoutNowRequest{RPCHeader: b.header("n4")} }, errNoVoter},
		{"pre-vote of nobody", "n3", func(b *besieged, term uint64) any {
			return &raft.RequestPreVoteRequest{RPCHeader: nobody(b), Term: term + 1, LastLogIndex: 1 << 30, LastLogTerm: 1}
		}, errSender},
		{"vote of nobody over a member's stream", "n3", func(b *besieged, term uint64) any { return vote(nobody(b), term+1) }, errSender},
		{"vote in another's name", "n3", func(b *besieged, term uint64) any { return vote(b.header("n2"), term+1) }, errSender},
		{"vote from another address", "n3", func(b *besieged, term uint64) any { return vote(elsewhere(b), term+1) }, errSender},
		{"heartbeat in another's name", "n3", func(b *besieged, term uint64) any { return heartbeat(b.header("n2"), term+1) }, errSender},
		{"timeout in another's name", "n3", func(b *besieged, _ uint64) any { return &raft.TimeoutNowRequest{RPCHeader: b.header("n2")} }, errSender},
		{"vote for the last term", "n3", func(b *besieged, _ uint64) any { return vote(b.header("n3"), math.MaxUint64) }, errTermAhead},
		{"vote for a far term", "n3", func(b *besieged, term uint64) any { return vote(b.header("n3"), term+far) }, errTermAhead},
		{"pre-vote for a far term", "n3", func(b *besieged, term uint64) any {
			return &raft.RequestPreVoteRequest{RPCHeader: b.header("n3"), Term: term + far, LastLogIndex: 1 << 30, LastLogTerm: 1}
		}, errTermAhead},
		{"heartbeat of a far term", "n3", func(b *besieged, term uint64) any { return heartbeat(b.header("n3"), term+far) }, errTermAhead},
		{"snapshot of a far term", "n3", func(b *besieged, term uint64) any { return snapshotOf(b.header("n3"), term+far) }, nil},
		{"entry of a far term", "n3", func(b *besieged, term uint64) any {
			m := heartbeat(b.header("n3"), term+1)
			m.Entries = []*raft.Log{{Index: 2, Term: term + far}}
			m.PrevLogEntry, m.PrevLogTerm = 1, 1
			return m
		}, errTermOrder},
	}
}

// TestGuard sends forged messages over TLS, with certificates of the cluster. None changes the term, and what a member
// sends in its own name passes.
func TestGuard(t *testing.T) {
	b := besiege(t, nil, time.Minute)
	for _, f := range forgeries() {
		term := b.raft.CurrentTerm()
		granted, err := b.send(t, f.from, f.message(b, term))
		if err == nil || granted || f.want != nil && !strings.Contains(err.Error(), f.want.Error()) {
			t.Errorf("%s: granted %v, error %v, want %v", f.name, granted, err, f.want)
		}
		if got := b.raft.CurrentTerm(); got != term {
			t.Fatalf("%s: term %d becomes %d", f.name, term, got)
		}
	}
	for _, want := range []error{errStranger, errNoVoter, errSender, errTermAhead, errTermOrder} {
		if n := b.log.count(want.Error()); n != 1 {
			t.Errorf("%d lines tell that %v, want 1", n, want)
		}
		if n := b.log.count(remedies[want]); n != 1 {
			t.Errorf("%d lines have the remedy %q, want 1", n, remedies[want])
		}
	}
	if granted, err := b.send(t, "n3", vote(b.header("n3"), b.raft.CurrentTerm()+maxTermJump)); err != nil || !granted {
		t.Errorf("a vote that is right: granted %v, error %v", granted, err)
	}
	if _, err := b.send(t, "n2", heartbeat(b.header("n2"), b.raft.CurrentTerm()+1)); err != nil {
		t.Errorf("a heartbeat that is right: %v", err)
	}
}

// TestForgeriesWouldWork sends the same messages to nodes that believe them: else the test above would prove nothing.
func TestForgeriesWouldWork(t *testing.T) {
	for _, f := range forgeries() {
		if f.name == "pre-vote of nobody" { // which Raft refuses, too
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			b := besiege(t, credulous{}, time.Minute)
			term := b.raft.CurrentTerm()
			granted, err := b.send(t, f.from, f.message(b, term))
			if err != nil && !strings.Contains(f.name, "snapshot") { // which is not the state of a node
				t.Fatal(err)
			}
			// Raft announces no change of its term, so it is polled. The limit only matters to a test that fails.
			for end := time.Now().Add(2 * time.Minute); !granted && b.raft.CurrentTerm() == term; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("the term is %d as before, and no vote was granted", term)
				}
			}
		})
	}
}

// TestGuardOfAnswers has the other voters answer with a term of 2^64-1.
func TestGuardOfAnswers(t *testing.T) {
	for name, guard := range map[string]transport.Guard{"guarded": nil, "credulous": credulous{}} {
		t.Run(name, func(t *testing.T) {
			b := besiege(t, guard, 100*time.Millisecond)
			b.returning.skip() // the others answer nothing but votes
			answered := make(chan struct{}, 100)
			for _, id := range []string{"n2", "n3"} {
				trans := raft.NewNetworkTransport(b.links[id].Raft(), 1, 10*time.Second, io.Discard)
				go func() {
					for {
						select {
						case rpc := <-trans.Consumer():
							rpc.Respond(&raft.RequestPreVoteResponse{Term: math.MaxUint64 - 1}, nil)
							select {
							case answered <- struct{}{}:
							default:
							}
						case <-t.Context().Done():
							return
						}
					}
				}()
			}
			b.links["n1"].SetExpected(b.NodeAt)
			term := b.raft.CurrentTerm()
			for range 6 { // elections go on behind the first
				<-answered
				if guard != nil && b.raft.CurrentTerm() > term {
					break
				}
			}
			if got := b.raft.CurrentTerm(); (got != term) != (guard != nil) {
				t.Errorf("term %d becomes %d", term, got)
			}
			if n := b.log.count(errTermAhead.Error()); (n == 1) != (guard == nil) {
				t.Errorf("%d lines tell of it", n)
			}
		})
	}
}

// TestTermsOfJoining has a node that has just joined a cluster believe terms near the one that it was told.
func TestTermsOfJoining(t *testing.T) {
	b := besiege(t, nil, time.Minute)
	b.guard.joined.Store(1 << 40)
	if b.guard.Term(1<<40) == nil {
		t.Error("a node that has a term believes another")
	}
	for _, tt := range []struct{ own, term uint64 }{{1, 1 + maxTermJump}, {math.MaxUint64 - 5, math.MaxUint64}} {
		if got := furthest(tt.own); got != tt.term {
			t.Errorf("from %d up to %d, want %d", tt.own, got, tt.term)
		}
	}
}
