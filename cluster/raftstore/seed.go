package raftstore

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// ErrHasData is wrapped by Create if the directory has the data of a node.
var ErrHasData = errors.New("the directory has the data of a node: specify an empty directory")

// First describes the data of a node of a cluster that begins with a snapshot.
type First struct {
	Cluster, Node string
	Servers       []raft.Server // all nodes of the cluster
	// Recovery distinguishes the cluster from others with the same name, see [topology.Recovery]. It is the same on all
	// nodes.
	Recovery    topology.Recovery
	Index, Term uint64                  // of the snapshot
	Write       func(w io.Writer) error // writes the snapshot
	Log         *slog.Logger            // if nil, nothing is logged
}

// Create writes the data of a node into a directory, so that the node starts with a snapshot and without a log. It must be
// called with the same snapshot for each of the servers that has one; the others have no data and join. The error wraps
// [ErrHasData], or an error of Open. After an error Create can be repeated.
func Create(dir string, f First) error {
	// All errors are also returned, so Fatal can ignore them.
	s, err := Open(Config{Dir: dir, Sync: true, Fatal: func(error) {}, Log: f.Log})
	if err != nil {
		return fmt.Errorf("create the data of a node: %w", err)
	}
	if err := errors.Join(s.create(&f), s.Close()); err != nil {
		return fmt.Errorf("create the data of a node in %s: %w", dir, err)
	}
	return nil
}

func (s *Store) create(f *First) error {
	known, err := raft.HasExistingState(s.Logs(), s.Stable(), s.Snapshots())
	if err != nil {
		return err
	}
	if i, claimed := s.Identity(); known || claimed && i.Boot > 0 {
		return ErrHasData
	}
	configuration := raft.Configuration{Servers: f.Servers}
	if err := checkServers(configuration); err != nil {
		return err
	}
	if _, _, err := s.Claim(f.Cluster, f.Node); err != nil {
		return err
	}
	if err := s.SetRecovery(f.Recovery); err != nil {
		return err
	}
	if err := s.writeFirst(f, configuration); err != nil {
		return err
	}
	return s.Stable().SetUint64([]byte("CurrentTerm"), f.Term)
}

// writeFirst writes the snapshot.
func (s *Store) writeFirst(f *First, configuration raft.Configuration) error {
	_, transport := raft.NewInmemTransport("") // this transport does not change addresses when it encodes them
	sink, err := s.Snapshots().Create(raft.SnapshotVersionMax, f.Index, f.Term, configuration, f.Index, transport)
	if err != nil {
		return err
	}
	if err := f.Write(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}
