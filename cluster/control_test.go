package cluster

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/cluster/transport/certs"
	"github.com/throttledhq/throttled/topology"
)

// patience is the timeout of tests for events that must happen. It is far longer than the events take.
const patience = 2 * time.Minute

// soloConfig returns the configuration of a single node, to which other nodes can be added.
func soloConfig(id string) Config {
	_, trans := raft.NewInmemTransport(raft.ServerAddress(id))
	clock, d := NewClock(), newDisk()
	return Config{
		Cluster: "c1", Version: "test", Advertise: id, Self: Announcement{ID: id, Incarnation: "of " + id, Host: "127.0.0.1", Port: 1},
		Bootstrap: []topology.Member{{ID: id, Raft: id}}, Heartbeat: 50 * time.Millisecond,
		Table: buckets.New(buckets.Config{Clock: clock.Now, Replicated: true}), Clock: clock,
		Logs: d, Stable: d, Snapshots: d, Transport: trans,
	}
}

// startSolo starts a node, and waits until it is the leader.
func startSolo(t *testing.T, c Config) *Node {
	t.Helper()
	c.Fatal = func(err error) { t.Errorf("%s: unexpected fatal error: %v", c.Self.ID, err) }
	n := New(c)
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.After(patience); !n.View().Leading; {
		select {
		case <-n.View().Changed:
		case <-end:
			t.Fatal("the node did not become the leader")
		}
	}
	return n
}

func closeSolo(t *testing.T, n *Node) {
	t.Helper()
	if err := n.Close(); err != nil {
		t.Errorf("Close returned %v", err)
	}
}

// openLinks opens the links of nodes of one cluster, with or without certificates.
func openLinks(t *testing.T, insecure bool, ids ...string) (links []*transport.Link) {
	t.Helper()
	ca, err := certs.NewCA("c1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := ca.Save(dir); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		pair, err := ca.Issue(id, "c1", 1, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := pair.Save(dir, id); err != nil {
			t.Fatal(err)
		}
		c := transport.Config{Cluster: "c1", Node: id, Bind: "127.0.0.1:0", Insecure: insecure, HandshakeTimeout: patience, Log: slog.New(slog.DiscardHandler)}
		c.CertFile, c.KeyFile = certs.Files(dir, id)
		c.CAFile, _ = certs.CAFiles(dir)
		l, err := transport.Listen(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		links = append(links, l)
	}
	return links
}

// serveControl makes a node answer questions over a link. The returned function closes the link and the node.
func serveControl(t *testing.T, n *Node, l *transport.Link) (end func()) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- n.ServeControl(l.Streams(transport.Control)) }()
	return func() {
		if err := errors.Join(l.Close(), <-served); err != nil {
			t.Error(err)
		}
		closeSolo(t, n)
	}
}

// TestNodeAsksForItself checks that a node may ask only about itself, with and without certificates.
func TestNodeAsksForItself(t *testing.T) {
	for name, insecure := range map[string]bool{"TLS": false, "insecure": true} {
		t.Run(name, func(t *testing.T) {
			links := openLinks(t, insecure, "n1", "n2")
			n := startSolo(t, soloConfig("n1"))
			defer serveControl(t, n, links[0])()
			to := topology.Member{ID: "n1", Raft: links[0].Streams(transport.Control).Addr().String()}
			ask := func(about topic, id string) string {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				node := &Announcement{ID: id, Incarnation: "of " + id, Host: "127.0.0.2", Port: 666}
				a, err := Over(links[1]).Ask(ctx, to, Question{About: about, Node: node, Raft: "127.0.0.1:1"})
				if err != nil {
					t.Fatal(err)
				}
				return a.Error
			}
			for _, id := range []string{"n1", "n3"} {
				for _, about := range []topic{topicHandshake, topicJoin, topicAnnounce, topicVote, topicRemove, topicOwnMembership} {
					if got := ask(about, id); !strings.Contains(got, ErrNotItself.Error()) {
						t.Errorf("n2 asks about %s for node %s: error %q, want ErrNotItself", about, id, got)
					}
				}
			}
			if v := n.View(); len(v.Members) != 1 || v.Members[0].Port == 666 {
				t.Errorf("the members are %+v, want only n1 with its own port", v.Members)
			}
			if got := ask(topicJoin, "n2"); got != "" {
				t.Errorf("n2 asks to join: error %q, want none", got)
			}
			if m := n.observer.find("n2"); m == nil || m.Raft != "127.0.0.1:1" {
				t.Errorf("member n2 is %+v, want raft address 127.0.0.1:1", m)
			}
		})
	}
}

