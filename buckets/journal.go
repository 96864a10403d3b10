package buckets

import (
	"bytes"

	"github.com/throttledhq/throttled/limiter"
)

// journal is the undo log of a shard, and the source of the changes that Collect returns. It is
// guarded by the lock of the shard.
//
// The first change of a key in a generation adds an entry with the previous state of the key.
// Undoing the entries in reverse order restores the state at the end of any generation.
type journal struct {
	term      uint64 // the term in which the shard decides; 0 on a follower
	collected uint64 // the generation in which its last changes were collected
	dirty     bool   // changed since collected
	gone      bool   // a key that changed in the open generation has been removed

	entries []entry
	bytes   []byte // the records of the entries, concatenated
	closed  []mark // the closed generations that have entries, in order
	images  []image
}

// entry is the previous state of one key, or marks that the shard was cleared. If the key was
// absent, the record has no kind.
type entry struct {
	tag  uint32
	from uint32 // size of the unchanged prefix of the key's state; the record holds only the rest
	at   int    // offset of the record in journal.bytes, or cleared
}

const cleared = -1

// mark is the end of the entries of a generation.
type mark struct {
	generation uint64
	entries    int
}

// image is the content of a shard before it was cleared.
type image struct {
	index      []slot
	arena      []byte
	live, dead uint32
}

const (
	// minTailed is the minimum size of a state for which only the changed tail is recorded and
	// sent, if the tail is at most half of the state.
	minTailed = 128
	// lookBack limits the number of entries searched for an entry that may be missing.
	lookBack = 64
	// keepBytes is the capacity that a journal without entries may retain.
	keepBytes = 4 << 10
)

func worthTail(keep, size int) bool { return size >= minTailed && keep >= size/2 }

func (s *shard) hint() *hint { return &s.shared.hints[s.number] }

func (s *shard) journal() *journal { return &s.shared.journals[s.number] }

// journaling reports whether changes are recorded.
func (s *shard) journaling() bool { return s.journaled && s.journal().term != 0 }

// enter reports whether the shard decides in the given term. If so, it advances the time of the
// shard to now.
func (s *shard) enter(term, now uint64) bool {
	if term == 0 || s.journal().term != term {
		return false
	}
	s.now = max(s.now, now)
	return true
}

// generation returns the generation that must be committed before the content of the shard is, or 0
// if it already is.
func (s *shard) generation() uint64 {
	j := s.journal()
	switch {
	case j.dirty:
		return s.shared.generationOf(s.number)
	case j.collected > s.shared.committed.Load():
		return j.collected
	}
	return 0
}

// settled returns the time until which expired records may be dropped permanently.
func (s *shard) settled(now uint64) uint64 {
	if !s.journaled {
		return now
	}
	return min(now, s.shared.settled.Load())
}

// droppable reports whether a record can be dropped without a replicated change: it has expired, no
// node will decide at an earlier time, and no entry needs its state to be undone.
func (s *shard) droppable(at int, now uint64) bool {
	rec := s.record(at)
	if rec.expires() > s.settled(now) {
		return false
	}
	return !s.journaled || len(rec.state()) < minTailed || !s.journal().hasTail(s.index[at].tag())
}

// remember records the current state of the record at an index position before it is changed or
// removed. The first keep bytes of its state do not change.
func (s *shard) remember(at, keep int) {
	if !s.journaling() {
		return
	}
	rec := s.record(at)
	if rec[0]&(notedFlag|tailFlag) == notedFlag {
		return
	}
	s.note(rec, s.index[at].tag(), keep)
}

func (s *shard) note(rec record, tag uint32, keep int) {
	j := s.journal()
	s.touch()
	again := rec[0]&tailFlag != 0
	switch {
	case again && keep >= j.tailFrom(rec.key(), tag):
	case !again && worthTail(keep, len(rec.state())):
		tail := rec.whole()
		tail.State = tail.State[keep:]
		j.add(&tail, entry{tag: tag, from: uint32(keep)})
		rec[0] |= notedFlag | tailFlag
	default:
		whole := rec.whole()
		j.add(&whole, entry{tag: tag})
		rec[0] = rec[0]&^tailFlag | notedFlag
	}
}

