package raftlog

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

var errNothing = errors.New("there is nothing in the log")

// MaxTermAhead is how far the term of a node may be ahead of the newest entry in its log. No number of elections brings
// it further; a message that was forged or damaged does.
const MaxTermAhead = 1 << 20

// ErrTerm is wrapped by Recover when the term is absurd.
var ErrTerm = errors.New("the term is too far ahead of the log for any election to have led there: run recover with --reset-term, on every node that is left")

// RememberedKey is the key in the stable store under which a node keeps its memory of other nodes. A recovery drops
// the value: entries that the memory refers to may be lost.
const RememberedKey = "RememberedNodes"

// Recovery says how to recover a cluster.
type Recovery struct {
	Servers []raft.Server // the nodes of the cluster from then on
	// ResetTerm makes the node forget a term that is absurd, and its vote in it. That is safe as nodes of
	// the cluster before, which might know of that term or that vote, are fenced off.
	ResetTerm bool
}

// Recover makes r.Servers the configuration of a cluster that has lost its majority for
// good, while no node of it runs. It is run on one node that is left, or on each of them
// with the same servers. It commits all entries that the node has, also those that no
// majority ever had, and forgets those that only the lost nodes had.
//
// The node gets a new [topology.Recovery], which fences off the nodes that were not recovered with it. Recover
// may be repeated until the next start, with the same or other servers. The term rises, so that no entry of the
// new cluster is taken for one of the old.
//
// fsm replays the log, and is of no use afterwards. The directory must have been claimed.
// The log is replaced by a snapshot. It wraps [ErrTerm], and what Open and Check return, and returns what
// the directory holds then.
func Recover(dir string, r Recovery, fsm raft.FSM, log *slog.Logger) (Summary, error) {
	before, err := Inspect(dir)
	if err != nil {
		return before, fmt.Errorf("recover: %w", err)
	}
	term, err := r.term(&before)
	if err != nil {
		return before, fmt.Errorf("recover %s: %w", dir, err)
	}
	// Every error is returned as well, and there is nobody else to tell.
	s, err := Open(Config{Dir: dir, Sync: true, Fatal: func(error) {}, Log: log})
	if err != nil {
		return Summary{}, fmt.Errorf("recover: %w", err)
	}
	if err := errors.Join(s.recover(r.Servers, term, fsm), s.Close()); err != nil {
		return Summary{}, fmt.Errorf("recover %s: %w", dir, err)
	}
	return Inspect(dir)
}

// termStep is the granularity of terms after a recovery: nodes whose logs end in different terms elect leaders in terms
// that none of their logs has.
const termStep = 1 << 16

// term returns the term of a node after a recovery.
func (r *Recovery) term(s *Summary) (uint64, error) {
	next := (s.LastTerm/termStep + 2) * termStep
	switch {
	case next < s.LastTerm: // beyond what a number holds
		return 0, fmt.Errorf("the newest entry has term %d: the log is of no use; add new nodes with empty data directories", s.LastTerm)
	case r.ResetTerm || s.CurrentTerm <= next:
		return next, nil
	case s.CurrentTerm-s.LastTerm > MaxTermAhead:
		return 0, fmt.Errorf("the term is %d, and that of the newest entry is %d: %w", s.CurrentTerm, s.LastTerm, ErrTerm)
	}
	return s.CurrentTerm, nil
}

func (s *Store) recover(servers []raft.Server, term uint64, fsm raft.FSM) error {
	if err := s.canRecover(); err != nil {
		return err
	}
	conf := raft.DefaultConfig()
	conf.LocalID = "recover" // it has to have one, and is not used
	conf.Logger = Logger(s.log)
	configuration := raft.Configuration{Servers: servers}
	if err := checkServers(configuration); err != nil {
		return err
	}
	if err := s.fence(servers); err != nil { // first: a new cluster that is not fenced must never be on the disk
		return err
	}
	_, transport := raft.NewInmemTransport("") // to write addresses as they are
	if err := raft.RecoverCluster(conf, fsm, s.Logs(), s.Stable(), s.Snapshots(), transport, configuration); err != nil {
		return err
	}
	return s.forget(term)
}

// canRecover checks that there is a log to go on with.
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

// checkServers refuses what raft would refuse only after the node was fenced.
func checkServers(c raft.Configuration) error {
	seen := map[raft.ServerID]bool{}
	voters := 0
	for _, s := range c.Servers {
		if seen[s.ID] {
			return fmt.Errorf("node %s is named twice", s.ID)
		}
		seen[s.ID] = true
		if s.Suffrage == raft.Voter {
			voters++
		}
	}
	if voters == 0 {
		return errors.New("no node is named that votes")
	}
	return nil
}

// fence gives the node its new recovery.
func (s *Store) fence(servers []raft.Server) error {
	members := make([]topology.Member, len(servers))
	for i, server := range servers {
		members[i] = topology.Member{ID: string(server.ID), Raft: string(server.Address)}
	}
	_, err := s.change("fence the nodes that are lost", func(i *Identity) {
		i.Recovered = recovered{From: i.recoversFrom(), Boot: i.Boot}
		i.Recovery = i.Recovered.From.Next(i.Cluster, members)
		i.Stale, i.Line = "", Line{} // whatever the lost nodes knew better is lost with them
	})
	return err
}

// recoversFrom returns the recovery that the next one follows: the node has not been started since one that is to be
// replaced.
func (i *Identity) recoversFrom() topology.Recovery {
	if i.Recovery != "" && i.Recovered.Boot == i.Boot {
		return i.Recovered.From
	}
	return i.Recovery
}

// NextRecovery returns the recovery that Recover gives the node with these members.
func (i *Identity) NextRecovery(members []topology.Member) topology.Recovery {
	return i.recoversFrom().Next(i.Cluster, members)
}

// forget sets the term, and drops the vote and the memory of other nodes. Terms have no votes before they begin.
func (s *Store) forget(term uint64) error {
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
