package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// logs is a raft.LogStore over a database. The database does not checksum its content, so
// a checksum is appended to the Extensions of each entry.
type logs struct {
	file  *guarded
	inner raft.LogStore
}

const sumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf returns the checksum of all fields of an entry except AppendedAt, which raft uses only for a
// metric.
func sumOf(l *raft.Log) uint32 {
	head := make([]byte, 0, 8+8+1+8)
	head = binary.LittleEndian.AppendUint64(head, l.Index)
	head = binary.LittleEndian.AppendUint64(head, l.Term)
	head = append(head, byte(l.Type))
	head = binary.LittleEndian.AppendUint64(head, uint64(len(l.Data)))
	sum := crc32.Checksum(head, castagnoli)
	sum = crc32.Update(sum, castagnoli, l.Data)
	return crc32.Update(sum, castagnoli, l.Extensions)
}

// sealed returns copies of the entries with checksums. It does not modify the given entries, since
// other goroutines may read them.
func sealed(entries []*raft.Log) []*raft.Log {
	copies := make([]raft.Log, len(entries))
	sealed := make([]*raft.Log, len(entries))
	for i, entry := range entries {
		copies[i] = *entry
		ext := entry.Extensions[:len(entry.Extensions):len(entry.Extensions)]
		copies[i].Extensions = binary.LittleEndian.AppendUint32(ext, sumOf(entry))
		sealed[i] = &copies[i]
	}
	return sealed
}

// unseal verifies an entry that was read from the database, and removes its checksum.
func unseal(index uint64, entry *raft.Log) error {
	n := len(entry.Extensions) - sumSize
	if entry.Index != index || n < 0 {
		return fmt.Errorf("entry %d is %w: its checksum is missing, or its index is wrong", index, ErrDamaged)
	}
	want := binary.LittleEndian.Uint32(entry.Extensions[n:])
	entry.Extensions = entry.Extensions[:n:n]
	if n == 0 {
		entry.Extensions = nil
	}
	if sumOf(entry) != want {
		return fmt.Errorf("entry %d is %w: checksum does not match", index, ErrDamaged)
	}
	return nil
}

// FirstIndex returns the index of the oldest entry, or 0 if the database has no entries.
func (l *logs) FirstIndex() (uint64, error) {
	return l.index("find the first entry", l.inner.FirstIndex)
}

// LastIndex returns the index of the newest entry, or 0 if the database has no entries.
func (l *logs) LastIndex() (uint64, error) { return l.index("find the last entry", l.inner.LastIndex) }

func (l *logs) index(action string, find func() (uint64, error)) (index uint64, err error) {
	err = l.file.try(action, func() error {
		index, err = find()
		return err
	})
	return index, err
}

// GetLog reads an entry. It returns raft.ErrLogNotFound if there is no such entry.
func (l *logs) GetLog(index uint64, entry *raft.Log) error {
	return l.file.try("read an entry", func() error { return l.get(index, entry) })
}

func (l *logs) get(index uint64, entry *raft.Log) error {
	*entry = raft.Log{} // decoding does not set fields that are empty in the stored entry
	switch err := l.inner.GetLog(index, entry); {
	case errors.Is(err, raft.ErrLogNotFound):
		return err
	case err != nil:
		return fmt.Errorf("entry %d is %w: %w", index, ErrDamaged, err)
	}
	return unseal(index, entry)
}

// StoreLog stores one entry. See StoreLogs.
func (l *logs) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends entries atomically.
func (l *logs) StoreLogs(entries []*raft.Log) error {
	stored := sealed(entries)
	return l.file.write("store entries", func() error { return l.inner.StoreLogs(stored) })
}

// deleteChunk is the number of entries deleted per transaction. It bounds the time for
// which a deletion blocks StoreLogs.
const deleteChunk = 1024

// DeleteRange deletes the entries from lo to hi, inclusive. It deletes the range in chunks. Each
// chunk is at an end of the log, so that an interruption leaves no gap.
func (l *logs) DeleteRange(lo, hi uint64) error {
	for {
		first, err := l.FirstIndex()
		if err != nil {
			return err
		}
		last, err := l.LastIndex()
		if err != nil {
			return err
		}
		from, to := nextChunk(lo, hi, first, last)
		if from > to {
			return nil
		}
		if err := l.deleteChunk(from, to); err != nil {
			return err
		}
		if lo > first && hi < last {
			return nil // a range in the middle is deleted in one transaction; raft never requests such a deletion
		}
	}
}

func (l *logs) deleteChunk(from, to uint64) error {
	return l.file.write("delete entries", func() error { return l.inner.DeleteRange(from, to) })
}

// nextChunk returns the next chunk to delete from the range lo to hi, for a log with
// entries first to last. The chunk is at the old end of the log if possible, otherwise at
// the new end. A range in the middle of the log is one chunk. If nothing is left to delete,
// nextChunk returns from > to.
func nextChunk(lo, hi, first, last uint64) (from, to uint64) {
	from, to = max(lo, first), min(hi, last)
	switch {
	case last == 0:
		return 1, 0
	case from > to, lo > first && hi < last:
		return from, to
	case lo <= first:
		return from, min(to, from+deleteChunk-1)
	default:
		return max(from, to-min(to, deleteChunk-1)), to
	}
}
