package buckets

import (
	"sync/atomic"
	"unsafe"

	"github.com/throttledhq/throttled/limiter"
)

// lookahead is how many requests are looked up together: enough to wait for the memory of
// all of them at once, and few enough for what they fetch to stay in the first cache.
const lookahead = 16

// maxLookahead is how many they may be if the last of them begin a group.
const maxLookahead = lookahead + limiter.MaxGroup - 1

// Decide answers reqs in out, in order, at one reading of the clock. It allocates nothing
// unless a new key, a log, or a group of windows of hundreds of parts needs more memory. It panics on a kind that there is not, and on
// a group of more than limiter.MaxGroup requests. A table that follows answers each with
// limiter.ErrNotLeading, and so does one that is told to while it decides.
//
// Among many keys a decision costs two waits for memory, one for the slot and one for the
// record, and these cost more than all the rest. So the memory of a batch is asked for
// before its requests are decided, and the waits become one.
func (t *Table) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.Ticket {
	d := desks.Get().(*desk)
	defer desks.Put(d)
	d.term, d.generation = t.term.Load(), 0
	if t.journals != nil && d.term == 0 {
		failAll(out, limiter.ErrNotLeading)
		return limiter.Ticket{}
	}
	now := t.clock() // read after the term: it is a time of that term if the term still holds
	if len(reqs) == 1 {
		s, tag := t.locate(reqs[0].Key)
		s.decideLocking(&reqs[0], tag, now, d, &out[0])
		return limiter.Ticket{Term: d.term, Generation: d.generation}
	}
	var hashes [maxLookahead]uint64
	for len(reqs) > 0 {
		n := wholeGroups(reqs)
		t.fetchSlots(reqs[:n], &hashes)
		t.fetchRecords(hashes[:n])
		t.decideFetched(reqs[:n], hashes[:n], now, d, out)
		reqs, out = reqs[n:], out[n:]
	}
	return limiter.Ticket{Term: d.term, Generation: d.generation}
}

// wholeGroups returns how many requests to look up together: none is cut off from its group.
func wholeGroups(reqs []limiter.Request) int {
	n := min(lookahead, len(reqs))
	for n < len(reqs) && reqs[n-1].Linked {
		n++
	}
	return n
}

// groupEnd returns where the group ends that begins with request i.
func groupEnd(reqs []limiter.Request, i int) int {
	for i < len(reqs)-1 && reqs[i].Linked {
		i++
	}
	return i + 1
}

// decideFetched decides requests and groups whose hashes are known.
func (t *Table) decideFetched(reqs []limiter.Request, hashes []uint64, now uint64, d *desk, out []limiter.Decision) {
	for i := 0; i < len(reqs); {
		end := groupEnd(reqs, i)
		switch {
		case end == i+1:
			s, tag := t.shardAndTag(hashes[i])
			s.decideLocking(&reqs[i], tag, now, d, &out[i])
		case t.journals != nil:
			t.decideGroupJournaled(reqs[i:end], hashes[i:end], now, d, out[i:end])
		default:
			t.decideGroup(reqs[i:end], hashes[i:end], now, d, out[i:end])
		}
		i = end
	}
}

// decideLocking is decide under the shard's lock. A panic must not leave it locked: it is
// not the end of the program.
func (s *shard) decideLocking(req *limiter.Request, tag uint32, now uint64, d *desk, out *limiter.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journaled {
		s.decideJournaled(req, tag, now, d, out)
		return
	}
	s.now = max(s.now, now)
	s.decide(req, tag, s.now, d, out)
}

// decideJournaled is decide for a shard that may have been told to follow since the batch
// began, and that tells in which generation the decision is.
func (s *shard) decideJournaled(req *limiter.Request, tag uint32, now uint64, d *desk, out *limiter.Decision) {
	if !s.enter(d.term, now) {
		*out = limiter.Decision{Err: limiter.ErrNotLeading}
		return
	}
	s.decide(req, tag, s.now, d, out)
	d.generation = max(d.generation, s.generation())
}

// fetchSlots hashes the keys of up to maxLookahead requests, and asks for the shard of each and for
// the memory where the search for it begins.
func (t *Table) fetchSlots(reqs []limiter.Request, hashes *[maxLookahead]uint64) {
	for i := range reqs {
		hashes[i] = t.hash(reqs[i].Key)
		t.fetchSlot(hashes[i])
	}
}

func (t *Table) fetchSlot(hash uint64) {
	number := t.shardOf(hash)
	prefetchToWrite(uintptr(unsafe.Pointer(&t.shards[number]))) // another core may have it
	prefetch(t.hints[number].slot(tagOf(hash)))
}

// usual is about the size of a record.
const usual = 48

// fetchRecords asks for the memory of the record that each hash is likely to belong to.
func (t *Table) fetchRecords(hashes []uint64) {
	for _, hash := range hashes {
		s, tag := t.shardAndTag(hash)
		s.mu.Lock()
		rec := s.likely(tag)
		s.mu.Unlock()
		prefetch(rec)
		prefetch(rec + usual - 1) // a record of the usual size lies on two lines as often as not
	}
}

// likely returns the address of the first record with the given tag, or 0. Few tags belong
// to two keys of a shard.
func (s *shard) likely(tag uint32) uintptr {
	if len(s.index) == 0 {
		return 0
	}
	for at := s.home(tag); s.index[at] != 0; at = s.next(at) {
		if s.index[at].tag() == tag {
			return uintptr(unsafe.Pointer(&s.arena[s.index[at].offset()]))
		}
	}
	return 0
}

// hint tells where an index lies to those who have not locked its shard. What it tells
// may have changed since, or be half of what was and half of what is: it is only good
// for prefetch, which does no harm at any address.
type hint struct {
	base atomic.Uintptr
	size atomic.Int64 // slots
}

func (h *hint) set(index []slot) {
	h.base.Store(uintptr(unsafe.Pointer(unsafe.SliceData(index))))
	h.size.Store(int64(len(index)))
}

// slot returns the address of the slot where the search for a tag begins.
func (h *hint) slot(tag uint32) uintptr {
	return h.base.Load() + uintptr(home(tag, int(h.size.Load())))*slotSize
}