// TestUnauthenticatedQuestion checks that questions on a connection without authentication are answered.
func TestUnauthenticatedQuestion(t *testing.T) {
	n := startSolo(t, soloConfig("n1"))
	defer closeSolo(t, n)
	near, far := net.Pipe()
	defer func() { _ = near.Close() }()
	done := make(chan error, 1)
	go func() { done <- n.control.serveOne(far) }()
	a, err := askOver(t.Context(), near, Question{About: topicOwnMembership, Node: &Announcement{ID: "n9"}})
	if err != nil || a.Error != "" || !a.NotMember {
		t.Errorf("n9 asks whether it is a member: answer %+v, error %v; want NotMember", a, err)
	}
	if err := <-done; err != nil && err != io.ErrClosedPipe {
		t.Error(err)
	}
}

// TestRejectedAsStale checks that a node exits if an answer about topicReturn, topicAnnounce or topicJoin reports
// that its data is out of date. The data directory must be marked as outdated only if the answer is from a voter, or
// is about topicJoin.
func TestRejectedAsStale(t *testing.T) {
	voter, learner := topology.Member{ID: "n2", Raft: "n2", Voter: true}, topology.Member{ID: "n3", Raft: "n3"}
	other, nameless := topology.Member{ID: "n4", Raft: "n4"}, topology.Member{Raft: "n5"}
	asks := map[topic]bool{topicReturn: true, topicAnnounce: true, topicJoin: true}
	stale := Answer{Error: ErrStale.Error(), Stale: "forged"}
	var ends []error
	n := nodeWithMembers(fixedAnswers{"n2": stale, "n3": stale, "n4": stale, "n5": stale}, func(err error) { ends = append(ends, err) }, voter, learner)
	for about := range topics {
		for _, m := range []topology.Member{voter, learner, other, nameless} {
			ends, n.fsm.failure.occurred = nil, false
			if _, err := n.peers.ask(t.Context(), m, Question{About: about}); err == nil {
				t.Errorf("ask returned no error, although the answer from %s about %s contains an error", m.Raft, about)
			}
			if (len(ends) == 1) != asks[about] {
				t.Errorf("answer from %s about %s: exit errors %v; want one error for topicReturn, topicAnnounce and topicJoin, and none otherwise", m.Raft, about, ends)
			}
			if given := len(ends) == 1 && errors.Is(ends[0], ErrStale); given != (asks[about] && (m.Voter || about == topicJoin)) {
				t.Errorf("answer from %s about %s: data directory marked as outdated: %v, exit errors %v; want a mark only if the answer is from a voter or about topicJoin", m.Raft, about, given, ends)
			}
		}
	}
}

// TestAskOver_Refused checks that the answer of a node that refuses a question is returned, although the node closes the
// stream without reading the body.
func TestAskOver_Refused(t *testing.T) {
	conn := &closedByPeer{answer: strings.NewReader(`{"error": "refused"}`)}
	a, err := askOver(t.Context(), conn, Question{About: topicPropose, body: []byte("body")})
	if err != nil || a.Error != "refused" {
		t.Errorf("the answer is %+v and the error %v, want the error of the node", a, err)
	}
	conn = &closedByPeer{answer: strings.NewReader("")}
	if _, err = askOver(t.Context(), conn, Question{About: topicPropose, body: []byte("body")}); !errors.Is(err, net.ErrClosed) || !errors.Is(err, io.EOF) {
		t.Errorf("without an answer, the error is %v, want that of the write and that of the read", err)
	}
}

// closedByPeer is a connection that the peer has closed after the first write.
type closedByPeer struct {
	net.Conn
	answer io.Reader
	writes int
}

func (c *closedByPeer) Read(b []byte) (int, error) { return c.answer.Read(b) }

func (c *closedByPeer) Write(b []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		return 0, net.ErrClosed
	}
	return len(b), nil
}
