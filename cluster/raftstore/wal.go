package raftstore

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/cluster/wal"
)

// walName denotes the files of package wal in error messages.
const walName = "front"

// guardedWAL is the log as seen by raft: the newest entries are in memory and in files of package
// wal, all others are in the database.
type guardedWAL struct {
	file  *guarded
	inner *wal.Log
}

// FirstIndex returns the index of the oldest entry, or 0 if the log is empty.
func (w *guardedWAL) FirstIndex() (uint64, error) {
	return w.index("find the first entry", w.inner.FirstIndex)
}

// LastIndex returns the index of the newest entry, or 0 if the log is empty.
func (w *guardedWAL) LastIndex() (uint64, error) {
	return w.index("find the last entry", w.inner.LastIndex)
}

func (w *guardedWAL) index(action string, find func() (uint64, error)) (index uint64, err error) {
	err = w.file.try(action, func() error {
		index, err = find()
		return err
	})
	return index, err
}

// GetLog reads an entry. It returns raft.ErrLogNotFound if there is no such entry.
func (w *guardedWAL) GetLog(index uint64, entry *raft.Log) error {
	return w.file.try("read an entry", func() error { return w.inner.GetLog(index, entry) })
}

// StoreLog stores one entry. See StoreLogs.
func (w *guardedWAL) StoreLog(entry *raft.Log) error { return w.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends entries.
func (w *guardedWAL) StoreLogs(entries []*raft.Log) error {
	return w.file.write("store entries", func() error { return w.inner.StoreLogs(entries) })
}

// DeleteRange deletes the entries from lo to hi, inclusive. StoreLogs can run concurrently
// unless the range contains the last entry. A deletion may take long, so the watchdog
// watches each step separately.
func (w *guardedWAL) DeleteRange(lo, hi uint64) error {
	return w.file.try("delete entries", func() error { return w.inner.DeleteRange(lo, hi) })
}

// step runs one operation on the files, such as a step of a deletion, under the watchdog.
func (w *guardedWAL) step(op func() error) error { return w.file.step(1, op) }

// damaged converts wal.ErrDamaged to ErrDamaged.
func damaged(err error) error {
	if errors.Is(err, wal.ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
