package buckets

import (
	"context"
	"time"
)

const (
	sweepSlots = 1024                   // maximum slots examined while a shard is locked
	sweepSlice = time.Millisecond       // maximum time of one slice
	sweepBusy  = 10 * time.Millisecond  // pause while many records expire
	sweepQuiet = 100 * time.Millisecond // pause otherwise
	busyShare  = 16                     // sweepBusy applies if the dropped records exceed 1/busyShare of the examined slots
	quietShare = 8                      // after sweepQuiet, a slice visits at most 1/quietShare of the shards
)

// RunSweeper drops expired records, in slices of limited time, until ctx is done. It visits a small table about once per
// second, and more often while many records expire: more visits would cost processor time while there is nothing to
// drop. Without RunSweeper, expired records stay in memory until they are accessed or their shard is full.
func (t *Table) RunSweeper(ctx context.Context) {
	w := sweeper{table: t}
	timer := time.NewTimer(sweepQuiet)
	defer timer.Stop()
	quiet := max(1, len(t.shards)/quietShare)
	shards := quiet
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		pause, next := sweepQuiet, quiet
		if seen, dropped := w.sweep(sweepSlice, shards); dropped*busyShare > seen {
			pause, next = sweepBusy, len(t.shards)
		}
		shards = next
		timer.Reset(pause)
	}
}

// sweeper is the position of the next step in a table.
type sweeper struct {
	table *Table
	shard int
	slot  int
}

// sweep drops expired records until the time slice is used up or the given number of shards has been visited.
// It returns the number of slots seen and the number of records dropped.
func (w *sweeper) sweep(slice time.Duration, shards int) (seen, dropped int) {
	start := time.Now()
	for visited := 0; visited < shards && time.Since(start) < slice; {
		n, d, last := w.step()
		seen += n
		dropped += d
		if last {
			visited++
		}
	}
	return seen, dropped
}

// step drops expired records in a part of one shard, and reports whether it was the last part.
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
		if s.replicated {
			s.tidyUndoLog()
		}
		w.slot = 0
		w.shard = (w.shard + 1) & (len(w.table.shards) - 1)
	}
	return seen, dropped, last
}

// dropExpired drops the expired records at index positions from..to-1.
func (s *shard) dropExpired(from, to int, now uint64) (dropped int) {
	until := s.droppableUntil(now)
	for at := from; at < to; {
		if s.index[at] == 0 || s.record(at).expires() > until || !s.droppable(at, now) {
			at++
			continue
		}
		// Another slot may have moved to this position: examine the position again.
		s.drop(at)
		dropped++
	}
	if dropped > 0 {
		s.now = max(s.now, until) // no decision may use a time at which the dropped records were live
	}
	return dropped
}
