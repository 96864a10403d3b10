package buckets

import (
	"bytes"

	"github.com/throttledhq/throttled/limiter"
)

// undoLog holds the previous states of the keys of a shard that have changed in uncommitted
// generations. It is also the source of the changes that Collect returns. The lock of the shard guards it.
//
// The first change of a key in a generation adds an entry with the previous state of the key. To
// restore the state at the end of a generation, all later entries are undone, newest first.
type undoLog struct {
	epoch     uint64 // the epoch in which the shard decides; 0 on a follower
	collected uint64 // the latest generation in which changes of the shard were collected
	dirty     bool   // the shard has changed since its changes were last collected
	removed   bool   // a key that changed in the open generation was removed, so an absent key may have an entry

	entries []entry
	bytes   []byte // the records of the entries, concatenated
	closed  []mark // the closed generations that have entries, in order
	images  []image
}

// entry is the previous state of one key, or marks that the shard was cleared. If the key was
// absent, the kind of the record in undoLog.bytes is 0.
type entry struct {
	tag  uint32
	from uint32 // size of the unchanged prefix of the key's state; the record holds only the rest
	at   int    // offset of the record in undoLog.bytes, or the constant cleared
}

// cleared is the value of entry.at if the entry marks that the shard was cleared.
const cleared = -1

// mark is the end of a closed generation: the number of the generation, and the number of undo entries of this
// generation and earlier ones.
type mark struct {
	generation uint64
	entries    int
}

// image is the content of a shard before it was cleared.
type image struct {
	index      []slot
	arena      []byte
	live, dead uint32
	leased     uint32 // records with leases
}

const (
	// minTailed is the minimum size of a state for which only the changed tail is recorded and
	// sent, if the tail is at most half of the state.
	minTailed = 128
	// lookBack is the maximum number of entries that find searches if the key may have no entry.
	lookBack = 64
	// keepBytes is the maximum capacity of undoLog.bytes that is retained if there are no entries.
	keepBytes = 4 << 10
)

func worthTail(keep, size int) bool { return size >= minTailed && keep >= size/2 }

func (s *shard) hint() *hint { return &s.shared.hints[s.number] }

func (s *shard) undoLog() *undoLog { return &s.shared.undoLogs[s.number] }

// recording reports whether changes are recorded in the undo log, as on the leader.
func (s *shard) recording() bool { return s.replicated && s.undoLog().epoch != 0 }

// advance reports whether the shard decides in the given epoch. If so, it advances the time of the
// shard to now.
func (s *shard) advance(epoch, now uint64) bool {
	if epoch == 0 || s.undoLog().epoch != epoch {
		return false
	}
	s.now = max(s.now, now)
	return true
}

// generation returns the latest uncommitted generation with changes of the shard, or 0 if the content of the shard is
// committed. While a generation is being closed, the result may be one too high (see generationOf).
func (s *shard) generation() uint64 {
	u := s.undoLog()
	switch {
	case u.dirty:
		return s.shared.generationOf(s.number)
	case u.collected > s.shared.committed.Load():
		return u.collected
	}
	return 0
}

// droppableUntil returns the time until which expired records may be dropped permanently.
func (s *shard) droppableUntil(now uint64) uint64 {
	if !s.replicated {
		return now
	}
	return min(now, s.shared.settled.Load())
}

// droppable reports whether a record can be dropped without a replicated change: it has expired, no node will decide
// at a time before its expiry, and no entry of the undo log depends on its state.
func (s *shard) droppable(at int, now uint64) bool {
	rec := s.record(at)
	if rec.expires() > s.droppableUntil(now) {
		return false
	}
	return !s.replicated || len(rec.state()) < minTailed || !s.undoLog().hasTail(s.index[at].tag())
}

// saveOld records the current state of the record at an index position, before the caller changes
// or removes the record. The caller leaves a prefix of the state unchanged. The argument keep is the
// size of this prefix.
func (s *shard) saveOld(at, keep int) {
	if !s.recording() {
		return
	}
	rec := s.record(at)
	if rec[0]&(savedFlag|tailFlag) == savedFlag {
		return
	}
	s.saveRecord(rec, s.index[at].tag(), keep)
}

// saveRecord adds an entry for a record, unless the open generation has a tail entry that already
// covers the change. A tail entry omits the unchanged prefix of the state. The new entry holds the
// whole record if a tail entry would save too little (see worthTail), or if the open generation has
// a tail entry that does not cover the change.
func (s *shard) saveRecord(rec record, tag uint32, keep int) {
	u := s.undoLog()
	s.touch()
	hasTailEntry := rec[0]&tailFlag != 0
	switch {
	case hasTailEntry && keep >= u.tailFrom(rec.key(), tag):
	case !hasTailEntry && worthTail(keep, len(rec.state())):
		tail := rec.whole()
		tail.State = tail.State[keep:]
		u.add(&tail, entry{tag: tag, from: uint32(keep)})
		rec[0] |= savedFlag | tailFlag
	default:
		whole := rec.whole()
		u.add(&whole, entry{tag: tag})
		rec[0] = rec[0]&^tailFlag | savedFlag
	}
}

