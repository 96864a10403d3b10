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

	number    uint32 // of the shard
	journaled bool   // it has a journal (see journal)
	unlimited bool   // the memory limit does not count at present
	gaugeless bool   // decisions store no gauges

	hits, misses, expired, changes int64

	now       uint64 // the newest time seen
	reclaimAt uint64 // when to look for expired records to make room at the earliest
}

// lock locks the shard, and returns the time that holds there: now, or the newest time
// that the shard has seen if that is later.
func (s *shard) lock(now uint64) uint64 {
	s.mu.Lock()
	if s.journaled {
		return max(s.now, now) // only who may decide moves the time (see enter)
	}
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
func (s *shard) decide(req *limiter.Request, tag uint32, now uint64, d *desk, out *limiter.Decision) {
	at, found, old, err := s.state(req, tag, now)
	s.count(&old)
	if err != nil {
		*out = limiter.Decision{Err: err}
		return
	}
	var change limiter.Change
	if req.Kind == limiter.Throttle {
		// What most requests ask for takes the straight way: through the table, with what is
		// copied for it, a decision takes a fifth longer.
		change.Expires, *out = gcra.Decide(req.Limit, old.Expires, now, req.Quantity)
		change.Set = change.Expires != old.Expires
	} else {
		change, *out = algorithms[req.Kind](&req.Limit, old, now, req.Quantity, d.room[:0])
	}
	switch {
	case change.Set:
		if err := s.apply(at, found, req, &change, s.gaugeOf(req, out), tag, now); err != nil {
			*out = limiter.Decision{Err: err}
		}
	case found && old.Expires == 0 && s.droppable(at, now):
		s.drop(at) // its time has passed, and it is in sight
	}
}

// state returns the state of a request's key, the zero State if it is absent or its time has
// passed, and where it lies, if it is found. The error is limiter.ErrWrongKind.
func (s *shard) state(req *limiter.Request, tag uint32, now uint64) (at int, found bool, old limiter.State, err error) {
	at, found = s.find(req.Key, tag)
	if !found {
		return at, found, old, nil
	}
	rec := s.record(at)
	if rec.expires() <= now {
		return at, found, old, nil
	}
	if rec.kind() != req.Kind {
		err = limiter.ErrWrongKind
	}
	return at, found, limiter.State{Expires: rec.expires(), Data: rec.state()}, err
}

// count counts that a request has found its key in a state.
func (s *shard) count(old *limiter.State) {
	if old.Expires > 0 {
		s.hits++
	} else {
		s.misses++
	}
}

// apply stores what a decision has made of the state of a key that lies at an index
// position, if it is found. A key at rest is not stored.
func (s *shard) apply(at int, found bool, req *limiter.Request, c *limiter.Change, g gauge, tag uint32, now uint64) error {
	switch {
	case c.Expires <= now:
		if found {
			s.forget(at, now)
		}
		return nil
	case found && s.fits(at, req.Kind, c):
		s.overwrite(at, c, g, now)
		return nil
	case c.Keep > 0:
		panic("buckets: a state that keeps its beginning has another length")
	}
	rec := limiter.Record{Kind: req.Kind, Key: req.Key, Expires: c.Expires, State: c.Tail, Gauge: byte(g)}
	return s.replace(&rec, tag, now)
}

// fits reports whether what a decision has made of a state can be written over the record of
// the same key that lies at an index position.
func (s *shard) fits(at int, kind limiter.Kind, c *limiter.Change) bool {
	old := s.record(at)
	return old.kind() == kind && (kind == limiter.Throttle || len(old.state()) == c.Keep+len(c.Tail))
}

// overwrite writes what fits.
func (s *shard) overwrite(at int, c *limiter.Change, g gauge, now uint64) {
	s.countExpired(at, now)
	if s.journaled {
		s.remember(at, c.Keep)
	}
	s.record(at).overwrite(c, g)
	s.changes++
}

// put stores a record over what there is under its key. One whose time has passed takes
// its key away.
func (s *shard) put(rec *limiter.Record, tag uint32, now uint64) error {
	at, found := s.find(rec.Key, tag)
	change := limiter.Change{Expires: rec.Expires, Tail: rec.State}
	return s.apply(at, found, &limiter.Request{Kind: rec.Kind, Key: rec.Key}, &change, gauge(rec.Gauge), tag, now)
}

// replace adds a record in the place of what there is under its key. If there is no room,
// what there was stays.
func (s *shard) replace(rec *limiter.Record, tag uint32, now uint64) error {
	if err := s.makeRoom(demandOf(rec, now), now); err != nil {
		return err
	}
	if at, found := s.find(rec.Key, tag); found { // where making room has left it
		s.countExpired(at, now)
		s.remember(at, 0)
		s.remove(at)
	} else {
		s.rememberAbsent(rec.Key, tag)
	}
	s.add(rec, tag)
	s.changes++
	return nil
}

// forget removes a key, which changes its state if it was live.
func (s *shard) forget(at int, now uint64) {
	if !s.countExpired(at, now) {
		s.changes++
	}
	s.remember(at, 0)
	s.remove(at)
}

// drop removes a key whose time has passed, which nobody will miss (see droppable).
func (s *shard) drop(at int) {
	s.remove(at)
	s.expired++
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
	if s.journaling() {
		s.arena[offset] |= notedFlag
	}
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
	if rec[0]&notedFlag != 0 {
		s.journal().gone = true
	}
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
