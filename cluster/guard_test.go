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

// lockedLog is a log that can be read while it is written.
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

// count returns the number of occurrences of a text.
func (l *lockedLog) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// acceptAll is a guard that accepts all messages.
type acceptAll struct{}

func (acceptAll) Request(string, raft.WithRPCHeader) error { return nil }
func (acceptAll) Term(uint64) error                        { return nil }

// guardRig is node n1, one of three voters, with TLS. The test sends the messages of the other nodes. There is no
// leader.
type guardRig struct {
	*Node
	log   *lockedLog
	links map[string]*transport.Link // n1, the node; n2 and n3, voters; n4, without a vote; n9, not a member
}

func addrOf(l *transport.Link) string { return l.Streams(transport.Raft).Addr().String() }

// newGuardRig starts the node with the guard in the argument, or with the guard of the node if the argument is nil.
// With a heartbeat of a minute, the node remains a follower. If it were a candidate, Raft would ignore a request to
// start an election.
func newGuardRig(t *testing.T, other transport.Guard, heartbeat time.Duration) *guardRig {
	t.Helper()
	ids := []string{"n1", "n2", "n3", "n4", "n9"}
	b := &guardRig{links: map[string]*transport.Link{}, log: &lockedLog{}}
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
	c.Fatal = func(error) {} // errors are expected: there is no term after a forged term of 2^64-1
	b.Node = New(c)
	for _, id := range []string{"n2", "n3"} {
		b.bootstrap.participants[id] = Announcement{ID: id}
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
	b.observer.start()
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

// header returns the header of a message from a node.
func (b *guardRig) header(id string) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(addrOf(b.links[id]))}
}

// send sends a message over the link of a node. It reports whether a vote was granted, and returns the error.
func (b *guardRig) send(t *testing.T, from string, message any) (granted bool, err error) {
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
	t.Fatalf("cannot send a message of type %T", message)
	return false, nil
}

