package raftstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/cluster/wal"
)

// Replay restores the newest usable snapshot of a directory in fsm, applies the entries after it, and changes no file. It
// includes the newest entries, which may not be committed yet: a node that starts as a follower can replace them. The
// error wraps [ErrLocked] if a node is running in the directory, [ErrDamaged] if an entry is corrupt, [ErrGap] if an entry
// after the snapshot is missing, the cause of ctx if ctx is done, or an error of fsm.
func Replay(ctx context.Context, dir string, fsm raft.FSM) error {
	current := filepath.Join(dir, currentName)
	err := logDatabase.reading(current, func(db boltStores, file *guarded) error {
		newest, err := restoreNewest(current, fsm)
		if err != nil {
			return err
		}
		return applyAfter(ctx, newest, &logs{file, db}, fsm)
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", dir, err)
	}
	return nil
}

// restoreNewest restores the newest usable snapshot, and returns the index of its last entry. It returns 0 if there is no
// usable snapshot.
func restoreNewest(current string, fsm raft.FSM) (index uint64, err error) {
	found, err := readSnapshots(current)
	if err != nil || len(found) == 0 || found[0].err != nil {
		return 0, err
	}
	f, err := os.Open(filepath.Join(current, snapshotsName, found[0].name, stateName)) // #nosec G304 -- a file of data-dir
	if err != nil {
		return 0, err
	}
	if err := fsm.Restore(f); err != nil { // closes f
		return 0, fmt.Errorf("snapshot %s: %w", found[0].name, err)
	}
	return found[0].meta.Index, nil
}

// applyAfter applies the entries with an index above newest.
func applyAfter(ctx context.Context, newest uint64, l *logs, fsm raft.FSM) error {
	last, err := l.LastIndex()
	if err != nil {
		return err
	}
	for i := newest + 1; i <= last; i++ {
		var entry raft.Log
		err := l.GetLog(i, &entry)
		if errors.Is(err, raft.ErrLogNotFound) {
			err = fmt.Errorf("entry %d is missing; the log ends at entry %d, and the newest snapshot at entry %d: %w", i, last, newest, ErrGap)
		}
		if err == nil {
			err = applyEntry(ctx, &entry, fsm)
		}
		if err != nil {
			return err
		}
	}
	recent, err := wal.Read(filepath.Dir(l.file.name), l)
	if err != nil {
		return fmt.Errorf("read the newest entries: %w", damaged(err))
	}
	for i := range recent {
		if recent[i].Index <= newest {
			continue
		}
		if err := applyEntry(ctx, &recent[i], fsm); err != nil {
			return err
		}
	}
	return nil
}

// applyEntry applies an entry unless it is one of raft itself.
func applyEntry(ctx context.Context, entry *raft.Log, fsm raft.FSM) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if entry.Type != raft.LogCommand {
		return nil
	}
	if err, failed := fsm.Apply(entry).(error); failed {
		return err
	}
	return nil
}