// saveAbsent records that a key is absent, before the caller adds it.
func (s *shard) saveAbsent(key []byte, tag uint32) {
	if !s.recording() {
		return
	}
	s.touch()
	if u := s.undoLog(); !u.removed || u.find(key, tag, lookBack) < 0 {
		u.add(&limiter.Record{Key: key}, entry{tag: tag})
	}
}

// saveAll records the content of the shard, before the caller clears it.
func (s *shard) saveAll() {
	if !s.recording() {
		return
	}
	s.touch()
	u := s.undoLog()
	u.entries = append(u.entries, entry{at: cleared})
	u.images = append(u.images, image{s.index, s.arena, s.live, s.dead, s.shared.leases.records[s.number]})
}

// touch marks the shard as changed in the open generation.
func (s *shard) touch() {
	if u := s.undoLog(); !u.dirty {
		u.trim(s.shared.committed.Load())
		u.dirty = true
		s.shared.mark(s.number)
	}
}

// add appends an entry and its record.
func (u *undoLog) add(rec *limiter.Record, e entry) {
	e.at = len(u.bytes)
	u.bytes = appendRecord(u.bytes, rec)
	u.entries = append(u.entries, e)
}

// record returns the record of an entry, without the bytes that follow it.
func (u *undoLog) record(e *entry) record {
	rec := record(u.bytes[e.at:])
	return rec[:rec.size()]
}

// opened returns the index of the first entry of the open generation.
func (u *undoLog) opened() int {
	if len(u.closed) == 0 {
		return 0
	}
	return u.closed[len(u.closed)-1].entries
}

// find returns the index of the newest entry of a key in the open generation, or -1. It searches only
// the newest entries: at most as many as the argument last.
func (u *undoLog) find(key []byte, tag uint32, last int) int {
	for i := len(u.entries) - 1; i >= max(u.opened(), len(u.entries)-last); i-- {
		e := &u.entries[i]
		if e.tag == tag && e.at != cleared && bytes.Equal(u.record(e).key(), key) {
			return i
		}
	}
	return -1
}

// tailFrom returns the from field of the newest entry of a key in the open generation. The entry must
// exist.
func (u *undoLog) tailFrom(key []byte, tag uint32) int {
	return int(u.entries[u.find(key, tag, len(u.entries))].from)
}

// hasTail reports whether an entry with the given tag holds only the tail of a state. Undoing such an
// entry needs the current record of the key.
func (u *undoLog) hasTail(tag uint32) bool {
	for i := range u.entries {
		if e := &u.entries[i]; e.tag == tag && e.from > 0 {
			return true
		}
	}
	return false
}

// until returns the number of entries of the given generation and all earlier ones.
func (u *undoLog) until(generation uint64) (end int) {
	for _, m := range u.closed {
		if m.generation <= generation {
			end = m.entries
		}
	}
	return end
}

// trim drops the entries of a committed generation and of all earlier ones.
func (u *undoLog) trim(committed uint64) {
	end := u.until(committed)
	if end == len(u.entries) {
		u.reset()
		return
	}
	if end == 0 {
		return
	}
	u.trimImages(end)
	u.trimBytes(end)
	u.entries = u.entries[:copy(u.entries, u.entries[end:])]
	kept := u.closed[:0]
	for _, m := range u.closed {
		if m.entries > end {
			kept = append(kept, mark{m.generation, m.entries - end})
		}
	}
	u.closed = kept
}

// trimImages drops the images of the oldest entries. The argument end is the number of these entries.
func (u *undoLog) trimImages(end int) {
	n := 0
	for i := range u.entries[:end] {
		if u.entries[i].at == cleared {
			n++
		}
	}
	kept := copy(u.images, u.images[n:])
	clear(u.images[kept:])
	u.images = u.images[:kept]
}

// trimBytes drops the records of the oldest entries. The argument end is the number of these entries.
func (u *undoLog) trimBytes(end int) {
	rest := u.entries[end:]
	from := len(u.bytes)
	for i := range rest {
		if rest[i].at != cleared {
			from = rest[i].at
			break
		}
	}
	for i := range rest {
		if rest[i].at != cleared {
			rest[i].at -= from
		}
	}
	u.bytes = u.bytes[:copy(u.bytes, u.bytes[from:])]
}

// reset drops all entries.
func (u *undoLog) reset() {
	clear(u.images)
	u.entries, u.bytes, u.closed, u.images = u.entries[:0], u.bytes[:0], u.closed[:0], u.images[:0]
}

// tidyUndoLog drops committed entries, and releases the memory of an empty undo log.
func (s *shard) tidyUndoLog() {
	u := s.undoLog()
	u.trim(s.shared.committed.Load())
	if len(u.entries) == 0 && cap(u.bytes) > keepBytes {
		u.entries, u.bytes = nil, nil
	}
}
