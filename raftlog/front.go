package raftlog

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/entrylog"
)

// frontName is what the files of the newest entries go by in messages.
const frontName = "front"

// front is the log as raft has it: the newest entries in files of their own and in memory, all
// others in the database behind.
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

// GetLog reads an entry. It returns raft.ErrLogNotFound if there is none of that index.
func (f *front) GetLog(index uint64, entry *raft.Log) error {
	return f.file.try("read an entry", func() error { return f.inner.GetLog(index, entry) })
}

// StoreLog is StoreLogs of one entry.
func (f *front) StoreLog(entry *raft.Log) error { return f.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends entries.
func (f *front) StoreLogs(entries []*raft.Log) error {
	return f.file.write("store entries", func() error { return f.inner.StoreLogs(entries) })
}

// DeleteRange deletes the entries from lo to hi. Entries can be stored meanwhile, unless the last
// one is among them. It may take long; the watchdog looks at each of its steps.
func (f *front) DeleteRange(lo, hi uint64) error {
	return f.file.try("delete entries", func() error { return f.inner.DeleteRange(lo, hi) })
}

// step is one operation on the files, of a deletion for example.
func (f *front) step(op func() error) error { return f.file.step(1, op) }

// damaged says in this package's words that a file is not what was written.
func damaged(err error) error {
	if errors.Is(err, entrylog.ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
