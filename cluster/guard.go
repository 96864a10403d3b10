package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/topology"
)

const (
	// maxTermJump is how far a term may be ahead of the node's own. A cluster that elects a leader four
	// times a second takes three days to get there; a node that was away for longer than that joins anew.
	maxTermJump = 1 << 20
	// reportEvery is the shortest time between two log lines about refused messages for one reason.
	reportEvery = time.Minute
)

// The reasons for which a message does not reach Raft.
var (
	errNotStarted = errors.New("this node does not take part yet")
	errSender     = errors.New("the message names another sender than its stream")
	errStranger   = errors.New("the sender is not a member of the cluster")
	errNoVoter    = errors.New("the sender has no vote")
	errTermAhead  = errors.New("the term is too far ahead")
	errTermOrder  = errors.New("the message holds a later term than its own")
	errKind       = errors.New("unknown kind of message")
)

// remedies are for the log.
var remedies = map[error]string{
	errSender:    "check node-id and certificate of the node that sent it; if its key may be in other hands, revoke the certificate",
	errStranger:  "stop that node if it was removed; if it is a member, start this node with --join and the address of a present member",
	errNoVoter:   "wait until this node has caught up; if it has, revoke the certificate of that node",
	errTermAhead: "remove the node with that term and add it under another id; if most nodes have such terms, run throttled recover --reset-term on each",
	errTermOrder: "remove the node that sent it and add it under another id; if its key may be in other hands, revoke the certificate",
	errKind:      "run the same version on all nodes",
}

// guard judges the messages that other nodes send to Raft. It implements transport.Guard.
type guard struct {
	view      func() *topology.View
	strangers *strangers
	log       *slog.Logger
	raft      atomic.Pointer[raft.Raft] // nil until it is started
	joined    atomic.Uint64             // term of the cluster when this node joined it; 0 if it has not

	mu       sync.Mutex
	reported map[error]time.Time // by the errors above
}

// Guard returns what judges the messages that reach this node's Raft, for transport.RaftTransport.
func (n *Node) Guard() transport.Guard { return n.guard }

// Request returns why a message of a peer must not reach Raft, or nil. Raft itself believes whatever
// a message holds.
func (g *guard) Request(peer string, message raft.WithRPCHeader) error {
	err := g.judge(peer, message)
	if err != nil {
		g.report(err, "message", fmt.Sprintf("%T", message), "from", peer)
		err = fmt.Errorf("message of node %s: %w", peer, err)
	}
	return err
}

func (g *guard) judge(peer string, message raft.WithRPCHeader) error {
	if g.raft.Load() == nil {
		return errNotStarted
	}
	t, err := termsOf(message)
	if err != nil {
		return err
	}
	if err := g.judgeSender(peer, message.GetRPCHeader(), t.elects); err != nil {
		return err
	}
	switch {
	case t.term > g.newestTerm():
		return errTermAhead
	case t.held > t.term && !t.none:
		return errTermOrder
	}
	return nil
}

// judgeSender returns why a message is not from the node that it names, or why that may not send it.
func (g *guard) judgeSender(peer string, h raft.RPCHeader, elects bool) error {
	m := g.member(peer)
	addr := ""
	switch {
	case m != nil && elects && !m.Voter:
		return errNoVoter
	case m != nil:
		addr = m.Raft
	case !elects:
		addr = g.strangers.confirmed(peer)
	}
	switch {
	case addr == "":
		return errStranger
	case peer == "" || string(h.ID) != peer || string(h.Addr) != addr && !strings.EqualFold(string(h.Addr), addr):
		return errSender
	}
	return nil
}

// member returns a member by the newest configuration that this node has, or nil. The view is behind
// that for a moment at times.
func (g *guard) member(id string) *topology.Member {
	m := g.view().Find(id)
	r := g.raft.Load()
	if m != nil && m.Voter || r == nil {
		return m
	}
	for _, s := range r.GetConfiguration().Configuration().Servers {
		if string(s.ID) == id {
			return &topology.Member{ID: id, Raft: string(s.Address), Voter: s.Suffrage == raft.Voter}
		}
	}
	return nil
}

// Term returns why the term in an answer must not reach Raft, or nil.
func (g *guard) Term(term uint64) error {
	if g.raft.Load() == nil {
		return errNotStarted
	}
	if term <= g.newestTerm() {
		return nil
	}
	g.report(errTermAhead, "term", term, "of", "an answer")
	return fmt.Errorf("answer of term %d: %w", term, errTermAhead)
}

// newestTerm is the newest term that is believed.
func (g *guard) newestTerm() uint64 {
	own := g.raft.Load().CurrentTerm()
	if own == 0 {
		own = g.joined.Load()
	}
	return furthest(own)
}

// furthest returns the newest term that a node believes that is in another.
func furthest(own uint64) uint64 { return own + min(maxTermJump, math.MaxUint64-own) }

// report logs that a message was dropped.
func (g *guard) report(why error, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); why != errNotStarted && now.Sub(g.reported[why]) >= reportEvery {
		g.reported[why] = now
		g.log.Warn("dropped a message of another node", append(args, "reason", why, "remedy", remedies[why])...)
	}
}

// terms are those in a message.
type terms struct {
	term   uint64
	held   uint64 // the newest of its entries, or of those that it names
	none   bool   // it has no term
	elects bool   // it can start an election or take part in one
}

// termsOf returns the terms in a message. The error is errKind if that is not known.
func termsOf(message raft.WithRPCHeader) (terms, error) {
	switch m := message.(type) {
	case *raft.AppendEntriesRequest:
		held := m.PrevLogTerm
		for _, e := range m.Entries {
			held = max(held, e.Term)
		}
		return terms{term: m.Term, held: held}, nil
	case *raft.InstallSnapshotRequest:
		return terms{term: m.Term, held: m.LastLogTerm}, nil
	case *raft.RequestVoteRequest:
		return terms{term: m.Term, held: m.LastLogTerm, elects: true}, nil
	case *raft.RequestPreVoteRequest:
		return terms{term: m.Term, held: m.LastLogTerm, elects: true}, nil
	case *raft.TimeoutNowRequest:
		return terms{none: true, elects: true}, nil
	}
	return terms{}, errKind
}
