package wal

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// keptBuffer is the maximum capacity, in bytes, of a record buffer that is kept between
// calls.
const keptBuffer = 1 << 20

// StoreLog stores one entry. See StoreLogs.
func (l *Log) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends entries with one write. The Log keeps the slices Data and Extensions of the
// entries, so the caller must not modify them afterwards. StoreLogs blocks while the number or the
// size of the entries that are not in Base exceeds the bounds of Config. Entries that do not follow
// the last one, or are too large for one record, are stored in Base immediately. They replace existing
// entries with the same indexes.
func (l *Log) StoreLogs(entries []*raft.Log) error {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	if err := l.failed(); err != nil || len(entries) == 0 {
		return err
	}
	if !l.continues(entries) {
		return l.runExclusive(func() error { return l.storeInBase(entries) })
	}
	if l.isFull() {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	if err := l.write(entries); err != nil {
		return l.fail(fmt.Errorf("write entries to %s: %w", l.active.path, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, entry := range entries {
		l.recent.add(entry)
	}
	return nil
}

// continues reports whether the entries can be appended to a file, because they follow the last entry
// without a gap and fit in one record.
func (l *Log) continues(entries []*raft.Log) bool {
	l.mu.Lock()
	next := l.newest() + 1
	l.mu.Unlock()
	size := int64(0)
	for i, entry := range entries {
		size += sizeOf(entry)
		if entry.Index != next+uint64(i) || size > maxStored {
			return false
		}
	}
	return true
}

// write appends a record with the entries to the active file.
func (l *Log) write(entries []*raft.Log) error {
	b := appendRecord(l.buf[:0], entries...)
	if l.buf = b; cap(b) > keptBuffer {
		l.buf = nil
	}
	if err := writeAll(l.active.file, b); err != nil {
		return err
	}
	l.active.bytes += int64(len(b))
	l.active.entries += len(entries)
	if !l.cfg.Sync {
		return nil
	}
	return l.active.Sync()
}

func writeAll(w io.Writer, b []byte) error {
	n, err := w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// isFull reports whether the active file is full, so that its entries must be moved to Base. A file is
// full at half of MaxBytes or MaxEntries, because there can be two files.
func (l *Log) isFull() bool {
	return l.active.bytes >= (l.cfg.MaxBytes+1)/2 || l.active.entries >= (l.cfg.MaxEntries+1)/2
}

// rotate begins a new file and starts a goroutine that moves the entries of the full file to
// Base. rotate blocks until the previous full file has been moved. This limits the number of entries that are
// not in Base.
func (l *Log) rotate() error {
	l.moveLock <- struct{}{}
	if err := l.failed(); err != nil {
		<-l.moveLock
		return err
	}
	old := l.active
	last, _ := l.LastIndex() // l.failed was checked above
	if err := l.startDurably(); err != nil {
		<-l.moveLock
		_ = old.Close() // the first error is returned
		return l.fail(err)
	}
	go l.moveAway(old, last)
	return nil
}

// startDurably begins a new file. With Config.Sync, it also makes the directory entry of the file
// durable.
func (l *Log) startDurably() error {
	if err := l.startFile(); err != nil {
		return err
	}
	return l.syncDir()
}

func (l *Log) startFile() error {
	l.number++
	path := filepath.Join(l.cfg.Dir, nameOf(l.number))
	err := l.cfg.Step(func() error {
		f, err := l.cfg.files.Create(path)
		if err == nil {
			l.active = segment{file: f, path: path}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("create a file: %w", err)
	}
	return nil
}

func (l *Log) syncDir() error {
	if !l.cfg.Sync {
		return nil
	}
	if err := l.cfg.Step(func() error { return l.cfg.files.SyncDir(l.cfg.Dir) }); err != nil {
		return fmt.Errorf("sync the directory %s: %w", l.cfg.Dir, err)
	}
	return nil
}
