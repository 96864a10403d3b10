package buckets

import (
	"bytes"

	"github.com/throttledhq/throttled/limiter"
)

// decideGroupReplicated calls decideGroup with t.groups read-locked, so that no generation is closed
// meanwhile.
func (t *Table) decideGroupReplicated(reqs []limiter.Request, hashes []uint64, now uint64, d *desk, out []limiter.Decision) {
	t.groups.RLock()
	defer t.groups.RUnlock()
	t.decideGroup(reqs, hashes, now, d, out)
}

// decideGroup decides several requests in one atomic step. It locks the shards of all keys in
// ascending order, so that groups cannot deadlock. All requests are decided before anything is
// stored, and the results are stored only if all requests are admitted and there is room for all.
func (t *Table) decideGroup(reqs []limiter.Request, hashes []uint64, now uint64, d *desk, out []limiter.Decision) {
	if sameKeys(reqs, hashes) {
		failAll(out, limiter.ErrSameKey)
		return
	}
	now = t.lockShards(hashes, now, d)
	defer t.unlockShards(d, len(reqs))
	if t.undoLogs != nil {
		if !t.enterShards(d, now) {
			failAll(out, limiter.ErrNotLeading)
			return
		}
		defer t.noteGeneration(d)
	}
	judged, err := t.judge(reqs, hashes, now, d, out)
	t.countGroup(hashes[:judged], d)
	switch {
	case err != nil:
		failAll(out, err)
	case anyLimited(out):
		t.peekAdmitted(reqs, d, now, out)
	case t.overwriteAll(reqs, hashes, now, d, out):
	default:
		if err := t.storeAll(reqs, hashes, now, d, out); err != nil {
			failAll(out, err)
		}
	}
}

// storeAll makes room for all changes in d and then stores them, in new records if necessary. The
// error is limiter.ErrOutOfMemory, in which case nothing is stored.
func (t *Table) storeAll(reqs []limiter.Request, hashes []uint64, now uint64, d *desk, out []limiter.Decision) error {
	for {
		moved, err := t.makeRoomForAll(reqs, hashes, now, d, out)
		if err != nil {
			return err
		}
		if !moved {
			break
		}
		// Making room may have evicted keys of the group itself. They are absent now: their
		// requests are still admitted, but may need more memory than before.
		if _, err := t.judge(reqs, hashes, now, d, out); err != nil {
			return err
		}
	}
	t.applyAll(reqs, hashes, now, d, out)
	return nil
}

