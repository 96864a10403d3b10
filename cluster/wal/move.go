package wal

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hashicorp/raft"
)

const (
	// batchEntries and batchBytes bound one transaction of Base, which is built in memory.
	batchEntries = 1024
	batchBytes   = 4 << 20
	// cachedEntries is the number of entries kept in memory after they have been moved to
	// Base. They are kept for readers of the newest entries: replication to followers and,
	// on a follower, the state machine.
	cachedEntries = 512
)

// moveAway moves the entries of the full file old to Base, and then removes the file. last is the
// index of the last entry of the file. Finally moveAway receives from l.moveLock, which permits the
// next rotation.
func (l *Log) moveAway(old segment, last uint64) {
	defer func() { <-l.moveLock }()
	if err := l.moveTo(last); err != nil {
		_ = old.Close() // the first error is recorded already; the file stays
		return
	}
	if err := l.discard(old); err != nil {
		_ = l.fail(err)
	}
}

// moveTo moves the entries up to the given index to Base.
func (l *Log) moveTo(index uint64) error {
	l.baseMu.Lock()
	defer l.baseMu.Unlock()
	return l.moveUpTo(index)
}

// moveUpTo is like moveTo, but does not lock baseMu. The caller must hold baseMu.
func (l *Log) moveUpTo(index uint64) error {
	for {
		if err := l.failed(); err != nil {
			return err
		}
		batch := l.batch(index)
		if len(batch) == 0 {
			return nil
		}
		if err := l.cfg.Base.StoreLogs(batch); err != nil {
			return l.fail(fmt.Errorf("move entries to the base store: %w", err))
		}
		l.moved(batch)
	}
}

// moveAll moves all entries to Base. The caller must hold baseMu.
func (l *Log) moveAll() error {
	last, err := l.LastIndex()
	if err != nil {
		return err
	}
	return l.moveUpTo(last)
}

// batch returns the next entries to move, up to the index upTo, or nil if there are none. The
// entries are copies, because Base may keep them.
func (l *Log) batch(upTo uint64) (batch []*raft.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := max(l.last+1, l.recent.first)
	to := min(upTo+1, l.recent.next, from+batchEntries)
	if from >= to {
		return nil
	}
	copies := make([]raft.Log, 0, to-from) // with capacity for all, so that pointers into it stay valid
	for bytes := int64(0); from < to && bytes < batchBytes; from++ {
		copies = append(copies, *l.recent.slot(from))
		batch = append(batch, &copies[len(copies)-1])
		bytes += sizeOf(batch[len(batch)-1])
	}
	return batch
}

// moved records that a batch is in Base. Of the entries in Base, it removes all but the
// newest from memory.
func (l *Log) moved(batch []*raft.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = batch[len(batch)-1].Index
	if l.first == 0 {
		l.first = batch[0].Index
	}
	l.recent.dropBefore(min(l.last+1, l.recent.oldestOfNewest(cachedEntries, l.cfg.MaxBytes)))
}

// runExclusive calls op, which may modify Base, while no other call modifies Base and no full
// file is being moved. The caller must hold writeMu.
func (l *Log) runExclusive(op func() error) error {
	l.moveLock <- struct{}{}
	defer func() { <-l.moveLock }()
	l.baseMu.Lock()
	defer l.baseMu.Unlock()
	if err := l.failed(); err != nil {
		return err
	}
	return op()
}

// moveAllAndReset moves all entries to Base. If the active file has entries, moveAllAndReset replaces
// it by a new file. With Config.Sync, the removal of all earlier files is then durable.
// moveAllAndReset may be called only within runExclusive.
func (l *Log) moveAllAndReset() error {
	if err := l.moveAll(); err != nil {
		return err
	}
	if l.active.entries > 0 {
		if err := l.discard(l.active); err != nil {
			return l.fail(err)
		}
		if err := l.startFile(); err != nil {
			return l.fail(err)
		}
	}
	if err := l.syncDir(); err != nil {
		return l.fail(err)
	}
	return nil
}

// discard closes and removes a file.
func (l *Log) discard(f segment) error {
	return l.cfg.Step(func() error { return errors.Join(f.Close(), l.remove(f.path)) })
}

func (l *Log) remove(path string) error {
	if err := l.cfg.files.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a log file after its entries were moved: %w", err)
	}
	return nil
}

// storeInBase moves all entries of the files to Base, and then stores the given entries in Base.
// storeInBase may be called only within runExclusive.
func (l *Log) storeInBase(entries []*raft.Log) error {
	if err := l.moveAllAndReset(); err != nil {
		return err
	}
	l.mu.Lock()
	l.recent.dropBefore(l.recent.next)
	l.mu.Unlock()
	if err := l.cfg.Base.StoreLogs(entries); err != nil {
		return l.fail(fmt.Errorf("store entries that do not follow the last one: %w", err))
	}
	if err := l.findBounds(); err != nil {
		return l.fail(err)
	}
	return nil
}
