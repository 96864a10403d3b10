package buckets

import "math/bits"

// Collect closes the open generation, and appends to buf what has changed in it: one change for
// each key, however often it was hit. It returns the number of the generation, and buf as it was
// if nothing has changed. A table that follows has no generation to close: the number is 0.
//
// The log time that goes with the changes is to be read from the Clock after Collect has
// returned, so that nothing in them was decided later, and before it is called again.
func (t *Table) Collect(buf []byte) (generation uint64, changes []byte) {
	t.turn.Lock()
	defer t.turn.Unlock()
	if t.term.Load() == 0 {
		return 0, buf
	}
	t.groups.Lock()
	defer t.groups.Unlock()
	now := t.clock()
	t.pending.Store(false)
	generation = t.open.Add(1) - 1 // before a mark is taken, see generationOf
	begin := len(buf)
	buf = append(buf, changesVersion)
	if t.cleared {
		buf = append(buf, changeClear)
		t.cleared = false
	}
	for i := range t.dirty {
		for word := t.dirty[i].Swap(0); word != 0; word &= word - 1 {
			s := &t.shards[i*64+bits.TrailingZeros64(word)]
			buf = s.collect(buf, generation, now)
		}
	}
	if len(buf) == begin+1 {
		buf = buf[:begin]
	}
	return generation, buf
}

// collect closes the shard's part of a generation, and appends what has changed in it.
func (s *shard) collect(buf []byte, generation, now uint64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.journal()
	for i := j.opened(); i < len(j.entries); i++ {
		if e := &j.entries[i]; e.at != cleared {
			buf = s.appendChange(buf, i, now)
		}
	}
	j.closed = append(j.closed, mark{generation, len(j.entries)})
	j.collected, j.dirty, j.gone = generation, false, false
	return buf
}

// appendChange appends what the key of entry i is now. Others can take a part of the state if
// they still have what was before, so it must not have expired: how far their time has come
// is not known here, but it has not come to now.
func (s *shard) appendChange(buf []byte, i int, now uint64) []byte {
	j := s.journal()
	e := &j.entries[i]
	old := j.record(e)
	at, found := s.find(old.key(), e.tag)
	if !found {
		if newest := j.find(old.key(), e.tag, lookBack); newest > i {
			return buf // which will tell the same
		}
		return appendAbsent(buf, old.key())
	}
	rec := s.record(at)
	how := rec[0] & flags
	rec[0] &^= flags
	switch {
	case how == 0:
		return buf // another entry of the key came first
	case how&tailFlag != 0 && old.expires() > now:
		return appendTail(buf, rec, int(e.from))
	}
	return appendPut(buf, rec)
}