// rememberAbsent records that a key is absent before it is added.
func (s *shard) rememberAbsent(key []byte, tag uint32) {
	if !s.journaling() {
		return
	}
	s.touch()
	if j := s.journal(); !j.gone || j.find(key, tag, lookBack) < 0 {
		j.add(&limiter.Record{Key: key}, entry{tag: tag})
	}
}

// rememberAll saves the content of the shard before it is cleared.
func (s *shard) rememberAll() {
	if !s.journaling() {
		return
	}
	s.touch()
	j := s.journal()
	j.entries = append(j.entries, entry{at: cleared})
	j.images = append(j.images, image{s.index, s.arena, s.live, s.dead})
}

// touch marks the shard as changed in the open generation.
func (s *shard) touch() {
	if j := s.journal(); !j.dirty {
		j.trim(s.shared.committed.Load())
		j.dirty = true
		s.shared.mark(s.number)
	}
}

// add appends an entry and its record.
func (j *journal) add(rec *limiter.Record, e entry) {
	e.at = len(j.bytes)
	j.bytes = appendRecord(j.bytes, rec)
	j.entries = append(j.entries, e)
}

// record returns the record of an entry, without the bytes that follow it.
func (j *journal) record(e *entry) record {
	rec := record(j.bytes[e.at:])
	return rec[:rec.size()]
}

// opened returns the index of the first entry of the open generation.
func (j *journal) opened() int {
	if len(j.closed) == 0 {
		return 0
	}
	return j.closed[len(j.closed)-1].entries
}

// find returns the index of the newest entry of a key in the open generation, or -1. It searches
// only the given number of last entries.
func (j *journal) find(key []byte, tag uint32, last int) int {
	for i := len(j.entries) - 1; i >= max(j.opened(), len(j.entries)-last); i-- {
		e := &j.entries[i]
		if e.tag == tag && e.at != cleared && bytes.Equal(j.record(e).key(), key) {
			return i
		}
	}
	return -1
}

// tailFrom returns the offset in the state of a key from which the open generation has recorded it.
func (j *journal) tailFrom(key []byte, tag uint32) int {
	return int(j.entries[j.find(key, tag, len(j.entries))].from)
}

// hasTail reports whether undoing an entry with the given tag needs the current record of the key.
func (j *journal) hasTail(tag uint32) bool {
	for i := range j.entries {
		if e := &j.entries[i]; e.tag == tag && e.from > 0 {
			return true
		}
	}
	return false
}

// until returns the end of the entries of the given generation and those before it.
func (j *journal) until(generation uint64) (end int) {
	for _, m := range j.closed {
		if m.generation <= generation {
			end = m.entries
		}
	}
	return end
}

// trim drops the entries of a committed generation and of those before it.
func (j *journal) trim(committed uint64) {
	end := j.until(committed)
	if end == len(j.entries) {
		j.reset()
		return
	}
	if end == 0 {
		return
	}
	j.trimImages(end)
	j.trimBytes(end)
	j.entries = j.entries[:copy(j.entries, j.entries[end:])]
	kept := j.closed[:0]
	for _, m := range j.closed {
		if m.entries > end {
			kept = append(kept, mark{m.generation, m.entries - end})
		}
	}
	j.closed = kept
}

func (j *journal) trimImages(end int) {
	n := 0
	for i := range j.entries[:end] {
		if j.entries[i].at == cleared {
			n++
		}
	}
	kept := copy(j.images, j.images[n:])
	clear(j.images[kept:])
	j.images = j.images[:kept]
}

func (j *journal) trimBytes(end int) {
	rest := j.entries[end:]
	from := len(j.bytes)
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
	j.bytes = j.bytes[:copy(j.bytes, j.bytes[from:])]
}

// reset drops all entries.
func (j *journal) reset() {
	clear(j.images)
	j.entries, j.bytes, j.closed, j.images = j.entries[:0], j.bytes[:0], j.closed[:0], j.images[:0]
}

// tidyJournal drops committed entries, and releases the memory of an empty journal.
func (s *shard) tidyJournal() {
	j := s.journal()
	j.trim(s.shared.committed.Load())
	if len(j.entries) == 0 && cap(j.bytes) > keepBytes {
		j.entries, j.bytes = nil, nil
	}
}
