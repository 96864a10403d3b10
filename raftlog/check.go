package raftlog

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Check finds out whether raft can start from what is on the disk. It is called between
// Claim and raft.NewRaft, which panics, at each start anew, where Check returns an error.
//
// It reads all snapshots. One that is not right is logged and moved to the directory
// "damaged", where there is room for one; the next older one takes its place, and is no
// loss as long as the log reaches back to it. Then it reads the entries behind the newest
// snapshot that is right, all of which have to be there: it wraps [ErrGap] if one is not, and
// [ErrDamaged] if one is not right. Both mean that this node cannot go on with what it has.
// In a cluster the remedy is SetAside, and joining again.
func (s *Store) Check() error {
	snapshots, err := readSnapshots(s.current())
	if err != nil {
		return fmt.Errorf("check %s: %w", s.dir, err)
	}
	newest := uint64(0)
	for _, snap := range snapshots {
		if snap.err == nil {
			newest = max(newest, snap.meta.Index)
			continue
		}
		s.log.Warn("a snapshot is not right and is not used", "snapshot", snap.name, "error", snap.err)
		if err := s.setDamagedAside(snap.name); err != nil {
			return fmt.Errorf("check %s: %w", s.dir, err)
		}
	}
	if err := checkEntries(s.logs, newest); err != nil {
		return fmt.Errorf("check %s: %w", s.dir, err)
	}
	return nil
}

// checkEntries reads the entries behind index newest.
func checkEntries(l *logs, newest uint64) error {
	return protect(func() error {
		last, err := l.inner.LastIndex()
		if err != nil {
			return err
		}
		var entry raft.Log
		for i := newest + 1; i <= last; i++ {
			err := l.get(i, &entry)
			if errors.Is(err, raft.ErrLogNotFound) {
				return fmt.Errorf("entry %d of %d, where the newest snapshot ends at %d: %w", i, last, newest, ErrGap)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
