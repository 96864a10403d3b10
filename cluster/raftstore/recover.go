package raftstore

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

var errNothing = errors.New("the log is empty: there is nothing to recover")

// maxTermAhead is the maximum plausible difference between the term of a node and the term of the
// newest entry in its log. Elections do not cause a larger difference, but a forged or corrupt
// message can cause one.
const maxTermAhead = 1 << 20

// ErrTerm is wrapped by Recover when the term of the node is implausible.
var ErrTerm = errors.New("the term is implausibly far ahead of the log: run throttled recover with --reset-term on every remaining node")

// RememberedKey is the key in the stable store under which a node stores its data about
// other nodes. A recovery removes the value, since the entries that the value refers to
// may be lost.
const RememberedKey = "RememberedNodes"

// Recovery configures the recovery of a cluster.
type Recovery struct {
	Servers []raft.Server // the nodes of the new cluster
	// ResetTerm makes Recover discard the term of the node if this term is higher than necessary. ResetTerm
	// must be set if the term is implausible (see maxTermAhead). Recover also discards the vote that the node
	// cast in that term. This is safe: only nodes of the former cluster can have received the vote or a
	// message of that term, and these nodes are fenced off. They get no connection to a node of the new
	// cluster.
	ResetTerm bool
}

// Recover makes r.Servers the configuration of a cluster that has permanently lost its
// majority. No node of the cluster may be running. Run Recover on one remaining node, or on
// every remaining node with the same servers. Recover commits all entries that the node has,
// including those that were never replicated to a majority. Entries that only the lost
// nodes had are lost.
//
// The node gets a new [topology.Recovery]. Nodes with different recoveries refuse each other's
// connections, so all nodes that were not recovered with the same servers are fenced off. Recover may be
// repeated until the next start of the node, with the same or different servers. The term
// increases, so that no entry of the new cluster is mistaken for an entry of the old cluster.
//
// fsm is used to replay the log and must be discarded afterwards. The directory must have been
// claimed. The log is replaced by a snapshot. The error wraps [ErrTerm], or an error of Open or
// Check. The returned Summary describes the new content of the directory.
func Recover(dir string, r Recovery, fsm raft.FSM, log *slog.Logger) (Summary, error) {
	before, err := Inspect(dir)
	if err != nil {
		return before, fmt.Errorf("recover: %w", err)
	}
	term, err := r.term(&before)
	if err != nil {
		return before, fmt.Errorf("recover %s: %w", dir, err)
	}
	// All errors are also returned, so Fatal can ignore them.
	s, err := Open(Config{Dir: dir, Sync: true, Fatal: func(error) {}, Log: log})
	if err != nil {
		return Summary{}, fmt.Errorf("recover: %w", err)
	}
	if err := errors.Join(s.recover(r.Servers, term, fsm), s.Close()); err != nil {
		return Summary{}, fmt.Errorf("recover %s: %w", dir, err)
	}
	return Inspect(dir)
}

// termStep is the minimum by which Recover raises the term of a node above the term of its newest
// entry. If the terms of the newest entries of all recovered nodes differ by at most termStep, the new term
// is therefore higher than all terms in the logs of these nodes.
const termStep = 1 << 16

// term returns the term of a node after a recovery.
func (r *Recovery) term(s *Summary) (uint64, error) {
	next := (s.LastTerm/termStep + 2) * termStep
	switch {
	case next < s.LastTerm: // overflow
		return 0, fmt.Errorf("the newest entry has term %d: the log is unusable: add new nodes with empty data directories", s.LastTerm)
	case r.ResetTerm || s.CurrentTerm <= next:
		return next, nil
	case s.CurrentTerm-s.LastTerm > maxTermAhead:
		return 0, fmt.Errorf("the node has term %d, and its newest entry has term %d: %w", s.CurrentTerm, s.LastTerm, ErrTerm)
	}
	return s.CurrentTerm, nil
}

func (s *Store) recover(servers []raft.Server, term uint64, fsm raft.FSM) error {
	if err := s.canRecover(); err != nil {
		return err
	}
	conf := raft.DefaultConfig()
	conf.LocalID = "recover" // raft requires an ID, but does not use it
	conf.Logger = Logger(s.log)
	configuration := raft.Configuration{Servers: servers}
	if err := checkServers(configuration); err != nil {
		return err
	}
	if err := s.fence(servers); err != nil { // first, so that a crash never leaves the new configuration unfenced
		return err
	}
	_, transport := raft.NewInmemTransport("") // this transport does not change addresses when it encodes them
	if err := raft.RecoverCluster(conf, fsm, s.Logs(), s.Stable(), s.Snapshots(), transport, configuration); err != nil {
		return err
	}
	return s.resetVote(term)
}

// canRecover checks that there is a valid log or snapshot to recover from.
func (s *Store) canRecover() error {
	if err := s.Check(); err != nil {
		return err
	}
	last, err := s.Logs().LastIndex()
	if err != nil {
		return err
	}
	snapshots, err := s.Snapshots().List()
	if err != nil {
		return err
	}
	if last == 0 && len(snapshots) == 0 {
		return errNothing
	}
	return nil
}

// checkServers rejects configurations that raft would reject only after the node was fenced.
func checkServers(c raft.Configuration) error {
	seen := map[raft.ServerID]bool{}
	voters := 0
	for _, s := range c.Servers {
		if seen[s.ID] {
			return fmt.Errorf("node %s is listed twice", s.ID)
		}
		seen[s.ID] = true
		if s.Suffrage == raft.Voter {
			voters++
		}
	}
	if voters == 0 {
		return errors.New("the list of nodes has no voter")
	}
	return nil
}

// fence assigns a new recovery to the node, so that nodes without this recovery refuse its streams.
func (s *Store) fence(servers []raft.Server) error {
	members := make([]topology.Member, len(servers))
	for i, server := range servers {
		members[i] = topology.Member{ID: string(server.ID), Raft: string(server.Address)}
	}
	_, err := s.change("fence off the lost nodes", func(i *Identity) {
		i.Recovered = recovered{From: i.recoversFrom(), Boot: i.Boot}
		i.Recovery = i.Recovered.From.Next(i.Cluster, members)
		i.Stale, i.Lineage = "", Lineage{} // both refer to records on other nodes, and a recovery discards these records
	})
	return err
}

// recoversFrom returns the recovery from which the next one is derived. This is usually the last
// recovery of the node. If the node has not been started since the last recovery, the next recovery replaces
// the last one: it is derived from the same previous recovery.
func (i *Identity) recoversFrom() topology.Recovery {
	if i.Recovery != "" && i.Recovered.Boot == i.Boot {
		return i.Recovered.From
	}
	return i.Recovery
}

// NextRecovery returns the recovery that Recover would assign to the node if it were called with these
// members.
func (i *Identity) NextRecovery(members []topology.Member) topology.Recovery {
	return i.recoversFrom().Next(i.Cluster, members)
}

// resetVote sets the term, and removes the vote and the data about other nodes. Removing the
// vote is safe because the nodes that might have seen it are fenced off.
func (s *Store) resetVote(term uint64) error {
	for _, step := range []func() error{
		func() error { return s.Stable().SetUint64([]byte("LastVoteTerm"), 0) },
		func() error { return s.Stable().Set([]byte("LastVoteCand"), nil) },
		func() error { return s.Stable().Set([]byte(RememberedKey), nil) },
		func() error { return s.Stable().SetUint64([]byte("CurrentTerm"), term) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
