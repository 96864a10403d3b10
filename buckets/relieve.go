package buckets

import (
	"context"
	"time"
)

const (
	reliefEvery = 50 * time.Millisecond // interval of the check whether the limit is exceeded
	reliefSlice = time.Millisecond      // maximum time of one slice
	reliefPause = time.Millisecond      // pause after a slice, so that decisions can run
	reliefBytes = 256 << 10             // maximum bytes evicted while a shard is locked
	worthTrim   = 16                    // without eviction, a shard is trimmed if at least 1/worthTrim of its memory is unused
	minShard    = minArena + 8*slotSize // bytes of a shard with a few keys
	overHalf    = exhausted - 8 + 1     // the lowest share class above half of a limit
)

// RunRelief runs until ctx is done. Whenever the memory exceeds the limit, for example because the limit was lowered,
// it reduces the memory: it evicts keys if the policy is EvictSmallestDebt, and releases unused memory with any policy.
// While RunRelief is not running, a table above its limit refuses new keys until enough records have expired.
//
// RunRelief works in slices of limited time. After a slice that has evicted keys it calls flush, which
// must return when the evictions are replicated. The undo logs and a log entry therefore hold the
// evictions of one slice at most. If flush fails, RunRelief does nothing until the next check.
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

// relieve works until the limit is met or nothing more can be released.
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

// relief visits the shards of a table in rounds. In each round all shards shrink by the same
// factor, so that keys of about the same ranks are evicted in all shards. The first rounds spare
// small shards, and keys that have used more than half of their limit. After a round that changes
// nothing, the next rounds include the small shards. After another such round, they also include
// these keys.
type relief struct {
	table       *Table
	shard       int   // the next shard; 0 at the start of a round
	limit, used int64 // at the start of the round; each shard shrinks by the factor limit/used
	floor       int64 // no shard has to shrink below this number of bytes
	spare       int   // keys of this share class and above are not evicted
}

func newRelief(t *Table) relief { return relief{table: t, floor: minShard, spare: overHalf} }

// next reports whether there is work to do. It prepares the next round if the last one is complete.
func (r *relief) next() bool {
	m := &r.table.memory
	if !m.exceeded() {
		return false
	}
	if r.shard > 0 {
		return true
	}
	used := m.used.Load()
	if used == r.used && !r.press() { // the last round changed nothing
		return false
	}
	r.limit, r.used = m.limit.Load(), used
	return true
}

// press makes the next round evict more, and reports whether that is possible.
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

// work runs until the time slice is used up, the round is complete, or the limit is met.
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

// step processes one shard with its lock held, and reports whether the shard is done.
func (r *relief) step() (done bool) {
	s := &r.table.shards[r.shard]
	now := s.lock(r.table.clock())
	defer s.mu.Unlock()
	defer since(&s.shared.pauses.eviction, time.Now())
	size := s.bytes()
	return s.relieve(max(r.floor, int64(float64(size)*float64(r.limit)/float64(r.used))), r.spare, now)
}

// relieve reduces the memory of the shard to target bytes, or as far as possible. It does not evict
// keys whose share class is at least the argument spare. It returns false if it must be called
// again, because it has evicted the maximum for one call and the target is not reached.
func (s *shard) relieve(target int64, spare int, now uint64) (done bool) {
	if !s.mayEvict() {
		if held := s.bytes(); held-s.minBytes() >= held/worthTrim {
			s.trim()
		}
		return true
	}
	if excess := s.minBytes() - target; excess > 0 && s.live > 0 {
		part := float64(excess) / float64(s.minBytes())
		var c histogram
		c.countShares(s, now)
		if most := sum(c.shares[:spare]); most > 0 {
			s.evictBytes(&c, min(most, reliefBytes, 1+int(part*float64(s.liveBytes()))), now)
			if s.minBytes() > target {
				return false
			}
		}
	}
	s.trim()
	return true
}

// mayEvict reports whether keys can be evicted. On replicated tables only the leader evicts.
func (s *shard) mayEvict() bool {
	return s.shared.memory.evicting() == EvictSmallestDebt && (!s.replicated || s.recording())
}

// minBytes returns the bytes that the shard would take if it had no unused memory.
func (s *shard) minBytes() int64 {
	if s.live == 0 {
		return 0
	}
	return int64(indexSize(int(s.live)))*slotSize + int64(arenaSize(s.liveBytes()))
}

// trim releases unused memory of the shard.
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
