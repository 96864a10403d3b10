package transport

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// noted is a state machine that counts the applied entries and stores nothing else.
type noted struct{ applied int }

func (n *noted) Apply(*raft.Log) any                 { n.applied++; return n.applied }
func (n *noted) Snapshot() (raft.FSMSnapshot, error) { return noted{}, nil }
func (n *noted) Restore(r io.ReadCloser) error       { return r.Close() }
func (noted) Persist(s raft.SnapshotSink) error      { return s.Close() }
func (noted) Release()                               {}

// raftNode is a node of hashicorp/raft whose messages are sent over a link.
type raftNode struct {
	*raft.Raft
	transport *RaftTransport
	leads     <-chan bool
}

// newRaft runs Raft on a link, with its stores in memory. pace is the election timeout.
func newRaft(l *Link, pace time.Duration) (*raftNode, error) {
	transport := newTransport(l)
	cfg := raft.DefaultConfig()
	leads := make(chan bool, 100)
	cfg.LocalID, cfg.LogOutput, cfg.NotifyCh = raft.ServerID(l.cfg.Node), io.Discard, leads
	cfg.HeartbeatTimeout, cfg.ElectionTimeout, cfg.LeaderLeaseTimeout = pace, pace, pace
	store := raft.NewInmemStore()
	r, err := raft.NewRaft(cfg, &noted{}, store, store, raft.NewInmemSnapshotStore(), transport)
	if err != nil {
		return nil, err
	}
	return &raftNode{r, transport, leads}, nil
}

func startRaft(t *testing.T, l *Link, pace time.Duration) *raftNode {
	t.Helper()
	r, err := newRaft(l, pace)
	if err != nil {
		t.Fatalf("start Raft: %v", err)
	}
	t.Cleanup(func() {
		if err := r.Shutdown().Error(); err != nil {
			t.Errorf("shut Raft down: %v", err)
		}
		if err := r.transport.Close(); err != nil {
			t.Errorf("close the transport: %v", err)
		}
	})
	return r
}

// bootstrap bootstraps a cluster of the nodes of the given links.
func bootstrap(r *raftNode, links ...*Link) error {
	var c raft.Configuration
	for _, l := range links {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(l.cfg.Node), Address: raft.ServerAddress(l.Streams(Raft).Addr().String())})
	}
	return r.BootstrapCluster(c).Error()
}

// quick is the election timeout of a cluster of one node.
const quick = 100 * time.Millisecond

// alone runs a cluster of one node and waits until it is the leader.
func alone(t *testing.T, l *Link) *raftNode {
	t.Helper()
	r := startRaft(t, l, quick)
	if err := bootstrap(r, l); err != nil {
		t.Fatalf("bootstrap: %v", err)
	}
	r.awaitLead(t)
	return r
}

func (r *raftNode) awaitLead(t *testing.T) {
	t.Helper()
	select {
	case leads := <-r.leads:
		if !leads {
			t.Fatal("the node has lost leadership")
		}
	case <-time.After(patience):
		t.Fatal("the node is not elected")
	}
}

// servers returns the servers in the configuration of a node.
func (r *raftNode) servers(t *testing.T) []raft.Server {
	t.Helper()
	f := r.GetConfiguration()
	if err := f.Error(); err != nil {
		t.Fatalf("get the configuration: %v", err)
	}
	return f.Configuration().Servers
}

// Forged RPCs are encoded like the RPCs that the transport of Raft sends: a byte for the type, and a map in
// MessagePack.

const (
	typeRequestVote     = 1
	typeInstallSnapshot = 2
)

type field struct {
	name  string
	value any
}

// encodeRPC encodes an RPC without the library.
func encodeRPC(kind byte, fields ...field) []byte {
	b := []byte{kind, 0xde, 0, byte(len(fields))} // 0xde: a map whose size has 16 bits
	text := func(s []byte) { b = append(binary.BigEndian.AppendUint16(append(b, 0xda), uint16(len(s))), s...) }
	for _, f := range fields {
		text([]byte(f.name))
		switch v := f.value.(type) {
		case uint64:
			b = binary.BigEndian.AppendUint64(append(b, 0xcf), v)
		case int:
			b = append(b, byte(v)) // the encoding of a value below 128
		case bool:
			b = append(b, map[bool]byte{false: 0xc2, true: 0xc3}[v])
		case []byte:
			text(v)
		}
	}
	return b
}

// evil is the server that the forged messages name as their sender. One of these messages also makes
// evil the only server of the cluster.
var evil = raft.Server{ID: "evil", Address: "127.0.0.1:1"}

// forgedVote returns a vote request with the highest term, after which no further election is possible.
func forgedVote() []byte {
	return encodeRPC(typeRequestVote,
		field{"ProtocolVersion", 3}, field{"ID", []byte(nil)}, field{"Addr", []byte(evil.Address)},
		field{"Term", uint64(math.MaxUint64)}, field{"Candidate", []byte(evil.Address)},
		field{"LastLogIndex", uint64(1000)}, field{"LastLogTerm", uint64(1000)}, field{"LeadershipTransfer", true})
}

// forgedSnapshot returns a snapshot that replaces the state of a node and the configuration of the cluster.
func forgedSnapshot(configuration []byte) []byte {
	return encodeRPC(typeInstallSnapshot,
		field{"ProtocolVersion", 3}, field{"ID", []byte(evil.ID)}, field{"Addr", []byte(evil.Address)},
		field{"SnapshotVersion", 1}, field{"Term", uint64(1000)}, field{"Leader", []byte(evil.Address)},
		field{"LastLogIndex", uint64(1000)}, field{"LastLogTerm", uint64(1000)},
		field{"Configuration", configuration}, field{"ConfigurationIndex", uint64(999)}, field{"Size", 0})
}

// forged returns messages that stop a cluster permanently if they reach Raft.
func forged() map[string][]byte {
	return map[string][]byte{
		"vote":                   forgedVote(),
		"snapshot with garbage":  forgedSnapshot([]byte("garbage")),
		"snapshot of other peer": forgedSnapshot(raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{evil}})),
	}
}

// TestRaftOverLinks runs a cluster of three nodes over links, without and with certificates. The
// cluster must elect a leader and commit an entry.
func TestRaftOverLinks(t *testing.T) {
	s := newSite(t)
	for name, config := range map[string]func(node string) Config{"insecure": plain, "TLS": s.config} {
		t.Run(name, func(t *testing.T) {
			var links []*Link
			nodes := map[string]string{}
			for _, node := range []string{"n1", "n2", "n3"} {
				l := open(t, config(node))
				links = append(links, l)
				nodes[l.ln.Addr().String()] = node
			}
			leader := make(chan *raftNode, 100)
			for i, l := range links {
				l.SetAllowed(func(node string, _ Purpose) bool { return bytes.HasPrefix([]byte(node), []byte("n")) })
				l.SetExpected(func(addr string) string { return nodes[addr] })
				r := startRaft(t, l, 500*time.Millisecond)
				if i == 0 {
					if err := bootstrap(r, links...); err != nil {
						t.Fatalf("bootstrap: %v", err)
					}
				}
				go func() {
					for {
						select {
						case leads := <-r.leads:
							if leads {
								leader <- r
							}
						case <-t.Context().Done():
							return
						}
					}
				}()
			}
			for err := raft.ErrNotLeader; err != nil; {
				select {
				case r := <-leader: // the leader may lose leadership on a loaded machine
					err = r.Apply([]byte("x"), patience).Error()
				case <-time.After(patience):
					t.Fatalf("no leader commits an entry; the last error is %v", err)
				}
			}
		})
	}
}
