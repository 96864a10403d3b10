package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/topology"
)

// proposeWithin is the timeout of a proposal that a follower sends to the leader, which compiles the set and appends up
// to 65 entries.
const proposeWithin = 30 * time.Second

// errRulesUnknown is returned if the entry that activates a version may or may not be committed later.
var errRulesUnknown = errors.New("the outcome is unknown; run CL.RULES HISTORY")

// rulesProposals proposes rule sets. On the leader it appends them to the log. On a follower it sends them to the leader.
type rulesProposals struct {
	proposer
	store *ruleset.Store
	wall  func() time.Time
}

// Propose validates a proposal and makes it the next version of the rules, see Node.Propose.
func (p *rulesProposals) Propose(ctx context.Context, proposal ruleset.Proposal) (ruleset.Result, error) {
	if p.leaderships.leads() {
		return p.answer(ctx, proposal)
	}
	a, err := p.askLeader(ctx, Question{About: topicPropose, Proposal: &proposal, body: []byte(proposal.Text), Size: len(proposal.Text)})
	switch {
	case err != nil:
		return ruleset.Result{}, err
	case a.Rules == nil:
		return ruleset.Result{}, errQuestion
	}
	return *a.Rules, nil
}

// answer validates a proposal and appends it to the log. It returns topology.ErrNoLeader if this node is not the leader.
func (p *rulesProposals) answer(ctx context.Context, proposal ruleset.Proposal) (ruleset.Result, error) {
	if err := p.lock(ctx); err != nil {
		return ruleset.Result{}, err
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
		if err := p.askMembers(ctx, Question{About: topicRules}); err != nil {
			return ruleset.Result{}, fmt.Errorf("set the first rules: %w: %w", topology.ErrNoRules, err)
		}
	}
	if err := p.append(ctx, l, n); err != nil {
		return ruleset.Result{}, err
	}
	return n.Result, nil
}

// append appends a version to the log, in the term of a leadership, and blocks until this node has applied it. The chunks
// change nothing without the entry that follows them, so the outcome is unknown only if this entry was appended.
func (p *rulesProposals) append(ctx context.Context, l *leadership, n *ruleset.Prepared) error {
	// #nosec G404 -- not a secret
	id := rand.Uint64() | 1 // not 0
	for offset := 0; offset < len(n.Packed); offset += chunkSize {
		data := n.Packed[offset:min(offset+chunkSize, len(n.Packed))]
		c := rulesChunk{term: l.term, id: id, offset: uint64(offset), data: data}
		if _, err := p.submit(ctx, l, c.entry()); err != nil {
			return p.appendError(err, false)
		}
	}
	entry, err := (&rulesVersion{Term: l.term, ID: id, Size: len(n.Packed), Version: n.Version}).entry()
	if err != nil {
		return err
	}
	if f, err := p.submit(ctx, l, entry); err != nil {
		return p.appendError(err, f != nil)
	}
	if !p.store.Has(n.Version) { // the entry was void
		return fmt.Errorf("change the rules: %w", topology.ErrChanging)
	}
	return nil
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
