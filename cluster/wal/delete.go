package wal

import "fmt"

// DeleteRange deletes the entries from lo to hi, inclusive. StoreLogs can run concurrently
// unless the range contains the last entry.
func (l *Log) DeleteRange(lo, hi uint64) error {
	done, err := l.deleteOld(lo, hi)
	if done || err != nil {
		return err
	}
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	return l.runExclusive(func() error {
		if err := l.moveAllAndReset(); err != nil {
			return err
		}
		return l.deleteFromBase(lo, hi)
	})
}

// deleteOld deletes the entries from lo to hi if there is an entry after hi, and returns true.
// Otherwise it returns false. Before the deletion, it moves all entries up to hi + 1 to Base. Open skips all
// entries up to the last entry of Base, and therefore also skips deleted entries that are still in the files.
func (l *Log) deleteOld(lo, hi uint64) (done bool, err error) {
	l.baseMu.Lock()
	defer l.baseMu.Unlock()
	last, err := l.LastIndex()
	if err != nil || hi >= last {
		return false, err
	}
	if err := l.moveUpTo(hi + 1); err != nil {
		return false, err
	}
	return true, l.deleteFromBase(lo, hi)
}

// deleteFromBase deletes the entries from lo to hi from Base and from memory. All entries from lo
// to hi must be in Base.
func (l *Log) deleteFromBase(lo, hi uint64) error {
	l.dropCached(lo, hi)
	if err := l.cfg.Base.DeleteRange(lo, hi); err != nil {
		return l.fail(fmt.Errorf("delete entries %d to %d: %w", lo, hi, err))
	}
	if err := l.findBounds(); err != nil {
		return l.fail(err)
	}
	return nil
}

// dropCached removes the entries from lo to hi from memory. If memory holds entries before and after the
// range, the entries before the range are removed too, because a ring cannot have a gap.
func (l *Log) dropCached(lo, hi uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case hi < lo || hi < l.recent.first || lo >= l.recent.next:
	case hi >= l.recent.next-1:
		l.recent.dropFrom(lo)
	default:
		l.recent.dropBefore(hi + 1)
	}
}
