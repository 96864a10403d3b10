package buckets

import (
	"bytes"
	"math/bits"
	"sync"

	"github.com/throttledhq/throttled/limiter"
)

// slot is an index entry. The upper half is the tag of a key; the lower half is the offset of its
// record in the arena plus one. Zero is an empty slot.
type slot uint64

const slotSize = 8

func newSlot(tag, offset uint32) slot { return slot(tag)<<32 | slot(offset+1) }

func (s slot) tag() uint32    { return uint32(s >> 32) }
func (s slot) offset() uint32 { return uint32(s) - 1 }

// shard is a part of the table with its own lock.
//
// The index is an open-addressing hash table with linear probing. Probing for a key starts at its
// home, which is determined by the upper bits of its tag. Slots are therefore in the order of their
// tags, except for slots displaced by probing. Scan depends on this order to continue after the index
// has grown. Removal moves displaced slots back, so there are no tombstones. Removed and replaced
// records are marked as dead, and keep their place and length in the arena until it is compacted. An
// arena can therefore also be read sequentially, record by record.
type shard struct {
	mu     sync.Mutex
	index  []slot // the length is 0 or a power of two
	arena  []byte
	live   uint32 // records referenced by the index
	dead   uint32 // bytes of dead records in the arena
	shared *shared

	number     uint32      // of the shard
	replicated bool        // the shard has an undo log
	unlimited  bool        // the memory limit does not apply at present
	gaugeless  bool        // decisions store no gauges
	leases     LeaseFormat // of the leases that are granted

	hits, misses, expired, changes int64

	now       uint64 // the time of the shard: the latest time of its batches
	reclaimAt uint64 // earliest time of the next search for expired records
}

// lock locks the shard and returns the time for operations on it: the later of now and the time of the
// shard.
func (s *shard) lock(now uint64) uint64 {
	s.mu.Lock()
	if s.replicated {
		return max(s.now, now) // does not advance s.now: on a leader, the advance method does that
	}
	s.now = max(s.now, now)
	return s.now
}

// record returns the record to which the slot at an index position refers.
func (s *shard) record(at int) record {
	return record(s.arena[s.index[at].offset():])
}

// home returns the index position where probing for a tag starts.
func (s *shard) home(tag uint32) int { return home(tag, len(s.index)) }

// home returns the position where probing for a tag starts in an index of n slots.
func home(tag uint32, n int) int { return int(uint64(tag) * uint64(n) >> 32) }

// find returns the index position of a key, and reports whether the key is present.
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

// next returns the index position after the given one. It wraps around at the end of the index.
func (s *shard) next(at int) int { return (at + 1) & (len(s.index) - 1) }

// decide executes one request.
func (s *shard) decide(req *limiter.Request, tag uint32, now uint64, sc *scratch, out *limiter.Decision) {
	at, found, old, err := s.state(req, tag, now)
	s.count(&old)
	if err != nil || req.Draw != nil {
		s.decideLeased(s.placed(at, found, req, old), req, tag, now, sc, out)
		return
	}
	var change limiter.Change
	compute(req, &old, now, sc.room[:0], &change, out)
	switch {
	case change.Set && stores(req, out):
		if err := s.apply(at, found, req, &change, s.gaugeOf(req, out), tag, now); err != nil {
			*out = limiter.Decision{Err: err}
		}
	case found && old.Expires == 0 && s.droppable(at, now):
		s.drop(at) // the record has expired, and its position is known
	}
}

// stores reports whether the change of a decision is stored. The change of a refused request only converts the state to a
// changed limit, so that of a refused trial is stored too.
func stores(req *limiter.Request, d *limiter.Decision) bool { return !req.Trial || d.Limited }

// state looks up the key of a request. It returns the index position if a record is found, and the
// state, which is the zero State if the key is absent or expired. The error is a
// limiter.WrongKindError if the record is live and has another kind, such as that of a key with leases.
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
		err = limiter.WrongKindError(rec.kind())
	}
	return at, found, limiter.State{Expires: rec.expires(), Data: rec.state()}, err
}

// count counts a hit if old is the state of a live key, and a miss otherwise.
func (s *shard) count(old *limiter.State) {
	if old.Expires > 0 {
		s.hits++
	} else {
		s.misses++
	}
}

