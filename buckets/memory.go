package buckets

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Eviction says what gives way when the memory limit is reached and nothing has expired.
type Eviction int32

const (
	// NoEviction refuses new keys. Those that exist stay exact.
	NoEviction Eviction = iota
	// EvictSmallestDebt drops the keys that have used the least share of their limit, and of
	// those with the same share the keys that have the least time left for the memory that they
	// take. A new key that would itself be the first to be dropped is refused.
	EvictSmallestDebt
)

// budget counts the memory that all shards have allocated, and refuses more than the
// limit.
type budget struct {
	limit    atomic.Int64 // bytes; 0: none
	eviction atomic.Int32 // an Eviction
	used     atomic.Int64
	peak     atomic.Int64
	evicted  atomic.Int64 // keys
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

// force adds n bytes to what is used, whatever the limit.
func (b *budget) force(n int64) { b.raisePeak(b.used.Add(n)) }

func (b *budget) raisePeak(used int64) {
	for peak := b.peak.Load(); used > peak && !b.peak.CompareAndSwap(peak, used); {
		peak = b.peak.Load()
	}
}

// exceeded reports whether more is used than the limit, as after that was lowered.
func (b *budget) exceeded() bool {
	limit := b.limit.Load()
	return limit > 0 && b.used.Load() > limit
}

func (b *budget) evicting() Eviction { return Eviction(b.eviction.Load()) }

func (b *budget) release(n int64) { b.used.Add(-n) }

const (
	minArena  = 1 << 8
	maxArena  = math.MaxUint32 // what a slot can point at
	largeSize = 32 << 10       // from here on the runtime hands out whole pages
	pageSize  = 8 << 10

	// A shard that is full waits before it looks through its records again, so that a
	// flood of new keys does not cost a search each: longer if little was found.
	reclaimBusy  = uint64(100 * time.Millisecond)
	reclaimQuiet = uint64(time.Second)
)

// bytes returns the memory that the shard has allocated.
func (s *shard) bytes() int64 {
	return int64(len(s.index))*slotSize + int64(cap(s.arena))
}

// liveBytes returns the part of the arena that is in use.
func (s *shard) liveBytes() int { return len(s.arena) - int(s.dead) }

// arenaSize rounds the size of an arena up to one that the runtime hands out, so that what
// is counted is what is allocated.
func arenaSize(n int) int {
	switch {
	case n <= minArena:
		return minArena
	case n <= largeSize:
		return 1 << bits.Len(uint(n-1))
	}
	return (n + pageSize - 1) &^ (pageSize - 1)
}

// demand is what has to be made room for.
type demand struct {
	records int
	size    int  // of all of them
	rank    rank // of the one that would be the first to be evicted
}

// demandOf returns the demand of one record.
func demandOf(rec *limiter.Record, now uint64) demand {
	size := recordSize(rec)
	return demand{records: 1, size: size, rank: rankOf(rec.Kind, gauge(rec.Gauge), rec.Expires, now, size)}
}

// hasRoom reports whether a demand can be met as things are.
func (s *shard) hasRoom(d demand) bool {
	return indexSize(int(s.live)+d.records) <= len(s.index) && len(s.arena)+d.size <= cap(s.arena)
}

// makeRoom sees that a demand can be met. Expired records give their room back before more
// memory is taken: otherwise a shard that is full of them would grow at the expense of the
// others. If there is no room, nothing but they is gone from this shard.
//
// While the limit is exceeded nothing is added, even where a shard has room: that room is to be
// given back.
func (s *shard) makeRoom(d demand, now uint64) error {
	if !s.unlimited && s.shared.memory.exceeded() {
		return limiter.ErrOutOfMemory
	}
	if s.hasRoom(d) {
		return nil
	}
	defer since(&s.shared.pauses.growth, time.Now())
	if now >= s.reclaimAt {
		s.reclaim(now)
	}
	if s.grow(d) || s.shared.memory.evicting() == EvictSmallestDebt && s.evict(d, now) {
		return nil
	}
	return limiter.ErrOutOfMemory
}

// reclaim drops what has expired, and sets when to do so again.
func (s *shard) reclaim(now uint64) {
	s.reclaimAt = now + reclaimQuiet
	if s.dropExpired(0, len(s.index), now)*worthIt > len(s.index) {
		s.reclaimAt = now + reclaimBusy
	}
}

// grow makes room for a demand, and reports whether there is. The room of dead
// records comes first if it is a quarter of the arena, so that the work of moving the
// others is shared by many inserts; then more memory, by an eighth at a time; and where
// that is refused the room of the dead records whatever it is.
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

// reserve adds n bytes to what is used, unless the memory limit counts and does not allow it.
func (s *shard) reserve(n int64) bool {
	if s.unlimited {
		s.shared.memory.force(n)
		return true
	}
	return s.shared.memory.reserve(n)
}

// compact moves the live records to the beginning of the arena, in their order. For that
// time each record and its slot exchange four bytes: the record says where its slot is,
// and the slot keeps what stood in the record.
func (s *shard) compact() {
	if s.dead == 0 {
		return
	}
	defer since(&s.shared.pauses.compaction, time.Now())
	for at, sl := range s.index {
		if sl != 0 {
			rec := s.record(at)
			s.index[at] = slot(sl.tag())<<32 | slot(rec.swap(uint32(at)))
		}
	}
	to := 0
	for from := 0; from < len(s.arena); {
		rec := record(s.arena[from:])
		size := rec.size()
		if !rec.dead() {
			at := rec.swap(0)
			rec.swap(uint32(s.index[at]))
			s.index[at] = newSlot(s.index[at].tag(), uint32(to))
			to += copy(s.arena[to:], rec[:size])
		}
		from += size
	}
	s.arena, s.dead = s.arena[:to], 0
}

// resizeArena compacts the records into an arena with room for so many bytes, and reports
// whether the memory limit allows it.
func (s *shard) resizeArena(n int) bool {
	n = arenaSize(n)
	if int64(n) > maxArena || !s.reserve(int64(n-cap(s.arena))) {
		return false
	}
	s.compact()
	s.arena = append(make([]byte, 0, n), s.arena...)
	return true
}

// resizeIndex moves the slots to an index of n places, and reports whether the memory
// limit allows it.
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

// Reserve makes room for so many keys whose records take so many bytes together, as far as
// the memory limit allows: keys that come after that need not move those before them. Room
// that is not used is given back in time.
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

// shrink returns memory when most of it is no longer in use.
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

// clear drops all records and gives their memory back.
func (s *shard) clear() {
	s.shared.memory.release(s.bytes())
	s.index, s.arena = nil, nil
	s.hint().set(nil)
	s.live, s.dead, s.reclaimAt = 0, 0, 0
}
