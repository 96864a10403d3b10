package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// bootstrapRetry is the pause between two attempts to bootstrap or join a cluster.
const bootstrapRetry = 200 * time.Millisecond

// asking is the part of *peerClient that bootstrap uses, as an interface for tests.
type asking interface {
	ask(ctx context.Context, to topology.Member, q Question) (Answer, error)
	askThrough(ctx context.Context, to topology.Member, q Question) (Answer, error)
}

// bootstrap makes a node without data part of a cluster. Either all nodes of a new cluster exchange their incarnations
// (the bootstrap handshake), or the leader of an existing cluster adds the node. In both cases, this happens before
// Raft on this node receives any message. A node that has lost its data is therefore rejected before it can vote a
// second time in the same term.
type bootstrap struct {
	self           *Announcement
	advertise      string                        // raft address of this node
	initialMembers []topology.Member             // all nodes of a new cluster
	joinAddrs      []string                      // raft addresses of nodes to join through
	storeRecovery  func(topology.Recovery) error // stores the recovery of the cluster; optional
	started        func() bool                   // reports whether Raft is started on this node
	announced      *announcements
	peers          asking
	life           *lifetime
	log            *slog.Logger

	mu           sync.Mutex
	participants map[string]Announcement // nodes that took part in the handshake
	recovery     topology.Recovery       // last recovery of the cluster; "" if it was never recovered
}

// handshake exchanges incarnations with all nodes of a new cluster. Without this exchange, a node that has lost its data
// would be treated as the same node as before, and could vote twice in a term. The error wraps ErrUsed if the id of
// this node was used with a different data directory.
func (b *bootstrap) handshake(ctx context.Context) error {
	for _, m := range b.initialMembers {
		if m.ID == b.self.ID {
			continue
		}
		if err := b.handshakeWith(ctx, m); err != nil {
			return err
		}
	}
	return b.setRecovery("")
}

func (b *bootstrap) handshakeWith(ctx context.Context, m topology.Member) error {
	logged := false
	for {
		a, err := b.peers.ask(ctx, m, Question{About: topicHandshake, Node: b.self})
		switch {
		case err == nil && a.KnownIncarnation != b.self.Incarnation:
			return fmt.Errorf("bootstrap handshake with %s: %w", m.ID, ErrUsed)
		case err == nil:
			b.record(a.Node)
			return nil
		case !logged:
			logged = true
			b.log.Info("waiting for a node to bootstrap the cluster", "node", m.ID, "address", m.Raft, "error", err)
		}
		if err := b.life.sleep(ctx, bootstrapRetry); err != nil {
			return fmt.Errorf("wait for %s: %w", m.ID, err)
		}
	}
}

// answer answers a handshake question from a node without data. If Raft is already started on this node, answer does
// not record new nodes. The answer to an unknown node then contains no incarnation, and handshake on the unknown node
// returns ErrUsed.
func (b *bootstrap) answer(from *Announcement, a *Answer) {
	a.Begun = b.started()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !a.Begun && b.participants[from.ID].Incarnation == "" {
		b.participants[from.ID] = *from
	}
	a.KnownIncarnation = b.announced.of(from.ID).Incarnation
	if a.KnownIncarnation == "" {
		a.KnownIncarnation = b.participants[from.ID].Incarnation
	}
}

// record records a node that took part in the handshake.
func (b *bootstrap) record(from *Announcement) {
	if from == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.participants[from.ID] = *from
}

// unannounced returns the nodes of the handshake that are members in a view and have not been announced.
func (b *bootstrap) unannounced(v *topology.View) (list []Announcement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, a := range b.participants {
		if b.announced.of(id).Incarnation == "" && v.Find(id) != nil {
			list = append(list, a)
		}
	}
	return list
}

// join blocks until the leader has added this node, and returns the term of the cluster. The error wraps ErrUsed if the
// id of this node was used with a different data directory, and ErrRemoved if this node was removed.
func (b *bootstrap) join(ctx context.Context) (term uint64, err error) {
	logged := ""
	for {
		a, err := b.joinOnce(ctx)
		if err == nil {
			return a.Term, b.setRecovery(a.Recovery)
		}
		if errors.Is(err, ErrUsed) || errors.Is(err, ErrRemoved) {
			return 0, err
		}
		if text := err.Error(); text != logged {
			logged = text
			b.log.Warn("cannot join the cluster yet", "error", err)
		}
		if err := b.life.sleep(ctx, bootstrapRetry); err != nil {
			return 0, fmt.Errorf("wait to join the cluster: %w", err)
		}
	}
}

// joinOnce asks the leader to add this node, and returns the leader's answer. It tries to reach the leader through each
// of the nodes in b.joinAddrs, one after another, until the leader has added or rejected this node.
func (b *bootstrap) joinOnce(ctx context.Context) (Answer, error) {
	q := Question{About: topicJoin, Node: b.self, Raft: b.advertise}
	var errs []error
	for _, addr := range b.joinAddrs {
		a, err := b.peers.askThrough(ctx, topology.Member{Raft: addr}, q)
		switch {
		case err == nil:
			return a, nil
		case a.NotMember:
			return a, fmt.Errorf("join through %s as %s: %w", addr, b.self.ID, ErrRemoved)
		case a.KnownIncarnation != "" && a.KnownIncarnation != b.self.Incarnation:
			return a, fmt.Errorf("join through %s as %s: %w", addr, b.self.ID, ErrUsed)
		}
		errs = append(errs, err)
	}
	return Answer{}, errors.Join(errs...)
}

// setRecovery records and stores the recovery of the cluster that this node bootstraps or joins.
func (b *bootstrap) setRecovery(r topology.Recovery) error {
	if !r.Valid() {
		return fmt.Errorf("join the cluster: recovery %q is not valid", r)
	}
	b.mu.Lock()
	b.recovery = r
	b.mu.Unlock()
	if b.storeRecovery == nil {
		return nil
	}
	return b.storeRecovery(r)
}

// recoveryOf returns the recovery of the cluster.
func (b *bootstrap) recoveryOf() topology.Recovery {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.recovery
}
