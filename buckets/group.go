package buckets

import (
	"bytes"

	"github.com/throttledhq/throttled/lease"
	"github.com/throttledhq/throttled/limiter"
)

// decideGroupReplicated calls decideGroup with t.groups read-locked, so that no generation is closed during the call.
func (t *Table) decideGroupReplicated(reqs []limiter.Request, hashes []uint64, now uint64, sc *scratch, out []limiter.Decision) {
	t.groups.RLock()
	defer t.groups.RUnlock()
	t.decideGroup(reqs, hashes, now, sc, out)
}

// decideGroup decides several requests in one atomic step. It locks the shards of all keys in the
// order of their numbers, so that groups cannot deadlock. All requests are decided before anything
// is stored. The changes are stored if all requests are admitted and there is room for all changes.
// Otherwise nothing is charged, and only conversions of states to changed limits are stored.
func (t *Table) decideGroup(reqs []limiter.Request, hashes []uint64, now uint64, sc *scratch, out []limiter.Decision) {
	if at := repeatedKey(reqs, hashes); at >= 0 {
		failGroup(out, at, limiter.ErrSameKey)
		return
	}
	now = t.lockShards(hashes, now, sc)
	defer t.unlockShards(sc, len(reqs))
	if t.undoLogs != nil {
		if !t.enterShards(sc, now) {
			failAll(out, limiter.ErrNotLeading)
			return
		}
		defer t.noteGeneration(sc)
	}
	decided, err := t.decideEach(reqs, hashes, now, sc, out)
	t.countGroup(hashes[:decided], sc)
	switch {
	case err != nil:
		failGroup(out, decided-1, err)
	case anyLimited(out):
		t.refuse(reqs, hashes, now, sc, out)
	case t.overwriteAll(reqs, hashes, now, sc, out):
	default:
		if err := t.storeAll(reqs, hashes, now, sc, out); err != nil {
			failAll(out, err)
		}
	}
}

// storeAll makes room for all changes in sc and then stores them, in new records if necessary. The
// error is limiter.ErrOutOfMemory, in which case nothing is stored.
func (t *Table) storeAll(reqs []limiter.Request, hashes []uint64, now uint64, sc *scratch, out []limiter.Decision) error {
	for {
		moved, err := t.makeRoomForAll(reqs, hashes, now, sc, out)
		if err != nil {
			return err
		}
		if !moved {
			break
		}
		// Making room may have evicted keys of the group itself. An evicted key has its full limit
		// again, so its request is still admitted, but the new state may need more memory. Decide
		// the group again.
		if _, err := t.decideEach(reqs, hashes, now, sc, out); err != nil {
			return err
		}
	}
	t.applyAll(reqs, hashes, now, sc, out)
	return nil
}

// overwriteAll stores the changes in sc if each new state fits in the existing record of its key,
// and reports whether it has stored them. This is the common case for keys in use. It needs no
// second lookup.
func (t *Table) overwriteAll(reqs []limiter.Request, hashes []uint64, now uint64, sc *scratch, out []limiter.Decision) bool {
	for i := range reqs {
		if sc.changes[i].Set && !t.fitsInPlace(hashes, i, now, sc) {
			return false
		}
	}
	for i := range reqs {
		c, old := &sc.changes[i], &sc.olds[i]
		s := &t.shards[t.shardOf(hashes[i])]
		switch {
		case !c.Set:
		case old.Expires == 0:
			s.overwrite(sc.places[i], c, s.gaugeOf(&reqs[i], &out[i]), now)
		default:
			if s.replicated {
				s.saveOld(sc.places[i], c.Keep)
			}
			rec := s.record(sc.places[i])
			rec.setGauge(s.gaugeOf(&reqs[i], &out[i]))
			rec.setExpires(c.Expires)
			copy(old.Data[c.Keep:], c.Tail)
			s.changes++
		}
	}
	return true
}

// fitsInPlace reports whether the new state of a key fits in its existing record, which may have
// expired.
func (t *Table) fitsInPlace(hashes []uint64, i int, now uint64, sc *scratch) bool {
	c, old := &sc.changes[i], &sc.olds[i]
	switch {
	case c.Expires <= now:
		return false
	case old.Expires > 0 && !sc.leased[i]:
		return len(old.Data) == c.Keep+len(c.Tail)
	}
	return sc.found[i] && t.shards[t.shardOf(hashes[i])].fits(sc.places[i], sc.kinds[i], c)
}

