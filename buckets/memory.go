package buckets

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Eviction is the policy for new keys when the memory limit is reached and no expired records can
// be dropped to make room.
type Eviction int32

const (
	// NoEviction refuses new keys. Decisions on existing keys are not affected.
	NoEviction Eviction = iota
	// EvictSmallestDebt drops the keys with the smallest used share of their limit, and among keys
	// with the same share the keys with the least remaining time per byte of memory. A new key that
	// would itself be dropped first is refused.
	EvictSmallestDebt
)

// budget accounts for the memory of all shards and enforces the limit.
type budget struct {
	limit    atomic.Int64 // bytes; 0 means no limit
	eviction atomic.Int32 // an Eviction
	used     atomic.Int64
	peak     atomic.Int64
	evicted  atomic.Int64 // keys
}

// reserve adds n bytes to the used memory, unless n is positive and the used memory would exceed the
// limit. It reports whether the bytes were added.
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

// force adds n bytes to the used memory, regardless of the limit.
func (b *budget) force(n int64) { b.raisePeak(b.used.Add(n)) }

func (b *budget) raisePeak(used int64) {
	for peak := b.peak.Load(); used > peak && !b.peak.CompareAndSwap(peak, used); {
		peak = b.peak.Load()
	}
}

// exceeded reports whether the used memory is above the limit, for example because the limit was
// lowered.
func (b *budget) exceeded() bool {
	limit := b.limit.Load()
	return limit > 0 && b.used.Load() > limit
}

func (b *budget) evicting() Eviction { return Eviction(b.eviction.Load()) }

func (b *budget) release(n int64) { b.used.Add(-n) }

const (
	minArena  = 1 << 8
	maxArena  = math.MaxUint32 // the largest arena that a slot can address
	largeSize = 32 << 10       // above this size the runtime allocates whole pages
	pageSize  = 8 << 10

	// Minimum interval between two searches of a full shard for expired records, so that a flood of
	// new keys does not cause a search for each key. reclaimBusy applies if the records dropped by
	// the last search were more than 1/busyShare of the slots, reclaimQuiet otherwise. After a search
	// with few records, the interval until the search of another shard is reclaimQuiet divided by the
	// number of shards: the searches of all shards become due at about the same time, and one batch of
	// commands would run hundreds of them.
	reclaimBusy  = uint64(100 * time.Millisecond)
	reclaimQuiet = uint64(time.Second)
)

// bytes returns the number of bytes allocated by the shard.
func (s *shard) bytes() int64 {
	return int64(len(s.index))*slotSize + int64(cap(s.arena))
}

// liveBytes returns the number of arena bytes in use.
func (s *shard) liveBytes() int { return len(s.arena) - int(s.dead) }

// arenaSize rounds n up to a size class of the runtime, so that the counted size is the allocated
// size.
func arenaSize(n int) int {
	switch {
	case n <= minArena:
		return minArena
	case n <= largeSize:
		return 1 << bits.Len(uint(n-1))
	}
	return (n + pageSize - 1) &^ (pageSize - 1)
}

// demand is the memory needed to store some records.
type demand struct {
	records int
	size    int  // total bytes
	rank    rank // the lowest rank of these records
}

// demandOf returns the demand of one record.
func demandOf(rec *limiter.Record, now uint64) demand {
	size := recordSize(rec)
	return demand{records: 1, size: size, rank: rankOf(rec.Kind, gauge(rec.Gauge), rec.Expires, now, size)}
}

// hasRoom reports whether a demand fits without growth or compaction.
func (s *shard) hasRoom(d demand) bool {
	return indexSize(int(s.live)+d.records) <= len(s.index) && len(s.arena)+d.size <= cap(s.arena)
}

// makeRoom ensures that a demand fits. It drops expired records before it allocates memory:
// otherwise a shard full of expired records would grow at the expense of the other shards. If
// makeRoom fails, it has dropped only expired records.
//
// While the used memory exceeds the limit, makeRoom fails even if the shard has room, because
// RunRelief is going to release that room. This does not apply while the unlimited field of the
// shard is set.
func (s *shard) makeRoom(d demand, now uint64) error {
	if !s.unlimited && s.shared.memory.exceeded() {
		return limiter.ErrOutOfMemory
	}
	if s.hasRoom(d) {
		return nil
	}
	defer since(&s.shared.pauses.growth, time.Now())
	if now >= s.reclaimAt && s.shared.mayReclaim(now) {
		s.reclaim(now)
	}
	if s.grow(d) || s.shared.memory.evicting() == EvictSmallestDebt && s.evict(d, now) {
		return nil
	}
	return limiter.ErrOutOfMemory
}

// mayReclaim reports whether the search of a full shard for expired records may begin. If so, the interval until the next
// search of any shard has begun.
func (s *shared) mayReclaim(now uint64) bool {
	next := s.reclaimAt.Load()
	return now >= next && s.reclaimAt.CompareAndSwap(next, now+s.reclaimPause)
}

