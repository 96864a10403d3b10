package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/topology"
)

// proposeWithin is the timeout of a proposal that a follower sends to the leader, which compiles the set and appends up
// to 65 entries.
const proposeWithin = 30 * time.Second

var (
	// errRulesUnknown is returned if the entry that activates a version may or may not be committed later.
	errRulesUnknown = errors.New("the outcome is unknown; run CL.RULES HISTORY")
	// errRulesUnchanged is returned if that entry was not appended to the log.
	errRulesUnchanged = errors.New("nothing was changed; repeat the change")
)

// rulesProposals proposes rule sets. On the leader it appends them to the log. On a follower it sends them to the leader.
type rulesProposals struct {
	store       *ruleset.Store
	raft        *raftHandle
	leaderships *leaderships
	view        *observer
	peers       *peerClient
	wall        func() time.Time
	life        *lifetime

	proposing mutex // held during a proposal
}

// Propose validates a proposal and makes it the next version of the rules, see Node.Propose.
func (p *rulesProposals) Propose(ctx context.Context, proposal ruleset.Proposal) (ruleset.Result, error) {
	if p.leaderships.leads() {
		return p.answer(ctx, proposal)
	}
	q := Question{About: topicPropose, Proposal: &proposal, body: []byte(proposal.Text), Size: len(proposal.Text)}
	a, err := p.peers.answerOfLeader(ctx, q)
	var answered answerError
	switch {
	case errors.Is(err, topology.ErrNoLeader), errors.As(err, &answered):
		return ruleset.Result{}, err
	case err != nil:
		return ruleset.Result{}, fmt.Errorf("ask the leader to change the rules: %w: %w", errRulesUnknown, err)
	case a.Rules == nil:
		return ruleset.Result{}, errQuestion
	}
	return *a.Rules, nil
}

// answer validates a proposal and appends it to the log. It returns topology.ErrNoLeader if this node is not the leader.
func (p *rulesProposals) answer(ctx context.Context, proposal ruleset.Proposal) (ruleset.Result, error) {
	if err := p.proposing.LockContext(ctx); err != nil {
		return ruleset.Result{}, fmt.Errorf("wait for another change of the rules: %w: %w", errRulesUnchanged, err)
	}
	defer p.proposing.Unlock()
	l := p.leaderships.current() // read before the store: when a leadership begins, all earlier versions are applied
	if l == nil {
		return ruleset.Result{}, topology.ErrNoLeader
	}
	n, err := p.store.Prepare(ctx, proposal, p.wall())
	if err != nil {
		return ruleset.Result{}, err
	}
	if !n.Changed {
		return n.Result, nil
	}
	if n.Version.Number == 1 {
		if err := p.askMembers(ctx); err != nil {
			return ruleset.Result{}, fmt.Errorf("set the first rules: %w: %w", topology.ErrNoRules, err)
		}
	}
	if err := p.append(ctx, l, n); err != nil {
		return ruleset.Result{}, err
	}
	return n.Result, nil
}

// askMembers asks all other members about rules. A member whose program cannot read the entries of rules cannot answer,
// or answers with an error. Its process would exit when it applied the first of these entries.
func (p *rulesProposals) askMembers(ctx context.Context) error {
	v := p.view.View()
	for _, m := range v.Members {
		if m.ID == v.Self {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, answerWithin)
		_, err := p.peers.ask(ctx, m, Question{About: topicRules})
		cancel()
		if err != nil {
			return fmt.Errorf("ask %s: %w", m.ID, err)
		}
	}
	return nil
}

// append appends a version to the log, in the term of a leadership, and blocks until this node has applied it. The chunks
// change nothing without the entry that follows them, so the outcome is unknown only if this entry was appended.
func (p *rulesProposals) append(ctx context.Context, l *leadership, n *ruleset.Prepared) error {
	id := rand.Uint64() | 1 // not 0
	for offset := 0; offset < len(n.Packed); offset += chunkSize {
		data := n.Packed[offset:min(offset+chunkSize, len(n.Packed))]
		c := rulesChunk{term: l.term, id: id, offset: uint64(offset), data: data}
		if _, err := p.submit(ctx, l, c.entry()); err != nil {
			return appendError(err, errRulesUnchanged)
		}
	}
	entry, err := (&rulesVersion{Term: l.term, ID: id, Size: len(n.Packed), Version: n.Version}).entry()
	if err != nil {
		return err
	}
	switch appended, err := p.submit(ctx, l, entry); {
	case err != nil && appended:
		return appendError(err, errRulesUnknown)
	case err != nil:
		return appendError(err, errRulesUnchanged)
	}
	if !p.store.Has(n.Version) { // the entry was void
		return fmt.Errorf("change the rules: %w", topology.ErrChanging)
	}
	return nil
}

// appendError returns the error of an entry that was not appended, or may not have been, with the consequence.
func appendError(err, consequence error) error {
	if errors.Is(err, topology.ErrNoLeader) {
		return err // the proposal can be sent to another leader
	}
	return fmt.Errorf("write the rules to the log: %w: %w", consequence, err)
}

// submit appends an entry, unless the leadership has ended, and blocks until the entry is applied. After an error,
// appended reports whether the entry may have been appended.
func (p *rulesProposals) submit(ctx context.Context, l *leadership, entry []byte) (appended bool, err error) {
	if p.leaderships.current() != l {
		return false, topology.ErrNoLeader
	}
	err = p.life.submit(ctx, func(within time.Duration) raft.Future {
		appended = true
		return p.raft.Apply(entry, within)
	})
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return false, topology.ErrNoLeader
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return false, err
	}
	return appended, err
}

// run compiles the newest version of the rules each time that it has changed, until the node is closed. On the leader, a
// version is compiled before it is proposed, and leader.begin compiles the newest version of earlier leaders. Here the
// other nodes compile the versions, so that they can become the leader without delay.
func (p *rulesProposals) run() {
	for {
		select {
		case <-p.life.ended():
			return
		case <-p.store.Changed():
			p.store.CompileNewest()
		}
	}
}