// apply stores the change of a key. If found is true, the key has a record at index position at. A
// state that has expired is not stored; an existing record is then removed.
func (s *shard) apply(at int, found bool, req *limiter.Request, c *limiter.Change, g gauge, tag uint32, now uint64) error {
	switch {
	case c.Expires <= now:
		if found {
			s.removeKey(at, now)
		}
		return nil
	case found && s.fits(at, req.Kind, c):
		s.overwrite(at, c, g, now)
		return nil
	case c.Keep > 0:
		panic("buckets: a change with Keep must not change the kind or the length of the state")
	}
	rec := limiter.Record{Kind: req.Kind, Key: req.Key, Expires: c.Expires, State: c.Tail, Gauge: byte(g)}
	return s.replace(&rec, tag, now)
}

// fits reports whether the new state can overwrite the record of the same key at an index position.
func (s *shard) fits(at int, kind limiter.Kind, c *limiter.Change) bool {
	old := s.record(at)
	return old.kind() == kind && (kind == limiter.Throttle || len(old.state()) == c.Keep+len(c.Tail))
}

// overwrite writes a change that fits the record at an index position (see fits).
func (s *shard) overwrite(at int, c *limiter.Change, g gauge, now uint64) {
	s.countExpired(at, now)
	if s.replicated {
		s.saveOld(at, c.Keep)
	}
	s.record(at).overwrite(c, g)
	s.changes++
}

// put stores a record in place of any existing record of its key. If the record has expired, put
// deletes the key instead.
func (s *shard) put(rec *limiter.Record, tag uint32, now uint64) error {
	at, found := s.find(rec.Key, tag)
	change := limiter.Change{Expires: rec.Expires, Tail: rec.State}
	return s.apply(at, found, &limiter.Request{Kind: rec.Kind, Key: rec.Key}, &change, gauge(rec.Gauge), tag, now)
}

// replace adds a record in place of any existing record of its key. If there is no room, the old
// record stays.
func (s *shard) replace(rec *limiter.Record, tag uint32, now uint64) error {
	if err := s.makeRoom(demandOf(rec, now), now); err != nil {
		return err
	}
	if at, found := s.find(rec.Key, tag); found { // making room may have moved the slot
		s.countExpired(at, now)
		s.saveOld(at, 0)
		s.remove(at)
	} else {
		s.saveAbsent(rec.Key, tag)
	}
	s.add(rec, tag)
	s.changes++
	return nil
}

// removeKey removes a key. If the key is live, the removal counts as a change.
func (s *shard) removeKey(at int, now uint64) {
	if !s.countExpired(at, now) {
		s.changes++
	}
	s.saveOld(at, 0)
	s.remove(at)
}

// drop removes an expired key whose record is droppable (see droppable).
func (s *shard) drop(at int) {
	s.remove(at)
	s.expired++
}

// countExpired reports whether the record has expired, and counts it if so.
func (s *shard) countExpired(at int, now uint64) bool {
	expired := s.record(at).expires() <= now
	if expired {
		s.expired++
	}
	return expired
}

// add adds a record for an absent key. The caller has made room.
func (s *shard) add(rec *limiter.Record, tag uint32) {
	offset := uint32(len(s.arena))
	s.arena = appendRecord(s.arena, rec)
	if s.recording() {
		s.arena[offset] |= savedFlag
	}
	s.countLeased(record(s.arena[offset:]), 1)
	s.place(newSlot(tag, offset))
	s.live++
}

// place stores a slot at the first empty position from its home on. The index must have at least
// one empty position.
func (s *shard) place(sl slot) {
	at := s.home(sl.tag())
	for s.index[at] != 0 {
		at = s.next(at)
	}
	s.index[at] = sl
}

// remove marks the record at an index position as dead, removes its slot and closes the gap: each
// following slot moves into the gap, unless the gap is before the home of the slot.
func (s *shard) remove(at int) {
	rec := s.record(at)
	s.dead += uint32(rec.size())
	s.countLeased(rec, -1)
	rec.kill()
	if rec[0]&savedFlag != 0 {
		s.undoLog().removed = true
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

// distance returns the number of steps from one position to another.
func (s *shard) distance(from, to int) int { return (to - from) & (len(s.index) - 1) }

// indexSize returns the size of an index for n slots with a load factor of at most 4/5. Probing
// stays short, and terminates because at least one slot is empty.
func indexSize(n int) int {
	return max(8, 1<<bits.Len(uint(n+n/4)))
}
