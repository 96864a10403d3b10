package buckets

import "math/bits"

// Collect closes the open generation and appends its changes to buf: one change per key, regardless
// of the number of decisions on it. It returns the number of the generation and the extended buf. If
// nothing has changed in the generation, it returns buf unmodified. On a follower, Collect has no
// effect and returns 0 and buf.
//
// The caller must read the log time of the changes from the Clock after Collect has returned and
// before it calls Collect again. The log time is then not before the time of any decision that made
// these changes.
func (t *Table) Collect(buf []byte) (generation uint64, changes []byte) {
	t.roleMu.Lock()
	defer t.roleMu.Unlock()
	if t.epoch.Load() == 0 {
		return 0, buf
	}
	t.groups.Lock()
	defer t.groups.Unlock()
	now := t.clock()
	t.pending.Store(false)
	generation = t.open.Add(1) - 1 // before dirty bits are cleared, see generationOf
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

// collect closes the generation in this shard, and appends the changes of the shard to buf.
func (s *shard) collect(buf []byte, generation, now uint64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.undoLog()
	for i := u.opened(); i < len(u.entries); i++ {
		if e := &u.entries[i]; e.at != cleared {
			buf = s.appendChange(buf, i, now)
		}
	}
	u.closed = append(u.closed, mark{generation, len(u.entries)})
	u.collected, u.dirty, u.removed = generation, false, false
	return buf
}

// appendChange appends the change of the key of undo entry i: its current state, or a delete if the
// key is absent. It appends only the changed tail of the state if the followers certainly hold the
// previous record. Followers may have dropped the previous record if it has expired by their log
// time. This log time is not known here, but it is not later than now. Therefore appendChange
// appends the tail only if the previous record has not expired at time now.
func (s *shard) appendChange(buf []byte, i int, now uint64) []byte {
	u := s.undoLog()
	e := &u.entries[i]
	old := u.record(e)
	at, found := s.find(old.key(), e.tag)
	if !found {
		if newest := u.find(old.key(), e.tag, lookBack); newest > i {
			return buf // the change is appended for the newest entry of the key
		}
		return appendDelete(buf, old.key())
	}
	rec := s.record(at)
	flagsBefore := rec[0] & flags
	rec[0] &^= flags
	switch {
	case flagsBefore == 0:
		return buf // already appended for an earlier entry of the key
	case flagsBefore&tailFlag != 0 && old.expires() > now:
		return appendTail(buf, rec, int(e.from))
	}
	return appendPut(buf, rec)
}
