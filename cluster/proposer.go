package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// proposer is the common part of rulesProposals and usersProposals, which propose versions of a document: the rules or
// the users. On the leader it appends entries to the log. On a follower it sends proposals to the leader.
type proposer struct {
	document    string // "rules" or "users", for errors
	unknown     error  // states how to find out whether a version was committed
	raft        *raftHandle
	leaderships *leaderships
	view        *observer
	peers       *peerClient
	life        *lifetime

	proposing mutex // held during a proposal
}

// lock waits until no other proposal is in progress on this node. The caller must unlock p.proposing.
func (p *proposer) lock(ctx context.Context) error {
	if err := p.proposing.lockContext(ctx); err != nil {
		return fmt.Errorf("wait for another change of the %s: %w: %w", p.document, topology.ErrUnchanged, err)
	}
	return nil
}

// askLeader sends a proposal to the leader and returns its answer, also with an error of the leader.
func (p *proposer) askLeader(ctx context.Context, q Question) (Answer, error) {
	a, err := p.peers.answerOfLeader(ctx, q)
	var answered answerError
	if err == nil || errors.Is(err, topology.ErrNoLeader) || errors.As(err, &answered) {
		return a, err
	}
	return a, fmt.Errorf("ask the leader to change the %s: %w: %w", p.document, p.unknown, err)
}

// askMembers asks all other members concurrently. It returns an error if one of them does not answer within answerWithin,
// or answers with an error. A member whose program cannot read the entries of a document answers the question about them
// with an error. Its process would exit when it applied the first of these entries.
func (p *proposer) askMembers(ctx context.Context, q Question) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	v := p.view.View()
	errs := make([]error, len(v.Members))
	var asking sync.WaitGroup
	for i, m := range v.Members {
		if m.ID == v.Self {
			continue
		}
		asking.Go(func() {
			if _, err := p.peers.ask(ctx, m, q); err != nil {
				errs[i] = fmt.Errorf("ask %s: %w", m.ID, err)
			}
		})
	}
	asking.Wait()
	return cmp.Or(errs...)
}

// submit appends an entry, unless the leadership has ended, and blocks until the entry is applied. After an error, the
// future is nil if the entry was not appended.
func (p *proposer) submit(ctx context.Context, l *leadership, entry []byte) (future raft.ApplyFuture, err error) {
	if p.leaderships.current() != l {
		return nil, topology.ErrNoLeader
	}
	err = p.life.submit(ctx, func(within time.Duration) raft.Future {
		future = p.raft.Apply(entry, within)
		return future
	})
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return nil, topology.ErrNoLeader
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return nil, err
	}
	return future, err
}

// appendError returns the error of submit with the consequence. effective reports whether the entry may have been
// appended, and would make the proposal effective.
func (p *proposer) appendError(err error, effective bool) error {
	if errors.Is(err, topology.ErrNoLeader) {
		return err // the proposal can be sent to another leader
	}
	consequence := topology.ErrUnchanged
	if effective {
		consequence = p.unknown
	}
	return fmt.Errorf("write the %s to the log: %w: %w", p.document, consequence, err)
}
