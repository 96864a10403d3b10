package raftlog

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/entrylog"
)

// frontName is the name of the files of the newest entries in error messages.
const frontName = "front"

// front is the log as seen by raft: the newest entries are in memory and in files of package
// entrylog, all others are in the database.
type front struct {
	file  *guarded
	inner *entrylog.Log
}

// FirstIndex returns the index of the oldest entry, or 0.
func (f *front) FirstIndex() (uint64, error) {
	return f.index("find the first entry", f.inner.FirstIndex)
}

// LastIndex returns the index of the newest entry, or 0.
func (f *front) LastIndex() (uint64, error) { return f.index("find the last entry", f.inner.LastIndex) }

func (f *front) index(what string, find func() (uint64, error)) (index uint64, err error) {
	err = f.file.try(what, func() error {
		index, err = find()
		return err
	})
	return index, err
}

// GetLog reads an entry. It returns raft.ErrLogNotFound if there is no such entry.
func (f *front) GetLog(index uint64, entry *raft.Log) error {
	return f.file.try("read an entry", func() error { return f.inner.GetLog(index, entry) })
}

// StoreLog stores one entry. See StoreLogs.
func (f *front) StoreLog(entry *raft.Log) error { return f.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends entries.
func (f *front) StoreLogs(entries []*raft.Log) error {
	return f.file.write("store entries", func() error { return f.inner.StoreLogs(entries) })
}

// DeleteRange deletes the entries from lo to hi, inclusive. StoreLogs can run concurrently unless
// the range contains the last entry. A deletion may take long; the watchdog watches each of its
// steps.
func (f *front) DeleteRange(lo, hi uint64) error {
	return f.file.try("delete entries", func() error { return f.inner.DeleteRange(lo, hi) })
}

// step runs one operation on the files, such as a step of a deletion, under the watchdog.
func (f *front) step(op func() error) error { return f.file.step(1, op) }

// damaged converts entrylog.ErrDamaged to ErrDamaged.
func damaged(err error) error {
	if errors.Is(err, entrylog.ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
