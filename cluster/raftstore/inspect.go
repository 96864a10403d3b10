package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/cluster/wal"
)

// Summary describes the content of a directory.
type Summary struct {
	Identity      *Identity // nil if the directory has not been claimed
	FirstLog      uint64    // index of the oldest entry of the log; 0 if it has none
	LastLog       uint64    // index of the newest entry of the log; 0 if it has none
	LastIndex     uint64    // index of the newest entry, in the log or in a snapshot
	LastTerm      uint64    // term of that entry
	CurrentTerm   uint64    // the newest term known to the node
	Configuration raft.Configuration
	Snapshots     []SnapshotSummary // usable snapshots from newest to oldest, then unusable ones
}

// SnapshotSummary describes one snapshot of a directory.
type SnapshotSummary struct {
	ID    string
	Index uint64 // index of the last entry in the snapshot
	Term  uint64 // term of that entry
	Size  int64  // size in bytes
	Err   error  // the reason why the snapshot is unusable; nil if it is usable
}

// Inspect reads the content of a directory and changes nothing. The error wraps
// [ErrLocked] if a node is running there, and [ErrNoNode] if the directory has no data of a node.
func Inspect(dir string) (Summary, error) {
	s, err := inspect(dir)
	if err != nil {
		return s, fmt.Errorf("inspect %s: %w", dir, err)
	}
	return s, nil
}

func inspect(dir string) (s Summary, err error) {
	if _, err := os.Stat(dir); err != nil {
		return s, err
	}
	current := filepath.Join(dir, currentName)
	if s.Identity, err = readIdentity(current); err != nil {
		return s, err
	}
	if s.Identity != nil {
		err = needFiles(current)
	} else if _, statErr := os.Stat(filepath.Join(current, stableName)); errors.Is(statErr, fs.ErrNotExist) {
		err = ErrNoNode
	}
	if err != nil {
		return s, err
	}
	snapshots, err := readSnapshots(current)
	if err != nil {
		return s, err
	}
	s.addSnapshots(snapshots)
	if err := stableDatabase.reading(current, s.addStable); err != nil {
		return s, err
	}
	return s, logDatabase.reading(current, s.addLog)
}

// boltStores is a database as raft uses it: for the log, or for the term and the vote.
type boltStores interface {
	raft.LogStore
	raft.StableStore
}

// reading opens a database for reading, calls f, and closes it. The file is locked meanwhile.
func (d *database) reading(dir string, f func(boltStores, *guarded) error) error {
	db, err := d.read(dir)
	if err != nil {
		return err
	}
	file := newGuarded(filepath.Join(dir, d.name), newLatch(func(error) {}))
	return errors.Join(f(db, file), db.Close())
}

func (s *Summary) addSnapshots(found []snapshotFile) {
	for _, f := range found {
		m := f.meta
		s.Snapshots = append(s.Snapshots, SnapshotSummary{f.name, m.Index, m.Term, m.Size, f.err})
		if f.err == nil && m.Index > s.LastIndex {
			s.LastIndex, s.LastTerm, s.Configuration = m.Index, m.Term, m.Configuration
		}
	}
}

func (s *Summary) addStable(db boltStores, file *guarded) (err error) {
	s.CurrentTerm, err = (&stable{file, db}).GetUint64([]byte("CurrentTerm"))
	if errors.Is(err, errKeyNotFound) {
		return nil
	}
	return err
}

// addLog adds the content of the log. It reads all entries after the newest snapshot, because these
// entries may contain a newer configuration.
func (s *Summary) addLog(db boltStores, file *guarded) (err error) {
	l := &logs{file, db}
	if s.FirstLog, err = l.FirstIndex(); err != nil {
		return err
	}
	if s.LastLog, err = l.LastIndex(); err != nil {
		return err
	}
	for i := max(s.LastIndex+1, s.FirstLog); s.FirstLog > 0 && i <= s.LastLog; i++ {
		var entry raft.Log
		if err := l.GetLog(i, &entry); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		s.addEntry(&entry)
	}
	newest, err := wal.Read(filepath.Dir(file.name), l)
	if err != nil {
		return fmt.Errorf("read the newest entries: %w", damaged(err))
	}
	for i := range newest {
		if s.FirstLog == 0 {
			s.FirstLog = newest[i].Index
		}
		s.LastLog = newest[i].Index
		s.addEntry(&newest[i])
	}
	return nil
}

// addEntry adds an entry to the summary unless a snapshot contains it.
func (s *Summary) addEntry(entry *raft.Log) {
	if entry.Index <= s.LastIndex {
		return
	}
	if entry.Type == raft.LogConfiguration {
		s.Configuration = raft.DecodeConfiguration(entry.Data)
	}
	s.LastIndex, s.LastTerm = entry.Index, entry.Term
}
