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
)

const (
	// maxTermJump is the maximum difference between the term in a message and the term of this node. With four
	// elections per second, a cluster reaches that difference in three days. A node that was disconnected during all of
	// these elections must join again.
	maxTermJump = 1 << 20
	// reportEvery is the minimum time between two log lines with the same reason.
	reportEvery = time.Minute
)

// Reasons for dropping a message.
var (
	errNotStarted = errors.New("raft is not started on this node yet")
	errSender     = errors.New("the message does not name the node of its stream as the sender")
	errNonMember  = errors.New("the sender is not a member of the cluster")
	errNoVoter    = errors.New("the sender has no vote")
	errTermAhead  = errors.New("the term is too far ahead")
	errTermOrder  = errors.New("the message refers to an entry of a later term than the term of the message")
	errOldLeader  = errors.New("a former leader refers to an entry of its successor")
	errKind       = errors.New("unknown kind of message")
)

// remedies contains the text that is logged with each reason. Reasons without a remedy are not logged, because they are normal:
// while hashicorp/raft stops the replication of a leader that lost its leadership, the log of that node can already contain
// entries of the next leader, and the last messages of the former leader can refer to them.
var remedies = map[error]string{
	errSender:    "check node-id and certificate of the node that sent it; if its key may be compromised, revoke the certificate",
	errNonMember: "stop that node if it was removed; if it is a member, start this node with --join and the address of a present member",
	errNoVoter:   "wait until this node has caught up; if it has, revoke the certificate of that node",
	errTermAhead: "remove the node with that term and add it under another id; if a majority of the nodes has such terms, run throttled recover --reset-term on each",
	errTermOrder: "remove the node that sent it and add it under another id; if its key may be compromised, revoke the certificate",
	errKind:      "run the same version on all nodes",
}

// guard checks messages from other nodes before Raft receives them. It implements transport.Guard.
type guard struct {
	members       members
	confirmations *confirmations
	raft          *raftHandle
	log           *slog.Logger
	joined        atomic.Uint64 // term of the cluster when this process joined it; 0 if it did not join

	mu       sync.Mutex
	reported map[error]time.Time // time of the last log line, by reason
}

// Request returns an error if a message from a peer must not be passed to Raft, which does not verify the contents of messages.
func (g *guard) Request(peer string, message raft.WithRPCHeader) error {
	err := g.check(peer, message)
	if err != nil {
		g.report(err, "message", fmt.Sprintf("%T", message), "from", peer)
		err = fmt.Errorf("message of node %s: %w", peer, err)
	}
	return err
}

func (g *guard) check(peer string, message raft.WithRPCHeader) error {
	if !g.raft.started() {
		return errNotStarted
	}
	t, err := termsOf(message)
	if err != nil {
		return err
	}
	if err := g.checkSender(peer, message.GetRPCHeader(), t.elects); err != nil {
		return err
	}
	switch {
	case t.term > g.maxTerm():
		return errTermAhead
	case t.held > t.term && t.appends && t.held <= g.maxTerm():
		return errOldLeader
	case t.held > t.term && !t.none:
		return errTermOrder
	}
	return nil
}

// checkSender returns an error if the sender named in a message is not the peer, or if the peer may not send the
// message. elects is true for the messages of elections, which only voters may send.
func (g *guard) checkSender(peer string, h raft.RPCHeader, elects bool) error {
	m := g.members.member(peer)
	addr := ""
	switch {
	case m != nil && elects && !m.Voter:
		return errNoVoter
	case m != nil:
		addr = m.Raft
	case !elects:
		addr = g.confirmations.confirmed(peer)
	}
	switch {
	case addr == "":
		return errNonMember
	case peer == "" || string(h.ID) != peer || string(h.Addr) != addr && !strings.EqualFold(string(h.Addr), addr):
		return errSender
	}
	return nil
}

// Term returns an error if an answer with the given term must not be passed to Raft.
func (g *guard) Term(term uint64) error {
	if !g.raft.started() {
		return errNotStarted
	}
	if term <= g.maxTerm() {
		return nil
	}
	g.report(errTermAhead, "term", term, "of", "an answer")
	return fmt.Errorf("answer of term %d: %w", term, errTermAhead)
}

// maxTerm returns the highest term that this node accepts.
func (g *guard) maxTerm() uint64 {
	own := g.raft.CurrentTerm()
	if own == 0 {
		own = g.joined.Load()
	}
	return maxTermAfter(own)
}

// maxTermAfter returns the highest term that a node accepts from other nodes. The argument own is the term of the node.
func maxTermAfter(own uint64) uint64 { return own + min(maxTermJump, math.MaxUint64-own) }

// report logs that a message was dropped, at most once per reportEvery for each reason that has a remedy.
func (g *guard) report(why error, args ...any) {
	remedy, ok := remedies[why]
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); now.Sub(g.reported[why]) >= reportEvery {
		g.reported[why] = now
		g.log.Warn("dropped a message of another node", append(args, "reason", why, "remedy", remedy)...)
	}
}

// terms describes a message for the checks of guard.
type terms struct {
	term    uint64
	held    uint64 // highest term of the entries that the message contains or refers to
	none    bool   // the message has no term
	appends bool   // the message is a heartbeat or appends entries
	elects  bool   // the message starts an election or is part of one
}

// termsOf returns the terms in a message. The error is errKind if the kind of the message is unknown.
func termsOf(message raft.WithRPCHeader) (terms, error) {
	switch m := message.(type) {
	case *raft.AppendEntriesRequest:
		held := m.PrevLogTerm
		for _, e := range m.Entries {
			held = max(held, e.Term)
		}
		return terms{term: m.Term, held: held, appends: true}, nil
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
