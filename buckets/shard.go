package buckets

import (
	"bytes"
	"math/bits"
	"sync"

	"github.com/throttledhq/throttled/limiter"
)

// slot is an index entry: the tag of a key in the upper half, and in the lower half
// the offset of its record in the arena plus one. Zero is an empty slot.
type slot uint64

const slotSize = 8

func newSlot(tag, offset uint32) slot { return slot(tag)<<32 | slot(offset+1) }

func (s slot) tag() uint32    { return uint32(s >> 32) }
func (s slot) offset() uint32 { return uint32(s) - 1 }

// shard is one lock and what it guards.
//
// The index is open addressed with linear probing. A key's home is given by the upper
// bits of its tag, so slots lie in the order of their tags but for what probing
// displaced: that is what lets Scan go on after the index has grown. Removal moves
// displaced slots back, so there are no tombstones. Removed and replaced records stay
// in the arena as dead bytes until it is compacted.
type shard struct {
	mu     sync.Mutex
	index  []slot // empty, or a power of two of slots
	arena  []byte
	live   int // records that the index points at
	dead   int // bytes of the arena that it does not point at
	memory *budget

	hits, misses, expired int64

	now       uint64 // the newest time seen
	reclaimAt uint64 // when to look for expired records to make room at the earliest

	_ [8]byte // a shard is two cache lines: neighbours do not slow each other down
}

// lock locks the shard, and returns the time that holds there: now, or the newest time
// that the shard has seen if that is later.
func (s *shard) lock(now uint64) uint64 {
	s.mu.Lock()
	s.now = max(s.now, now)
	return s.now
}

// record returns the record of the slot at index position at.
func (s *shard) record(at int) record {
	return record(s.arena[s.index[at].offset():])
}

// home returns where the probing for a tag begins.
func (s *shard) home(tag uint32) int {
	return int(uint64(tag) * uint64(len(s.index)) >> 32)
}

// find returns the index position of a key, if it is there.
func (s *shard) find(key []byte, tag uint32) (at int, found bool) {
	if len(s.index) == 0 {
		return 0, false
	}
	for at = s.home(tag); s.index[at] != 0; at = s.next(at) {
		if s.index[at].tag() == tag && bytes.Equal(s.record(at).key(), key) {
			return at, true
		}
	}
	return at, false
}

// next returns the position after at. The index has no end: after the last position comes
// the first.
func (s *shard) next(at int) int { return (at + 1) & (len(s.index) - 1) }

// insert adds a record for a key that is not there.
func (s *shard) insert(key []byte, tag uint32, kind limiter.Kind, tat, now uint64) error {
	if err := s.makeRoom(recordSize(len(key)), now); err != nil {
		return err
	}
	offset := uint32(len(s.arena))
	s.arena = appendRecord(s.arena, kind, tat, key)
	s.place(newSlot(tag, offset))
	s.live++
	return nil
}

// place puts a slot into the first empty place from its home on. There is one.
func (s *shard) place(sl slot) {
	at := s.home(sl.tag())
	for s.index[at] != 0 {
		at = s.next(at)
	}
	s.index[at] = sl
}

// remove takes the slot at a position out of the index, and closes the gap: each slot
// behind it that may lie in the gap without being cut off from its home moves there.
func (s *shard) remove(at int) {
	s.dead += s.record(at).size()
	s.live--
	for next := s.next(at); s.index[next] != 0; next = s.next(next) {
		if s.distance(s.home(s.index[next].tag()), next) >= s.distance(at, next) {
			s.index[at] = s.index[next]
			at = next
		}
	}
	s.index[at] = 0
}

// distance returns how many steps lead from one position to another.
func (s *shard) distance(from, to int) int { return (to - from) & (len(s.index) - 1) }

// clear drops all records and gives their memory back.
func (s *shard) clear() {
	s.memory.release(s.bytes())
	s.index, s.arena = nil, nil
	s.live, s.dead, s.reclaimAt = 0, 0, 0
}

// bytes returns the memory that the shard has allocated.
func (s *shard) bytes() int64 {
	return int64(len(s.index))*slotSize + int64(cap(s.arena))
}

// indexSize returns the size of an index that holds n slots with at most four in five
// places taken: probing stays short, and ends, as one place is always empty.
func indexSize(n int) int {
	return max(8, 1<<bits.Len(uint(n+n/4)))
}
