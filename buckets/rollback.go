package buckets

// rollback undoes all entries of uncommitted generations, newest first. The memory limit does not
// apply, since rollback only restores previous content.
func (s *shard) rollback(committed uint64) {
	u := s.undoLog()
	s.unlimited = true
	defer func() { s.unlimited = false }()
	for i := len(u.entries) - 1; i >= u.until(committed); i-- {
		s.undo(u, &u.entries[i])
	}
	u.reset()
	u.dirty, u.removed, u.collected = false, false, 0
}

// undo restores the state that an entry holds. All newer entries must already have been undone.
func (s *shard) undo(u *undoLog, e *entry) {
	if e.at == cleared {
		last := len(u.images) - 1
		s.restoreImage(&u.images[last])
		u.images[last], u.images = image{}, u.images[:last]
		return
	}
	old := u.record(e)
	if e.from > 0 {
		s.mustFind(old.key(), e.tag).undoTail(old, int(e.from))
		return
	}
	at, found := s.find(old.key(), e.tag)
	switch {
	case old.kind() == 0:
		if found {
			s.remove(at)
		}
	case found && s.record(at).size() == len(old):
		s.countLeased(s.record(at), -1)
		copy(s.record(at), old)
		s.countLeased(old, 1)
	default:
		if found {
			s.remove(at)
		}
		s.addOld(old, e.tag)
	}
}

// mustFind returns the record of a key whose undo entry holds only the tail of the previous state. It
// panics if there is no record, which cannot happen: such a record is never dropped (see droppable).
func (s *shard) mustFind(key []byte, tag uint32) record {
	at, found := s.find(key, tag)
	if !found {
		panic("buckets: the record of a tail entry in the undo log is missing")
	}
	return s.record(at)
}

// undoTail restores the previous content of a record. The argument old holds this content, except
// for the unchanged prefix of the state. The argument from is the size of this prefix.
func (r record) undoTail(old record, from int) {
	r[0] &^= flags
	r.setGauge(old.gauge())
	r.setExpires(old.expires())
	copy(r.state()[from:], old.state())
}

// addOld adds the previous record of an absent key.
func (s *shard) addOld(old record, tag uint32) {
	if err := s.makeRoom(demand{records: 1, size: len(old)}, 0); err != nil {
		panic("buckets: no room to restore a record: " + err.Error())
	}
	offset := uint32(len(s.arena))
	s.arena = append(s.arena, old...)
	s.countLeased(old, 1)
	s.place(newSlot(tag, offset))
	s.live++
}

// restoreImage restores the content of the shard before it was cleared.
func (s *shard) restoreImage(i *image) {
	s.clear()
	s.index, s.arena, s.live, s.dead = i.index, i.arena, i.live, i.dead
	s.shared.leases.records[s.number] = i.leased
	s.shared.memory.force(s.bytes())
	s.hint().set(s.index)
}