// repeatedKey returns the index of the first request with the same key as an earlier request, or -1.
func repeatedKey(reqs []limiter.Request, hashes []uint64) int {
	for i := range reqs {
		for j := range i {
			if hashes[i] == hashes[j] && bytes.Equal(reqs[i].Key, reqs[j].Key) {
				return i
			}
		}
	}
	return -1
}

// failGroup sets the errors of a group. The request whose index is the argument at cannot be decided
// and gets err. All other requests get limiter.ErrGroup.
func failGroup(out []limiter.Decision, at int, err error) {
	failAll(out, limiter.ErrGroup)
	out[at].Err = err
}

func failAll(out []limiter.Decision, err error) {
	for i := range out {
		out[i] = limiter.Decision{Err: err}
	}
}

func anyLimited(out []limiter.Decision) bool {
	for i := range out {
		if out[i].Limited {
			return true
		}
	}
	return false
}

// lockShards locks the shards of the given hashes and stores their numbers in sc. It returns the time
// at which the group is decided: the latest of now and the times of these shards.
func (t *Table) lockShards(hashes []uint64, now uint64, sc *scratch) uint64 {
	sc.locked = 0
	for _, hash := range hashes {
		sc.addShard(t.shardOf(hash))
	}
	for _, number := range sc.shards[:sc.locked] {
		s := &t.shards[number]
		s.mu.Lock()
		now = max(s.now, now)
	}
	if t.undoLogs == nil {
		for _, number := range sc.shards[:sc.locked] {
			t.shards[number].now = now
		}
	}
	return now
}

// enterShards advances all shards of the group to time now. It returns false if the epoch of a shard is not sc.epoch,
// the epoch in which the batch started.
func (t *Table) enterShards(sc *scratch, now uint64) bool {
	for _, number := range sc.shards[:sc.locked] {
		if !t.shards[number].advance(sc.epoch, now) {
			return false
		}
	}
	return true
}

// noteGeneration raises sc.generation to the latest uncommitted generation in which a shard of the
// group has changed.
func (t *Table) noteGeneration(sc *scratch) {
	for _, number := range sc.shards[:sc.locked] {
		sc.generation = max(sc.generation, t.shards[number].generation())
	}
}

// unlockShards clears the references of sc to the states of a group of n requests, and unlocks the
// shards.
func (t *Table) unlockShards(sc *scratch, n int) {
	sc.release(n)
	for _, number := range sc.shards[:sc.locked] {
		t.shards[number].mu.Unlock()
	}
	sc.locked = 0
}

// release clears the references to the states of a group. Otherwise the pooled scratch would retain
// replaced arenas and logs.
func (sc *scratch) release(n int) {
	for i := range n {
		sc.olds[i].Data, sc.changes[i].Tail = nil, nil
	}
}

// addShard inserts a shard number into sc.shards, in ascending order and without duplicates.
func (sc *scratch) addShard(number int) {
	at := sc.locked
	for at > 0 && sc.shards[at-1] > number {
		at--
	}
	if at > 0 && sc.shards[at-1] == number {
		return
	}
	copy(sc.shards[at+1:sc.locked+1], sc.shards[at:sc.locked])
	sc.shards[at] = number
	sc.locked++
}

// decideEach decides each request of a group, and stores the lookup results and changes in sc. It returns the number
// of requests that it has looked up. At the first request that cannot be decided, decideEach stops and returns the
// error. The number includes this request.
func (t *Table) decideEach(reqs []limiter.Request, hashes []uint64, now uint64, sc *scratch, out []limiter.Decision) (int, error) {
	sc.free = sc.room[:0]
	for i := range reqs {
		s, tag := t.shardAndTag(hashes[i])
		at, found, old, err := s.state(&reqs[i], tag, now)
		sc.places[i], sc.found[i], sc.olds[i], sc.kinds[i] = at, found, old, reqs[i].Kind
		sc.leased[i] = err != nil && s.record(at).kind() == reqs[i].Kind.WithLeases()
		switch {
		case reqs[i].Draw != nil:
			return i + 1, limiter.ErrGroup
		case err != nil && !sc.leased[i]:
			return i + 1, err
		}
		sc.decideOne(i, &reqs[i], old, now, &out[i])
	}
	return len(reqs), nil
}

// countGroup counts a hit or a miss for each request of a group.
func (t *Table) countGroup(hashes []uint64, sc *scratch) {
	for i, hash := range hashes {
		t.shards[t.shardOf(hash)].count(&sc.olds[i])
	}
}

