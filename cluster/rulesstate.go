package cluster

import (
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/ruleset"
)

// rulesState is the part of the applied state that belongs to the rules. fsm.state guards it.
type rulesState struct {
	store *ruleset.Store
	part  rulesPart
}

// rulesPart is the chunks of a proposal whose version is not applied yet. It is part of snapshots, because a snapshot
// may be taken between the chunks and the version.
type rulesPart struct {
	Term uint64 `json:"term"`
	ID   uint64 `json:"id"`
	Size int    `json:"size"` // of data, in bytes
	data []byte
}

// applyChunk adds a chunk to the part. A chunk with offset 0 begins another proposal. A chunk that does not continue the
// part is void: its proposal has failed on all nodes.
func (s *rulesState) applyChunk(log *raft.Log, c *rulesChunk) {
	if log.Term != c.term && !failpoint.Is(failpoint.AnyTerm) {
		return
	}
	if c.offset == 0 {
		s.part = rulesPart{Term: c.term, ID: c.id}
	}
	p := &s.part
	if p.Term != c.term || p.ID != c.id || uint64(p.Size) != c.offset || p.Size+len(c.data) > maxRulesData {
		return
	}
	p.data = append(p.data, c.data...) // a copy in a snapshot is not changed: it ends before the new bytes
	p.Size = len(p.data)
}

// applyVersion makes the part the next version of the rules, unless the entry is void. It does not compile the set.
func (s *rulesState) applyVersion(log *raft.Log, v *rulesVersion) {
	if log.Term != v.Term && !failpoint.Is(failpoint.AnyTerm) {
		return
	}
	p := s.part
	if p.Term != v.Term || p.ID != v.ID || p.Size != v.Size {
		return
	}
	s.part = rulesPart{}
	s.store.Activate(v.Version, p.data) // has no effect if the version is not the next one
}

// sum returns a checksum of the newest version, or 0 if there are no rules.
func (s *rulesState) sum() uint64 {
	v := s.store.Newest()
	if v.Number == 0 {
		return 0
	}
	return xxhash.Sum64String(fmt.Sprintf("%d %s", v.Number, v.Hash))
}

// copied returns a copy of the state for a snapshot.
func (s *rulesState) copied() rulesCopy { return rulesCopy{s.store.State(), s.part} }

// rulesCopy is the rules in a snapshot.
type rulesCopy struct {
	state ruleset.State
	part  rulesPart
}

// isEmpty reports whether no rules were ever proposed. The snapshot is then readable by older versions of the program.
func (c *rulesCopy) isEmpty() bool { return c.state.IsEmpty() && c.part.ID == 0 }

func (c *rulesCopy) write(w io.Writer) error {
	if err := c.state.Write(w); err != nil {
		return err
	}
	_, err := w.Write(c.part.data)
	return err
}

// readRules reads the rules that follow the head of a snapshot.
func readRules(r io.Reader, h *head) (c rulesCopy, err error) {
	if h.Version < rulesSnapshotVersion {
		return c, nil
	}
	if c.state, err = ruleset.ReadState(r); err != nil {
		return c, err
	}
	c.part = h.RulesPart
	if c.part.Size < 0 || c.part.Size > maxRulesData {
		return c, fmt.Errorf("part of %d bytes: %w", c.part.Size, errHead)
	}
	if c.part.data, err = io.ReadAll(io.LimitReader(r, int64(c.part.Size))); err == nil && len(c.part.data) < c.part.Size {
		err = io.ErrUnexpectedEOF
	}
	return c, err
}

func (s *rulesState) restore(c rulesCopy) {
	s.part = c.part
	s.store.Restore(c.state)
}
