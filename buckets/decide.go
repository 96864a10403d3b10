package buckets

import (
	"sync/atomic"
	"unsafe"

	"github.com/throttledhq/throttled/limiter"
)

// lookahead is the number of requests whose memory is prefetched together: enough for the cache
// misses to overlap, and few enough for the fetched lines to stay in the L1 cache.
const lookahead = 16

// maxLookahead is the maximum number of requests prefetched together. It is reached if the last of
// the first lookahead requests starts a group of maximum size.
const maxLookahead = lookahead + limiter.MaxGroup - 1

// Decide decides reqs in order and writes the results to out. It reads the clock once. It does not
// allocate unless a new key, a log, or a group of windows with hundreds of sub-windows needs more
// memory. It panics on an unknown kind and on a group of more than limiter.MaxGroup requests. On a
// follower all decisions fail with limiter.ErrNotLeading. If the table becomes a follower during
// the call, the remaining decisions fail with this error.
//
// With many keys, the cost of a decision is dominated by two cache misses: one for the slot and one
// for the record. Decide therefore prefetches the slots and the records of several requests before it
// decides these requests.
func (t *Table) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	sc := scratchPool.Get().(*scratch)
	defer scratchPool.Put(sc)
	sc.epoch, sc.generation = t.epoch.Load(), 0
	if t.undoLogs != nil && sc.epoch == 0 {
		failAll(out, limiter.ErrNotLeading)
		return limiter.CommitToken{}
	}
	now := t.clock() // read after the epoch, so now is a time of this epoch unless the epoch ends during the call
	if len(reqs) == 1 {
		s, tag := t.locate(reqs[0].Key)
		s.decideLocking(&reqs[0], tag, now, sc, &out[0])
		return limiter.CommitToken{Epoch: sc.epoch, Generation: sc.generation}
	}
	var hashes [maxLookahead]uint64
	for len(reqs) > 0 {
		n := wholeGroups(reqs)
		t.fetchSlots(reqs[:n], &hashes)
		t.fetchRecords(hashes[:n])
		t.decideFetched(reqs[:n], hashes[:n], now, sc, out)
		reqs, out = reqs[n:], out[n:]
	}
	return limiter.CommitToken{Epoch: sc.epoch, Generation: sc.generation}
}

// wholeGroups returns the number of requests to look up together: at most lookahead, or more if
// otherwise a group would be split.
func wholeGroups(reqs []limiter.Request) int {
	n := min(lookahead, len(reqs))
	for n < len(reqs) && reqs[n-1].Linked {
		n++
	}
	return n
}

// groupEnd returns the end of the group that starts with request i.
func groupEnd(reqs []limiter.Request, i int) int {
	for i < len(reqs)-1 && reqs[i].Linked {
		i++
	}
	return i + 1
}

// decideFetched decides single requests and groups. The argument hashes holds the hashes of their
// keys.
func (t *Table) decideFetched(reqs []limiter.Request, hashes []uint64, now uint64, sc *scratch, out []limiter.Decision) {
	for i := 0; i < len(reqs); {
		end := groupEnd(reqs, i)
		switch {
		case end == i+1:
			s, tag := t.shardAndTag(hashes[i])
			s.decideLocking(&reqs[i], tag, now, sc, &out[i])
		case t.undoLogs != nil:
			t.decideGroupReplicated(reqs[i:end], hashes[i:end], now, sc, out[i:end])
		default:
			t.decideGroup(reqs[i:end], hashes[i:end], now, sc, out[i:end])
		}
		i = end
	}
}

// decideLocking calls decide with the lock of the shard held. It unlocks the shard even if decide
// panics, because a caller of Decide may recover from the panic.
func (s *shard) decideLocking(req *limiter.Request, tag uint32, now uint64, sc *scratch, out *limiter.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replicated {
		s.decideReplicated(req, tag, now, sc, out)
		return
	}
	s.now = max(s.now, now)
	s.decide(req, tag, s.now, sc, out)
}

// decideReplicated calls decide unless the epoch in which the batch started has ended. After the
// decision, it raises sc.generation to the generation whose commit also commits the decision.
func (s *shard) decideReplicated(req *limiter.Request, tag uint32, now uint64, sc *scratch, out *limiter.Decision) {
	if !s.advance(sc.epoch, now) {
		*out = limiter.Decision{Err: limiter.ErrNotLeading}
		return
	}
	s.decide(req, tag, s.now, sc, out)
	sc.generation = max(sc.generation, s.generation())
}

// fetchSlots hashes the keys of up to maxLookahead requests. For each key, it prefetches the shard
// and the index slot where probing starts.
func (t *Table) fetchSlots(reqs []limiter.Request, hashes *[maxLookahead]uint64) {
	for i := range reqs {
		hashes[i] = t.hash(reqs[i].Key)
		t.fetchSlot(hashes[i])
	}
}

func (t *Table) fetchSlot(hash uint64) {
	number := t.shardOf(hash)
	// #nosec G103 -- prefetching: the address is not dereferenced
	prefetchToWrite(uintptr(unsafe.Pointer(&t.shards[number]))) // for writing: the shard may be in the cache of another core
	prefetch(t.hints[number].slot(tagOf(hash)))
}

// usualRecordSize is the approximate size of a record in bytes.
const usualRecordSize = 48

// fetchRecords prefetches, for each hash, the record that most likely belongs to it.
func (t *Table) fetchRecords(hashes []uint64) {
	for _, hash := range hashes {
		s, tag := t.shardAndTag(hash)
		s.mu.Lock()
		rec := s.likely(tag)
		s.mu.Unlock()
		prefetch(rec)
		prefetch(rec + usualRecordSize - 1) // a record of this size often spans two cache lines
	}
}

// likely returns the address of the first record with the given tag, or 0. Two keys of a shard
// rarely have the same tag.
func (s *shard) likely(tag uint32) uintptr {
	if len(s.index) == 0 {
		return 0
	}
	for at := s.home(tag); s.index[at] != 0; at = s.next(at) {
		if s.index[at].tag() == tag {
			return uintptr(unsafe.Pointer(&s.arena[s.index[at].offset()])) // #nosec G103 -- prefetching: the address is not dereferenced
		}
	}
	return 0
}

// hint holds the location of an index for readers without the lock of the shard. The location may be
// out of date, and base and size may belong to different indexes. It must only be used for prefetch,
// which is safe at any address.
type hint struct {
	base atomic.Uintptr
	size atomic.Int64 // slots
}

func (h *hint) set(index []slot) {
	h.base.Store(uintptr(unsafe.Pointer(unsafe.SliceData(index)))) // #nosec G103 -- prefetching: the address is not dereferenced
	h.size.Store(int64(len(index)))
}

// slot returns the address of the slot where probing for a tag starts.
func (h *hint) slot(tag uint32) uintptr {
	return h.base.Load() + uintptr(home(tag, int(h.size.Load())))*slotSize
}
