package buckets

import (
	"bytes"

	"github.com/throttledhq/throttled/limiter"
)

// journal is what a shard notes to take back what is not committed, and to tell others what
// has changed. The shard's lock guards it.
//
// The first time that a key changes in a generation, what it was before is noted as an entry.
// So undoing the entries, the newest first, leads back to the end of any generation.
type journal struct {
	term      uint64 // in which the shard decides; 0 while it follows
	collected uint64 // the generation in which its last changes were collected
	dirty     bool   // it has changed since
	gone      bool   // a key that is in the open generation has been removed

	entries []entry
	bytes   []byte // the records of the entries, one after the other
	closed  []mark // the generations that have entries and are closed, in order
	images  []image
}

// entry says how one key was, or that the shard was cleared. The record it points at has no
// kind if the key was absent.
type entry struct {
	tag  uint32
	from uint32 // where the state in the record begins within the key's: what is before has stayed
	at   int    // of the record in the journal's bytes; cleared if the shard was
}

const cleared = -1

// mark is where the entries of a generation end.
type mark struct {
	generation uint64
	entries    int
}

// image is a shard's content before it was cleared.
type image struct {
	index      []slot
	arena      []byte
	live, dead uint32
}

const (
	// minTailed is the size from which on a state is noted and told by what has changed in it,
	// if that is no more than half.
	minTailed = 128
	// lookBack is among how many entries one is looked for that need not be there.
	lookBack = 64
	// keepBytes is how much room a journal keeps that has no entries.
	keepBytes = 4 << 10
)

func worthTail(keep, size int) bool { return size >= minTailed && keep >= size/2 }

func (s *shard) hint() *hint { return &s.shared.hints[s.number] }

func (s *shard) journal() *journal { return &s.shared.journals[s.number] }

// journaling reports whether changes are noted.
func (s *shard) journaling() bool { return s.journaled && s.journal().term != 0 }

// enter reports whether the shard decides in a term, and moves its time to now if so.
func (s *shard) enter(term, now uint64) bool {
	if term == 0 || s.journal().term != term {
		return false
	}
	s.now = max(s.now, now)
	return true
}

// generation returns the one that has to be committed before what the shard holds is: 0 if it
// is already.
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

// settled returns the time until which records have expired for good.
func (s *shard) settled(now uint64) uint64 {
	if !s.journaled {
		return now
	}
	return min(now, s.shared.settled.Load())
}

// droppable reports whether a record can go without anybody being told: its time has passed,
// no node will ever decide at an earlier one, and no entry needs what is in its state.
func (s *shard) droppable(at int, now uint64) bool {
	rec := s.record(at)
	if rec.expires() > s.settled(now) {
		return false
	}
	return !s.journaled || len(rec.state()) < minTailed || !s.journal().hasTail(s.index[at].tag())
}

// remember notes what the record at an index position is, which is about to change or to go.
// Of its state the first keep bytes stay.
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

// rememberAbsent notes that a key, which is about to be added, is not there.
func (s *shard) rememberAbsent(key []byte, tag uint32) {
	if !s.journaling() {
		return
	}
	s.touch()
	if j := s.journal(); !j.gone || j.find(key, tag, lookBack) < 0 {
		j.add(&limiter.Record{Key: key}, entry{tag: tag})
	}
}

// rememberAll keeps what the shard holds, which is about to be cleared.
func (s *shard) rememberAll() {
	if !s.journaling() {
		return
	}
	s.touch()
	j := s.journal()
	j.entries = append(j.entries, entry{at: cleared})
	j.images = append(j.images, image{s.index, s.arena, s.live, s.dead})
}

// touch notes that the shard changes in the open generation.
func (s *shard) touch() {
	if j := s.journal(); !j.dirty {
		j.trim(s.shared.committed.Load())
		j.dirty = true
		s.shared.mark(s.number)
	}
}

// add adds an entry and its record.
func (j *journal) add(rec *limiter.Record, e entry) {
	e.at = len(j.bytes)
	j.bytes = appendRecord(j.bytes, rec)
	j.entries = append(j.entries, e)
}

// record returns the record of an entry, and no more than that.
func (j *journal) record(e *entry) record {
	rec := record(j.bytes[e.at:])
	return rec[:rec.size()]
}

// opened returns where the entries of the open generation begin.
func (j *journal) opened() int {
	if len(j.closed) == 0 {
		return 0
	}
	return j.closed[len(j.closed)-1].entries
}

// find returns the newest entry of a key in the open generation, of the last so many entries,
// or -1.
func (j *journal) find(key []byte, tag uint32, last int) int {
	for i := len(j.entries) - 1; i >= max(j.opened(), len(j.entries)-last); i-- {
		e := &j.entries[i]
		if e.tag == tag && e.at != cleared && bytes.Equal(j.record(e).key(), key) {
			return i
		}
	}
	return -1
}

// tailFrom returns where the part of a key's state begins that the open generation has noted.
func (j *journal) tailFrom(key []byte, tag uint32) int {
	return int(j.entries[j.find(key, tag, len(j.entries))].from)
}

// hasTail reports whether an entry of a tag needs the key's record to be undone.
func (j *journal) hasTail(tag uint32) bool {
	for i := range j.entries {
		if e := &j.entries[i]; e.tag == tag && e.from > 0 {
			return true
		}
	}
	return false
}

// until returns where the entries of a generation and those before it end.
func (j *journal) until(generation uint64) (end int) {
	for _, m := range j.closed {
		if m.generation <= generation {
			end = m.entries
		}
	}
	return end
}

// trim forgets the entries of a generation, which has been committed, and of those before it.
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

// reset forgets all entries.
func (j *journal) reset() {
	clear(j.images)
	j.entries, j.bytes, j.closed, j.images = j.entries[:0], j.bytes[:0], j.closed[:0], j.images[:0]
}

// tidyJournal gives memory back that nothing needs any more.
func (s *shard) tidyJournal() {
	j := s.journal()
	j.trim(s.shared.committed.Load())
	if len(j.entries) == 0 && cap(j.bytes) > keepBytes {
		j.entries, j.bytes = nil, nil
	}
}
