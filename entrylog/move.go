package entrylog

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hashicorp/raft"
)

const (
	// batchEntries and batchBytes bound one transaction, which Base builds in memory.
	batchEntries = 1024
	batchBytes   = 4 << 20
	// cachedEntries stay in memory when they are in Base, for those who read the newest: the
	// replication to followers, and on a follower the state machine.
	cachedEntries = 512
)

// moveAway moves what is in front up to last, and removes the file that ends there.
func (l *Log) moveAway(old front, last uint64) {
	defer func() { <-l.full }()
	if err := l.moveTo(last); err != nil {
		_ = old.Close() // the first error says more, and the file stays
		return
	}
	if err := l.discard(old); err != nil {
		_ = l.fail(err)
	}
}

// moveTo moves what is in front up to index.
func (l *Log) moveTo(index uint64) error {
	l.behind.Lock()
	defer l.behind.Unlock()
	return l.moveUpTo(index)
}

// moveUpTo is moveTo for those who hold behind.
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
			return l.fail(fmt.Errorf("move entries to the store behind: %w", err))
		}
		l.moved(batch)
	}
}

// moveAll moves all that is in front.
func (l *Log) moveAll() error {
	last, err := l.LastIndex()
	if err != nil {
		return err
	}
	return l.moveUpTo(last)
}

// batch returns the next entries to move. They are copies: Base may keep them.
func (l *Log) batch(upTo uint64) (batch []*raft.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := max(l.last+1, l.recent.first)
	to := min(upTo+1, l.recent.next, from+batchEntries)
	if from >= to {
		return nil
	}
	copies := make([]raft.Log, 0, to-from) // has room for all: pointers into it stay right
	for bytes := int64(0); from < to && bytes < batchBytes; from++ {
		copies = append(copies, *l.recent.slot(from))
		batch = append(batch, &copies[len(copies)-1])
		bytes += sizeOf(batch[len(batch)-1])
	}
	return batch
}

// moved notes what Base has, and lets go of it but for the newest.
func (l *Log) moved(batch []*raft.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = batch[len(batch)-1].Index
	if l.first == 0 {
		l.first = batch[0].Index
	}
	l.recent.dropBefore(min(l.last+1, l.recent.newest(cachedEntries, l.cfg.MaxBytes)))
}

// alone calls op, which changes Base, while nobody else does and no full file is on its
// way. The caller holds writing.
func (l *Log) alone(op func() error) error {
	l.full <- struct{}{}
	defer func() { <-l.full }()
	l.behind.Lock()
	defer l.behind.Unlock()
	if err := l.failed(); err != nil {
		return err
	}
	return op()
}

// empty moves all that is in front and removes its file, durably if that matters, for
// those who are alone.
func (l *Log) empty() error {
	if err := l.moveAll(); err != nil {
		return err
	}
	if l.front.entries > 0 {
		if err := l.discard(l.front); err != nil {
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

// discard closes a file and removes it.
func (l *Log) discard(f front) error {
	return l.cfg.Step(func() error { return errors.Join(f.Close(), l.remove(f.path)) })
}

func (l *Log) remove(path string) error {
	if err := l.cfg.files.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a file whose entries are in the store behind: %w", err)
	}
	return nil
}

// storeBehind stores entries in Base, after all that is in front.
func (l *Log) storeBehind(entries []*raft.Log) error {
	if err := l.empty(); err != nil {
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