// forgery is a message that must not be passed to Raft.
type forgery struct {
	name, from string
	message    func(b *guardRig, term uint64) any // term is the current term of the node
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

// forgeries returns messages from n9, which is not a member, from n4, which is a nonvoter, and from n3, which is a
// voter.
func forgeries() []forgery {
	anonymous := func(b *guardRig) raft.RPCHeader {
		h := b.header("n3")
		h.ID = nil
		return h
	}
	elsewhere := func(b *guardRig) raft.RPCHeader {
		h := b.header("n3")
		h.Addr = []byte(addrOf(b.links["n9"]))
		return h
	}
	const far = maxTermJump + 1
	return []forgery{
		{"vote without a sender", "n9", func(b *guardRig, _ uint64) any { return vote(anonymous(b), math.MaxUint64) }, errNonMember},
		{"heartbeat of a non-member", "n9", func(b *guardRig, term uint64) any { return heartbeat(b.header("n9"), term+1) }, errNonMember},
		{"entries of a non-member", "n9", func(b *guardRig, term uint64) any {
			m := heartbeat(b.header("n9"), term+1)
			m.LeaderCommitIndex = 1
			return m
		}, errNonMember},
		{"heartbeat of a non-member in a member's name", "n9", func(b *guardRig, term uint64) any { return heartbeat(b.header("n3"), term+1) }, errNonMember},
		{"snapshot of a non-member", "n9", func(b *guardRig, term uint64) any { return snapshotOf(b.header("n9"), term+1) }, nil},
		{"TimeoutNow from a non-member", "n9", func(b *guardRig, _ uint64) any { return &raft.TimeoutNowRequest{RPCHeader: b.header("n9")} }, errNonMember},
		{"vote of a node without a vote", "n4", func(b *guardRig, term uint64) any { return vote(b.header("n4"), term+1) }, errNoVoter},
		{"timeout of a node without a vote", "n4", func(b *guardRig, _ uint64) any { return &raft.TimeoutNowRequest{RPCHeader: b.header("n4")} }, errNoVoter},
		{"pre-vote without a sender", "n3", func(b *guardRig, term uint64) any {
			return &raft.RequestPreVoteRequest{RPCHeader: anonymous(b), Term: term + 1, LastLogIndex: 1 << 30, LastLogTerm: 1}
		}, errSender},
		{"vote without a sender over a member's stream", "n3", func(b *guardRig, term uint64) any { return vote(anonymous(b), term+1) }, errSender},
		{"vote in another's name", "n3", func(b *guardRig, term uint64) any { return vote(b.header("n2"), term+1) }, errSender},
		{"vote from another address", "n3", func(b *guardRig, term uint64) any { return vote(elsewhere(b), term+1) }, errSender},
		{"heartbeat in another's name", "n3", func(b *guardRig, term uint64) any { return heartbeat(b.header("n2"), term+1) }, errSender},
		{"timeout in another's name", "n3", func(b *guardRig, _ uint64) any { return &raft.TimeoutNowRequest{RPCHeader: b.header("n2")} }, errSender},
		{"vote request of the highest possible term", "n3", func(b *guardRig, _ uint64) any { return vote(b.header("n3"), math.MaxUint64) }, errTermAhead},
		{"vote request of a term too far ahead", "n3", func(b *guardRig, term uint64) any { return vote(b.header("n3"), term+far) }, errTermAhead},
		{"pre-vote for a far term", "n3", func(b *guardRig, term uint64) any {
			return &raft.RequestPreVoteRequest{RPCHeader: b.header("n3"), Term: term + far, LastLogIndex: 1 << 30, LastLogTerm: 1}
		}, errTermAhead},
		{"heartbeat of a far term", "n3", func(b *guardRig, term uint64) any { return heartbeat(b.header("n3"), term+far) }, errTermAhead},
		{"snapshot of a far term", "n3", func(b *guardRig, term uint64) any { return snapshotOf(b.header("n3"), term+far) }, nil},
		{"entry of a far term", "n3", func(b *guardRig, term uint64) any {
			m := heartbeat(b.header("n3"), term+1)
			m.Entries = []*raft.Log{{Index: 2, Term: term + far}}
			m.PrevLogEntry, m.PrevLogTerm = 1, 1
			return m
		}, errTermOrder},
		{"entries after one of the next leader", "n3", func(b *guardRig, term uint64) any {
			m := heartbeat(b.header("n3"), term+1)
			m.PrevLogEntry, m.PrevLogTerm = 5, term+2
			return m
		}, errOldLeader},
	}
}

// TestGuard sends forged messages over TLS, with certificates of the cluster, and checks that none of them changes the
// term. Valid messages from a member must be accepted.
func TestGuard(t *testing.T) {
	b := newGuardRig(t, nil, time.Minute)
	for _, f := range forgeries() {
		term := b.raft.CurrentTerm()
		granted, err := b.send(t, f.from, f.message(b, term))
		if err == nil || granted || f.want != nil && !strings.Contains(err.Error(), f.want.Error()) {
			t.Errorf("%s: vote granted %v, error %v; want no vote, and the error %v (nil: any error)", f.name, granted, err, f.want)
		}
		if got := b.raft.CurrentTerm(); got != term {
			t.Fatalf("%s: the term changed from %d to %d", f.name, term, got)
		}
	}
	for _, want := range []error{errNonMember, errNoVoter, errSender, errTermAhead, errTermOrder} {
		if n := b.log.count(want.Error()); n != 1 {
			t.Errorf("%d log lines have the reason %q, want 1", n, want)
		}
		if n := b.log.count(remedies[want]); n != 1 {
			t.Errorf("%d log lines have the remedy %q, want 1", n, remedies[want])
		}
	}
	if n := b.log.count(errOldLeader.Error()); n != 0 {
		t.Errorf("%d log lines report a former leader, want 0", n)
	}
	if granted, err := b.send(t, "n3", vote(b.header("n3"), b.raft.CurrentTerm()+maxTermJump)); err != nil || !granted {
		t.Errorf("a valid vote request: granted %v, error %v; want a vote", granted, err)
	}
	if _, err := b.send(t, "n2", heartbeat(b.header("n2"), b.raft.CurrentTerm()+1)); err != nil {
		t.Errorf("a valid heartbeat: %v, want nil", err)
	}
}

// TestForgeriesWouldWork sends the forged messages to nodes without a guard, and checks that each message takes
// effect. Otherwise TestGuard would not test the guard.
func TestForgeriesWouldWork(t *testing.T) {
	for _, f := range forgeries() {
		if f.name == "pre-vote without a sender" { // Raft itself rejects this message
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			b := newGuardRig(t, acceptAll{}, time.Minute)
			term := b.raft.CurrentTerm()
			granted, err := b.send(t, f.from, f.message(b, term))
			if err != nil && !strings.Contains(f.name, "snapshot") { // the snapshot itself is not valid
				t.Fatal(err)
			}
			// Raft does not report changes of its term, so the term is polled. The timeout only matters if the test
			// fails.
			for end := time.Now().Add(2 * time.Minute); !granted && b.raft.CurrentTerm() == term; time.Sleep(time.Millisecond) { // the polling interval
				if time.Now().After(end) {
					t.Fatalf("a forged message had no effect: the term is still %d, and no vote was granted", term)
				}
			}
		})
	}
}

// TestGuardOfAnswers makes the other voters answer with a term of 2^64-2. With the guard of the node, the term of the
// node must not change. Without a guard, it must change, which shows that the test tests the guard.
func TestGuardOfAnswers(t *testing.T) {
	for name, guard := range map[string]transport.Guard{"guarded": nil, "accept all": acceptAll{}} {
		t.Run(name, func(t *testing.T) {
			b := newGuardRig(t, guard, 100*time.Millisecond)
			b.access.rejoin.skip() // the other nodes answer requests for votes, but no questions
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
			for range 6 { // elections continue after the first answer
				<-answered
				if guard != nil && b.raft.CurrentTerm() > term {
					break
				}
			}
			if got := b.raft.CurrentTerm(); (got != term) != (guard != nil) {
				t.Errorf("the term was %d and is %d; it must change if and only if there is no guard", term, got)
			}
			if n := b.log.count(errTermAhead.Error()); (n == 1) != (guard == nil) {
				t.Errorf("%d log lines report a term that is too far ahead, want one if and only if there is a guard", n)
			}
		})
	}
}

// TestTermsOfJoining checks that a node that has a term of its own does not use the term that it received when it
// joined, and checks the highest term that a node accepts.
func TestTermsOfJoining(t *testing.T) {
	b := newGuardRig(t, nil, time.Minute)
	b.access.guard.joined.Store(1 << 40)
	if b.access.guard.Term(1<<40) == nil {
		t.Error("Term accepted the term that was received on joining, although the node has its own term")
	}
	for _, tt := range []struct{ own, term uint64 }{{1, 1 + maxTermJump}, {math.MaxUint64 - 5, math.MaxUint64}} {
		if got := maxTermAfter(tt.own); got != tt.term {
			t.Errorf("maxTermAfter of %d is %d, want %d", tt.own, got, tt.term)
		}
	}
}
