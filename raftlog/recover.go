package raftlog

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/hashicorp/raft"
)

var errNothing = errors.New("there is nothing in the log")

// Recover makes servers the configuration of a cluster that has lost its majority for
// good, while no node of it runs. It is run on one node that is left, or on each of them
// with the same servers. It commits all entries that the node has, also those that no
// majority ever had, and forgets those that only the lost nodes had.
//
// fsm replays the log, and is of no use afterwards. The directory must have been claimed.
// The log is replaced by a snapshot. It wraps what Open and Check return, and returns what
// the directory holds then.
func Recover(dir string, servers []raft.Server, fsm raft.FSM, log *slog.Logger) (Summary, error) {
	// Every error is returned as well, and there is nobody else to tell.
	s, err := Open(Config{Dir: dir, Sync: true, Fatal: func(error) {}, Log: log})
	if err != nil {
		return Summary{}, fmt.Errorf("recover: %w", err)
	}
	if err := errors.Join(s.recover(servers, fsm), s.Close()); err != nil {
		return Summary{}, fmt.Errorf("recover %s: %w", dir, err)
	}
	return Inspect(dir)
}

func (s *Store) recover(servers []raft.Server, fsm raft.FSM) error {
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
	conf := raft.DefaultConfig()
	conf.LocalID = "recover" // it has to have one, and is not used
	conf.Logger = Logger(s.log)
	_, transport := raft.NewInmemTransport("") // to write addresses as they are
	return raft.RecoverCluster(conf, fsm, s.Logs(), s.Stable(), s.Snapshots(), transport, raft.Configuration{Servers: servers})
}