// decideOne decides request i of a group, and stores the change in sc. Each new state uses its own
// part of sc.room. The change of a trial that is admitted is dropped.
func (sc *scratch) decideOne(i int, req *limiter.Request, old limiter.State, now uint64, out *limiter.Decision) {
	c := &sc.changes[i]
	if sc.leased[i] {
		*c, sc.kinds[i], *out = lease.Plain(lease.Algorithm(algorithms[req.Kind]), req, old, now, true, sc.free, &sc.leases)
	} else {
		compute(req, &old, now, sc.free, c, out)
	}
	c.Set = c.Set && stores(req, out)
	if used := len(c.Tail); c.Set && used <= cap(sc.free) {
		sc.free = sc.free[used:used]
	}
}

// refuse is called for a group in which a request exceeds its limit, so that no request is charged. It replaces the
// decisions on the requests that do not exceed their limits with peeks. The changes of the others, which only convert
// their states to changed limits, are stored: such a state fits in place.
func (t *Table) refuse(reqs []limiter.Request, hashes []uint64, now uint64, sc *scratch, out []limiter.Decision) {
	converts := false
	for i := range reqs {
		c := &sc.changes[i]
		c.Set = c.Set && out[i].Limited
		converts = converts || c.Set
	}
	if converts {
		t.overwriteAll(reqs, hashes, now, sc, out)
	}
	for i := range reqs {
		if !out[i].Limited {
			out[i] = sc.peek(i, &reqs[i], now)
		}
	}
}

// peek decides request i of a group as a peek.
func (sc *scratch) peek(i int, req *limiter.Request, now uint64) (d limiter.Decision) {
	if !sc.leased[i] {
		_, d = algorithms[req.Kind](&req.Limit, sc.olds[i], now, 0, sc.room[:0])
		return d
	}
	sc.peeked = *req
	sc.peeked.Quantity = 0
	_, _, d = lease.Plain(lease.Algorithm(algorithms[req.Kind]), &sc.peeked, sc.olds[i], now, true, sc.room[:0], &sc.leases)
	sc.peeked = limiter.Request{} // refers to the key
	return d
}

// makeRoomForAll ensures that storing all changes of the group cannot fail, and reports whether
// records may have been moved or dropped. If any record of a shard needs room, makeRoomForAll makes
// room for all records of the group in that shard. This includes records whose new state fits in
// place, because making room may evict these records.
func (t *Table) makeRoomForAll(reqs []limiter.Request, hashes []uint64, now uint64, sc *scratch, out []limiter.Decision) (moved bool, err error) {
	for _, number := range sc.shards[:sc.locked] {
		s := &t.shards[number]
		var all demand
		fits := true
		for i := range reqs {
			if t.shardOf(hashes[i]) == number && sc.changes[i].Set && sc.changes[i].Expires > now {
				all = all.plus(s.demandOfChange(&reqs[i], sc.kinds[i], &sc.changes[i], &out[i], now))
				fits = fits && t.fitsInPlace(hashes, i, now, sc)
			}
		}
		if fits {
			continue
		}
		moved = moved || !s.hasRoom(all)
		if err := s.makeRoom(all, now); err != nil {
			return true, err
		}
	}
	return moved, nil
}

// demandOfChange returns the demand of a change, as if its key were absent. For a change with Keep above 0 the result
// is too low. This is harmless: such a change fits in place unless making room evicts its key, and then the group is
// decided again.
func (s *shard) demandOfChange(req *limiter.Request, kind limiter.Kind, c *limiter.Change, answer *limiter.Decision, now uint64) demand {
	rec := limiter.Record{Kind: kind, Key: req.Key, Expires: c.Expires, State: c.Tail, Gauge: byte(s.gaugeOf(req, answer))}
	return demandOf(&rec, now)
}

// plus returns the sum of two demands, with the lower of their ranks.
func (d demand) plus(other demand) demand {
	if d.records == 0 {
		return other
	}
	return demand{d.records + other.records, d.size + other.size, min(d.rank, other.rank)}
}

// applyAll stores all changes in sc. The caller has made room.
func (t *Table) applyAll(reqs []limiter.Request, hashes []uint64, now uint64, sc *scratch, out []limiter.Decision) {
	for i := range reqs {
		if !sc.changes[i].Set {
			continue
		}
		s, tag := t.shardAndTag(hashes[i])
		at, found := s.find(reqs[i].Key, tag) // storing the changes of the previous requests may have moved the slot
		p := place{at: at, found: found}
		if err := s.applyKind(p, sc.kinds[i], reqs[i].Key, &sc.changes[i], s.gaugeOf(&reqs[i], &out[i]), tag, now, unbounded); err != nil {
			panic("buckets: no room after makeRoomForAll: " + err.Error())
		}
	}
}
