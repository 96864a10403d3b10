package buckets

import (
	"context"
	"time"
)

const (
	reliefEvery = 50 * time.Millisecond // how often the memory is compared with the limit
	reliefSlice = time.Millisecond      // the longest stretch of work
	reliefPause = time.Millisecond      // after a stretch, for decisions
	reliefBytes = 256 << 10             // evicted under one lock
	worthTrim   = 16                    // slack is worth a copy from this part of a shard's memory on
	minShard    = minArena + 8*slotSize // bytes of a shard with a few keys
	overHalf    = exhausted - 8 + 1     // the lowest class of more than half of a limit
)

// RunRelief brings the memory below a limit that has been lowered, until ctx ends: with
// EvictSmallestDebt by evicting keys, and in any case by giving back what shards hold and do
// not use. Without it, new keys are refused until enough has expired.
//
// It works in slices. After a slice that has evicted keys it calls flush, which returns when
// that is replicated: so neither a journal nor an entry of the log takes more than a slice. An
// error means that it cannot be for now.
func (t *Table) RunRelief(ctx context.Context, flush func() error) {
	ticker := time.NewTicker(reliefEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		t.relieve(ctx, flush)
	}
}

// relieve works until the limit is kept or nothing more can be given back.
func (t *Table) relieve(ctx context.Context, flush func() error) {
	r := newRelief(t)
	for ctx.Err() == nil && r.next() {
		evicted := t.memory.evicted.Load()
		r.work(reliefSlice)
		if t.memory.evicted.Load() != evicted && flush() != nil {
			return
		}
		pause(ctx, reliefPause)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// relief goes through the shards of a table, round after round. In each round all shards are
// to shrink by the same factor, so that a shard does not lose keys which another one still
// would keep. Shards of a few keys, and keys that have used more than half of their limit, come
// last.
type relief struct {
	table       *Table
	shard       int   // the next one; 0 at the begin of a round
	limit, used int64 // at the begin of the round: the factor
	floor       int64 // bytes below which no shard has to shrink
	spare       int   // the share from which on keys are not evicted
}

func newRelief(t *Table) relief { return relief{table: t, floor: minShard, spare: overHalf} }

// next reports whether there is work to do.
func (r *relief) next() bool {
	m := &r.table.memory
	if !m.exceeded() {
		return false
	}
	if r.shard > 0 {
		return true
	}
	used := m.used.Load()
	if used == r.used && !r.press() { // a round has changed nothing
		return false
	}
	r.limit, r.used = m.limit.Load(), used
	return true
}

// press lets the next round evict more, and reports whether there is more.
func (r *relief) press() bool {
	switch {
	case r.floor > 0:
		r.floor = 0
	case r.spare < shareClasses:
		r.spare = shareClasses
	default:
		return false
	}
	return true
}

// work works until the time is up, the round is over, or the limit is kept.
func (r *relief) work(slice time.Duration) {
	for start := time.Now(); r.table.memory.exceeded() && time.Since(start) < slice; {
		if !r.step() {
			continue
		}
		if r.shard = (r.shard + 1) & (len(r.table.shards) - 1); r.shard == 0 {
			return
		}
	}
}

// step works on one shard under its lock, and reports whether that is done.
func (r *relief) step() (done bool) {
	s := &r.table.shards[r.shard]
	now := s.lock(r.table.clock())
	defer s.mu.Unlock()
	defer since(&s.shared.pauses.eviction, time.Now())
	size := s.bytes()
	return s.relieve(max(r.floor, int64(float64(size)*float64(r.limit)/float64(r.used))), r.spare, now)
}

// relieve brings the shard's memory down to so many bytes, or closer to that, and reports
// whether there is no more to do. Keys of shares from spare on stay.
func (s *shard) relieve(target int64, spare int, now uint64) (done bool) {
	if !s.mayEvict() {
		if held := s.bytes(); held-s.tight() >= held/worthTrim {
			s.trim()
		}
		return true
	}
	if excess := s.tight() - target; excess > 0 && s.live > 0 {
		part := float64(excess) / float64(s.tight())
		var c census
		c.take(s, now)
		if most := sum(c.shares[:spare]); most > 0 {
			s.evictBytes(&c, min(most, reliefBytes, 1+int(part*float64(s.liveBytes()))), now)
			if s.tight() > target {
				return false
			}
		}
	}
	s.trim()
	return true
}

// mayEvict reports whether keys can be evicted here: that is up to the node that decides.
func (s *shard) mayEvict() bool {
	return s.shared.memory.evicting() == EvictSmallestDebt && (!s.journaled || s.journaling())
}

// tight returns the bytes that the shard would take without slack.
func (s *shard) tight() int64 {
	if s.live == 0 {
		return 0
	}
	return int64(indexSize(int(s.live)))*slotSize + int64(arenaSize(s.liveBytes()))
}

// trim gives back what the shard holds and does not use.
func (s *shard) trim() {
	if s.live == 0 {
		s.clear()
		return
	}
	if want := indexSize(int(s.live)); want < len(s.index) {
		s.resizeIndex(want)
	}
	if arenaSize(s.liveBytes()) < cap(s.arena) {
		s.resizeArena(s.liveBytes())
	}
}
