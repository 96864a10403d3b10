package buckets

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// budget counts the memory that all shards have allocated, and refuses more than the
// limit.
type budget struct {
	limit atomic.Int64 // bytes; 0: none
	used  atomic.Int64
	peak  atomic.Int64
}

// reserve adds n bytes to what is used, unless the limit does not allow it.
func (b *budget) reserve(n int64) bool {
	for {
		used := b.used.Load()
		if limit := b.limit.Load(); n > 0 && limit > 0 && used+n > limit {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			b.raisePeak(used + n)
			return true
		}
	}
}

func (b *budget) raisePeak(used int64) {
	for peak := b.peak.Load(); used > peak && !b.peak.CompareAndSwap(peak, used); {
		peak = b.peak.Load()
	}
}

func (b *budget) release(n int64) { b.used.Add(-n) }

const (
	minArena = 1 << 10
	maxArena = math.MaxUint32 // what a slot can point at

	// A shard that is full waits before it looks through its records again, so that a
	// flood of new keys does not cost a search each: longer if little was found.
	reclaimBusy  = uint64(100 * time.Millisecond)
	reclaimQuiet = uint64(time.Second)
)

// makeRoom sees that one more record of size bytes fits into arena and index. Expired
// records give their room back before more memory is taken: otherwise a shard that is
// full of them would grow at the expense of the others.
func (s *shard) makeRoom(size int, now uint64) error {
	if indexSize(s.live+1) <= len(s.index) && len(s.arena)+size <= cap(s.arena) {
		return nil
	}
	if now >= s.reclaimAt {
		s.reclaim(now)
	}
	if !s.grow(size) {
		return limiter.ErrOutOfMemory
	}
	return nil
}

// reclaim drops what has expired, and sets when to do so again.
func (s *shard) reclaim(now uint64) {
	s.reclaimAt = now + reclaimQuiet
	if s.dropExpired(0, len(s.index), now)*worthIt > len(s.index) {
		s.reclaimAt = now + reclaimBusy
	}
}

// grow makes room for one more record, and reports whether there is. A new arena has
// slack in proportion, so that the work of moving the records is shared by many inserts;
// near the memory limit an eighth must do. What takes no more memory than there is
// already is always allowed, and that is how the room of dead records is won back.
func (s *shard) grow(size int) bool {
	if want := indexSize(s.live + 1); want > len(s.index) && !s.resizeIndex(want) {
		return false
	}
	if len(s.arena)+size <= cap(s.arena) {
		return true
	}
	need := s.liveBytes() + size
	return s.compact(max(minArena, need+need/2)) || s.compact(need+need/8)
}

// liveBytes returns the part of the arena that is in use.
func (s *shard) liveBytes() int { return len(s.arena) - s.dead }

// compact moves the live records to an arena of the given capacity, and reports
// whether the memory limit allows it.
func (s *shard) compact(capacity int) bool {
	if int64(capacity) > maxArena || !s.memory.reserve(int64(capacity-cap(s.arena))) {
		return false
	}
	arena := make([]byte, 0, capacity)
	for at, sl := range s.index {
		if sl == 0 {
			continue
		}
		rec := s.record(at)
		s.index[at] = newSlot(sl.tag(), uint32(len(arena)))
		arena = append(arena, rec[:rec.size()]...)
	}
	s.arena, s.dead = arena, 0
	return true
}

// resizeIndex moves the slots to an index of n places, and reports whether the memory
// limit allows it.
func (s *shard) resizeIndex(n int) bool {
	if !s.memory.reserve(int64(n-len(s.index)) * slotSize) {
		return false
	}
	old := s.index
	s.index = make([]slot, n)
	for _, sl := range old {
		if sl != 0 {
			s.place(sl)
		}
	}
	return true
}

// shrink returns memory when most of it is no longer in use.
func (s *shard) shrink() {
	if s.live == 0 {
		s.clear()
		return
	}
	if want := indexSize(2 * s.live); want <= len(s.index)/4 {
		s.resizeIndex(want)
	}
	if live := s.liveBytes(); cap(s.arena) > max(minArena, 4*live) {
		s.compact(max(minArena, live+live/2))
	}
}
