package buckets

import (
	"bytes"
	"math/bits"
	"sync"

	"github.com/throttledhq/throttled/gcra"
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
// displaced slots back, so there are no tombstones. Records that are removed or replaced
// stay in the arena, marked as dead, until it is compacted; so an arena can also be read
// from its beginning to its end.
type shard struct {
	mu     sync.Mutex
	index  []slot // empty, or a power of two of slots
	arena  []byte
	live   uint32 // records that the index points at
	dead   uint32 // bytes of the arena that it does not point at
	shared *shared
	hint   *hint // where the index lies, for those who have not locked the shard

	hits, misses, expired, changes int64

	now       uint64 // the newest time seen
	reclaimAt uint64 // when to look for expired records to make room at the earliest
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
func (s *shard) home(tag uint32) int { return home(tag, len(s.index)) }

// home returns where the probing for a tag begins in an index of n slots.
func home(tag uint32, n int) int { return int(uint64(tag) * uint64(n) >> 32) }

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

// decide carries out one request.
func (s *shard) decide(req *limiter.Request, tag uint32, now uint64, out *limiter.Decision) {
	at, found := s.find(req.Key, tag)
	var tat uint64
	if found {
		tat = s.record(at).expires()
	}
	if tat > now {
		s.hits++
		if s.record(at).kind() != req.Kind {
			*out = limiter.Decision{Err: limiter.ErrWrongKind}
			return
		}
	} else {
		s.misses++
	}
	newTAT, d := gcra.Decide(req.Limit, tat, now, req.Quantity)
	switch {
	case newTAT > now && newTAT == tat:
		// Refused, or only asked.
	case newTAT > now:
		rec := limiter.Record{Kind: req.Kind, Key: req.Key, Expires: newTAT}
		if err := s.store(at, found, &rec, tag, now); err != nil {
			d = limiter.Decision{Err: err}
		}
	case found:
		s.forget(at, now)
	default:
		// A key at rest is an absent key.
	}
	*out = d
}

// put stores a record over what there is under its key. One whose time has passed takes
// its key away.
func (s *shard) put(rec *limiter.Record, tag uint32, now uint64) error {
	at, found := s.find(rec.Key, tag)
	if rec.Expires > now {
		return s.store(at, found, rec, tag, now)
	}
	if found {
		s.forget(at, now)
	}
	return nil
}

// store writes a record for a key that lies at an index position, if it is found. If there
// is no room, what there was stays.
func (s *shard) store(at int, found bool, rec *limiter.Record, tag uint32, now uint64) error {
	if found && s.fits(at, rec) {
		s.countExpired(at, now)
		s.record(at).overwrite(rec)
		s.changes++
		return nil
	}
	if err := s.makeRoom(rec, now); err != nil {
		return err
	}
	if at, found = s.find(rec.Key, tag); found { // making room moves slots
		s.countExpired(at, now)
		s.remove(at)
	}
	s.add(rec, tag)
	s.changes++
	return nil
}

// fits reports whether a record can be written over another one of the same key.
func (s *shard) fits(at int, rec *limiter.Record) bool {
	old := s.record(at)
	return old.kind() == rec.Kind && (rec.Kind == limiter.Throttle || len(old.state()) == len(rec.State))
}

// forget removes a key, which changes its state if it was live.
func (s *shard) forget(at int, now uint64) {
	if !s.countExpired(at, now) {
		s.changes++
	}
	s.remove(at)
}

// countExpired counts a record that is about to go if its time has passed.
func (s *shard) countExpired(at int, now uint64) bool {
	expired := s.record(at).expires() <= now
	if expired {
		s.expired++
	}
	return expired
}

// add adds a record for a key that is not there, where there is room.
func (s *shard) add(rec *limiter.Record, tag uint32) {
	offset := uint32(len(s.arena))
	s.arena = appendRecord(s.arena, rec)
	s.place(newSlot(tag, offset))
	s.live++
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
	rec := s.record(at)
	s.dead += uint32(rec.size())
	rec.kill()
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

// indexSize returns the size of an index that holds n slots with at most four in five
// places taken: probing stays short, and ends, as one place is always empty.
func indexSize(n int) int {
	return max(8, 1<<bits.Len(uint(n+n/4)))
}
