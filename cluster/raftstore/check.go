package raftstore

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Check verifies that raft can start from the files. It must be called between Claim and
// raft.NewRaft at each start. If Check returns an error, raft.NewRaft would panic.
//
// Check reads all snapshots. An invalid snapshot is logged and moved to the directory
// "damaged", which holds only the snapshot that was moved last. Raft then starts from the next older
// snapshot. Nothing is lost if the log reaches back to that snapshot. Check then reads the entries
// after the newest valid snapshot. The error wraps [ErrGap] if one of these entries is missing, and
// [ErrDamaged] if one is corrupt. In both cases the node cannot start from its files. In a
// cluster the remedy is to call SetAside and join again.
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
		s.log.Warn("a snapshot is damaged and is not used", "snapshot", snap.name, "error", snap.err)
		if err := s.setDamagedAside(snap.name); err != nil {
			return fmt.Errorf("check %s: %w", s.dir, err)
		}
	}
	if err := checkEntries(s.logs, newest); err != nil {
		return fmt.Errorf("check %s: %w", s.dir, err)
	}
	return nil
}

// checkEntries reads the entries after the newest snapshot, which ends at index newest.
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
				return fmt.Errorf("entry %d is missing; the log ends at entry %d, and the newest snapshot at entry %d: %w", i, last, newest, ErrGap)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