// reclaim drops expired records and sets the earliest time of the next call. If it drops many, another shard may be searched
// immediately: the keys of other shards have probably expired as well.
func (s *shard) reclaim(now uint64) {
	s.reclaimAt = now + reclaimQuiet
	if s.dropExpired(0, len(s.index), now)*busyShare > len(s.index) {
		s.reclaimAt = now + reclaimBusy
		s.shared.reclaimAt.Store(now)
	}
}

// grow makes room for a demand in the index and in the arena, and reports whether it succeeded. It
// compacts the arena if dead records take at least a quarter of it and at least the size of the
// demand. This amortizes the cost of moving records over many inserts. Otherwise grow allocates a
// larger arena: the needed size plus an eighth. If the memory limit does not allow that, grow allocates
// only the needed size. If the limit does not allow the needed size either, grow compacts the arena.
func (s *shard) grow(d demand) bool {
	if want := indexSize(int(s.live) + d.records); want > len(s.index) && !s.resizeIndex(want) {
		return false
	}
	if s.hasRoom(d) {
		return true
	}
	need := s.liveBytes() + d.size
	worth := int(s.dead) >= max(d.size, len(s.arena)/4)
	if worth || !s.resizeArena(need+need/8) && !s.resizeArena(need) {
		s.compact()
	}
	return s.hasRoom(d)
}

// reserve is like reserve of the budget, but if the field unlimited is set, it ignores the limit.
func (s *shard) reserve(n int64) bool {
	if s.unlimited {
		s.shared.memory.force(n)
		return true
	}
	return s.shared.memory.reserve(n)
}

// compact moves the live records to the start of the arena, in order. While compact runs, the first
// four bytes of the expiry time of a record hold the index position of its slot, and the lower half
// of the slot holds the original value of these bytes.
func (s *shard) compact() {
	if s.dead == 0 {
		return
	}
	defer since(&s.shared.pauses.compaction, time.Now())
	for at, sl := range s.index {
		if sl != 0 {
			rec := s.record(at)
			s.index[at] = slot(sl.tag())<<32 | slot(rec.swapExpiresLow(uint32(at)))
		}
	}
	to := 0
	for from := 0; from < len(s.arena); {
		rec := record(s.arena[from:])
		size := rec.size()
		if !rec.dead() {
			at := rec.swapExpiresLow(0)
			rec.swapExpiresLow(uint32(s.index[at]))
			s.index[at] = newSlot(s.index[at].tag(), uint32(to))
			to += copy(s.arena[to:], rec[:size])
		}
		from += size
	}
	s.arena, s.dead = s.arena[:to], 0
}

// resizeArena compacts the records into a new arena of at least n bytes, and reports whether the
// memory limit allows it.
func (s *shard) resizeArena(n int) bool {
	n = arenaSize(n)
	if int64(n) > maxArena || !s.reserve(int64(n-cap(s.arena))) {
		return false
	}
	s.compact()
	s.arena = append(make([]byte, 0, n), s.arena...)
	return true
}

// resizeIndex moves the slots to an index of n slots, and reports whether the memory limit allows
// it.
func (s *shard) resizeIndex(n int) bool {
	if !s.reserve(int64(n-len(s.index)) * slotSize) {
		return false
	}
	old := s.index
	s.index = make([]slot, n)
	s.hint().set(s.index)
	for _, sl := range old {
		if sl != 0 {
			s.place(sl)
		}
	}
	return true
}

// Reserve allocates memory for new keys, so that adding them does not move existing records. It
// takes the number of these keys and the total bytes of their records. Reserve does not exceed
// the memory limit. The sweeper releases unused memory later.
func (t *Table) Reserve(keys, bytes int64) {
	share := func(n int64) int { return int(n/int64(len(t.shards)) + n/int64(len(t.shards))/16) }
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		if want := indexSize(int(s.live) + share(keys)); want > len(s.index) {
			s.resizeIndex(want)
		}
		if want := len(s.arena) + share(bytes); want > cap(s.arena) {
			s.resizeArena(want)
		}
		s.mu.Unlock()
	}
}

// shrink releases memory if most of it is unused.
func (s *shard) shrink() {
	if s.live == 0 {
		s.clear()
		return
	}
	if want := indexSize(2 * int(s.live)); want <= len(s.index)/4 {
		s.resizeIndex(want)
	}
	if live := s.liveBytes(); cap(s.arena) > max(minArena, 4*live) {
		s.resizeArena(live + live/2)
	}
}

// clear drops all records and releases their memory.
func (s *shard) clear() {
	s.shared.memory.release(s.bytes())
	s.index, s.arena = nil, nil
	s.hint().set(nil)
	s.live, s.dead, s.reclaimAt = 0, 0, 0
	s.shared.leases.records[s.number] = 0
}
