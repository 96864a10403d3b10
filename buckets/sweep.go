package buckets

import (
	"context"
	"time"
)

const (
	sweepSlots = 1024                   // slots looked at under one lock
	sweepSlice = time.Millisecond       // the longest that the sweeper works at a stretch
	sweepBusy  = 10 * time.Millisecond  // the pause while much is found
	sweepQuiet = 100 * time.Millisecond // the pause otherwise
	worthIt    = 16                     // much is found when more than one in so many slots is dropped
)

// RunSweeper drops records whose time has passed, a slice at a time, until ctx ends.
// Without it they stay until they are touched or their shard is full.
func (t *Table) RunSweeper(ctx context.Context) {
	w := sweeper{table: t}
	timer := time.NewTimer(sweepQuiet)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		pause := sweepQuiet
		if seen, dropped := w.sweep(sweepSlice); dropped*worthIt > seen {
			pause = sweepBusy
		}
		timer.Reset(pause)
	}
}

// sweeper knows where in its table to go on sweeping.
type sweeper struct {
	table *Table
	shard int
	slot  int
}

// sweep works until the time is up or the whole table has been seen.
func (w *sweeper) sweep(slice time.Duration) (seen, dropped int) {
	start := time.Now()
	for visited := 0; visited < len(w.table.shards) && time.Since(start) < slice; {
		n, d, last := w.step()
		seen += n
		dropped += d
		if last {
			visited++
		}
	}
	return seen, dropped
}

// step drops what has expired in a piece of one shard, and reports whether that was the
// shard's last.
func (w *sweeper) step() (seen, dropped int, last bool) {
	s := &w.table.shards[w.shard]
	now := s.lock(w.table.clock())
	defer s.mu.Unlock()
	defer since(&s.shared.pauses.sweep, time.Now())
	from := min(w.slot, len(s.index))
	w.slot = min(from+sweepSlots, len(s.index))
	seen = w.slot - from
	dropped = s.dropExpired(from, w.slot, now)
	if last = w.slot == len(s.index); last {
		s.shrink()
		if s.journaled {
			s.tidyJournal()
		}
		w.slot = 0
		w.shard = (w.shard + 1) & (len(w.table.shards) - 1)
	}
	return seen, dropped, last
}

// dropExpired drops the records at index positions from..to-1 whose time has passed.
func (s *shard) dropExpired(from, to int, now uint64) (dropped int) {
	until := s.settled(now)
	for at := from; at < to; {
		if s.index[at] == 0 || s.record(at).expires() > until || !s.droppable(at, now) {
			at++
			continue
		}
		// Another slot may have moved into the gap, so the position is looked at again.
		s.drop(at)
		dropped++
	}
	if dropped > 0 {
		s.now = max(s.now, until) // nothing is decided at a time at which they were there
	}
	return dropped
}