// overwriteAll stores the changes in d if each new state fits in the old record, and reports
// whether it did. This is the common case for keys in use. It needs no second lookup.
func (t *Table) overwriteAll(reqs []limiter.Request, hashes []uint64, now uint64, d *desk, out []limiter.Decision) bool {
	for i := range reqs {
		if d.changes[i].Set && !t.fitsInPlace(reqs, hashes, i, now, d) {
			return false
		}
	}
	for i := range reqs {
		c, old := &d.changes[i], &d.olds[i]
		s := &t.shards[t.shardOf(hashes[i])]
		switch {
		case !c.Set:
		case old.Expires == 0:
			s.overwrite(d.places[i], c, s.gaugeOf(&reqs[i], &out[i]), now)
		default:
			if s.replicated {
				s.remember(d.places[i], c.Keep)
			}
			rec := s.record(d.places[i])
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
func (t *Table) fitsInPlace(reqs []limiter.Request, hashes []uint64, i int, now uint64, d *desk) bool {
	c, old := &d.changes[i], &d.olds[i]
	switch {
	case c.Expires <= now:
		return false
	case old.Expires > 0:
		return len(old.Data) == c.Keep+len(c.Tail)
	}
	return d.found[i] && t.shards[t.shardOf(hashes[i])].fits(d.places[i], reqs[i].Kind, c)
}

// sameKeys reports whether two requests have the same key.
func sameKeys(reqs []limiter.Request, hashes []uint64) bool {
	for i := range reqs {
		for j := range i {
			if hashes[i] == hashes[j] && bytes.Equal(reqs[i].Key, reqs[j].Key) {
				return true
			}
		}
	}
	return false
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

// lockShards locks the shards of the given hashes, stores their numbers in d, and returns the time
// to use in all of them: the latest of their times and now.
func (t *Table) lockShards(hashes []uint64, now uint64, d *desk) uint64 {
	d.locked = 0
	for _, hash := range hashes {
		d.note(t.shardOf(hash))
	}
	for _, number := range d.shards[:d.locked] {
		s := &t.shards[number]
		s.mu.Lock()
		now = max(s.now, now)
	}
	if t.undoLogs == nil {
		for _, number := range d.shards[:d.locked] {
			t.shards[number].now = now
		}
	}
	return now
}

// enterShards sets the time of the group in all of its shards. It returns false if one of them does
// not decide in the term of d any more.
func (t *Table) enterShards(d *desk, now uint64) bool {
	for _, number := range d.shards[:d.locked] {
		if !t.shards[number].enter(d.term, now) {
			return false
		}
	}
	return true
}

// noteGeneration raises the generation of d to the latest one in which a shard of the group has
// changed.
func (t *Table) noteGeneration(d *desk) {
	for _, number := range d.shards[:d.locked] {
		d.generation = max(d.generation, t.shards[number].generation())
	}
}

// unlockShards releases the states and the shards of a group of n requests.
func (t *Table) unlockShards(d *desk, n int) {
	d.forget(n)
	for _, number := range d.shards[:d.locked] {
		t.shards[number].mu.Unlock()
	}
	d.locked = 0
}

// forget clears the references to the states of a group. Otherwise the pooled desk would retain
// replaced arenas and logs.
func (d *desk) forget(n int) {
	for i := range n {
		d.olds[i].Data, d.changes[i].Tail = nil, nil
	}
}

// note inserts a shard number into d.shards, in ascending order and without duplicates.
func (d *desk) note(number int) {
	at := d.locked
	for at > 0 && d.shards[at-1] > number {
		at--
	}
	if at > 0 && d.shards[at-1] == number {
		return
	}
	copy(d.shards[at+1:d.locked+1], d.shards[at:d.locked])
	d.shards[at] = number
	d.locked++
}

// judge decides each request of a group, and stores the lookup results and changes in d. It returns
// the number of processed requests, which is less than all only with an error.
func (t *Table) judge(reqs []limiter.Request, hashes []uint64, now uint64, d *desk, out []limiter.Decision) (int, error) {
	d.free = d.room[:0]
	for i := range reqs {
		s, tag := t.shardAndTag(hashes[i])
		at, found, old, err := s.state(&reqs[i], tag, now)
		d.places[i], d.found[i], d.olds[i] = at, found, old
		if err != nil {
			return i + 1, err
		}
		d.judge(i, &reqs[i], old, now, &out[i])
	}
	return len(reqs), nil
}

// countGroup counts a hit or a miss for each request of a group.
func (t *Table) countGroup(hashes []uint64, d *desk) {
	for i, hash := range hashes {
		t.shards[t.shardOf(hash)].count(&d.olds[i])
	}
}

// judge decides request i of a group, and stores the change in d. Each new state uses a separate
// part of the room.
func (d *desk) judge(i int, req *limiter.Request, old limiter.State, now uint64, out *limiter.Decision) {
	c := &d.changes[i]
	*c, *out = algorithms[req.Kind](&req.Limit, old, now, req.Quantity, d.free)
	if used := len(c.Tail); c.Set && used <= cap(d.free) {
		d.free = d.free[used:used]
	}
}

// peekAdmitted decides the admitted requests of a refused group again as peeks, since they are not
// charged.
func (t *Table) peekAdmitted(reqs []limiter.Request, d *desk, now uint64, out []limiter.Decision) {
	for i := range reqs {
		if !out[i].Limited {
			_, out[i] = algorithms[reqs[i].Kind](&reqs[i].Limit, d.olds[i], now, 0, d.room[:0])
		}
	}
}

// makeRoomForAll ensures that storing all changes of the group cannot fail, and reports whether
// records may have been moved or dropped. If one record of a shard needs room, it makes room for
// all records of the group in that shard, since making room may evict keys of the group.
func (t *Table) makeRoomForAll(reqs []limiter.Request, hashes []uint64, now uint64, d *desk, out []limiter.Decision) (moved bool, err error) {
	for _, number := range d.shards[:d.locked] {
		s := &t.shards[number]
		var all demand
		fits := true
		for i := range reqs {
			if t.shardOf(hashes[i]) == number && d.changes[i].Set && d.changes[i].Expires > now {
				all = all.and(s.demandOfChange(&reqs[i], &d.changes[i], &out[i], now))
				fits = fits && t.fitsInPlace(reqs, hashes, i, now, d)
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

// demandOfChange returns the demand of a change if its key has to be added. A change with Keep
// above 0 would need more, but such a change is decided again if its key is no longer stored.
func (s *shard) demandOfChange(req *limiter.Request, c *limiter.Change, answer *limiter.Decision, now uint64) demand {
	rec := limiter.Record{Kind: req.Kind, Key: req.Key, Expires: c.Expires, State: c.Tail, Gauge: byte(s.gaugeOf(req, answer))}
	return demandOf(&rec, now)
}

// and returns the sum of two demands, with the lower of their ranks.
func (d demand) and(other demand) demand {
	if d.records == 0 {
		return other
	}
	return demand{d.records + other.records, d.size + other.size, min(d.rank, other.rank)}
}

// applyAll stores all changes in d. The caller has made room.
func (t *Table) applyAll(reqs []limiter.Request, hashes []uint64, now uint64, d *desk, out []limiter.Decision) {
	for i := range reqs {
		if !d.changes[i].Set {
			continue
		}
		s, tag := t.shardAndTag(hashes[i])
		at, found := s.find(reqs[i].Key, tag) // storing the previous requests may have moved it
		if err := s.apply(at, found, &reqs[i], &d.changes[i], s.gaugeOf(&reqs[i], &out[i]), tag, now); err != nil {
			panic("buckets: no room although it was made: " + err.Error())
		}
	}
}
