package buckets

import (
	"bytes"
	"iter"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/throttledhq/throttled/limiter"
)

// CommittedRecords is Records as if all that is not committed had been taken back. Left out is
// what has expired by the log time that Commit and Replay were told. Without a journal all is
// committed.
func (t *Table) CommittedRecords() iter.Seq[limiter.Record] {
	return func(yield func(limiter.Record) bool) {
		var v committedView
		for i := range t.shards {
			t.shards[i].viewCommitted(&v, t.clock())
			if !v.yield(yield) {
				return
			}
		}
	}
}

// Hash returns a hash of the records that CommittedRecords has and that expire after now, in
// nanoseconds, and how many they are. It is the same for the same records, whatever table they
// are in.
func (t *Table) Hash(now uint64) (sum uint64, keys int64) {
	var buf []byte
	for rec := range t.CommittedRecords() {
		if rec.Expires > now {
			buf = appendRecord(buf[:0], &rec)
			sum += xxhash.Sum64(buf)
			keys++
		}
	}
	return sum, keys
}

// committedView is a shard without what is not committed.
type committedView struct {
	arena   []byte
	changed map[string]record // what keys of the arena, or others, are instead; nil if absent
	now     uint64
}

// viewCommitted makes a view of the shard. The arena of the view grows, if it has to, while the
// shard is not locked.
func (s *shard) viewCommitted(v *committedView, now uint64) {
	for {
		s.mu.Lock()
		begin := time.Now()
		base := s.undone(v)
		if n := len(base.arena); n > cap(v.arena) {
			s.mu.Unlock()
			v.arena = make([]byte, 0, n+n/4)
			continue
		}
		v.arena = append(v.arena[:0], base.arena...)
		v.now = now
		if s.journaled {
			v.now = s.shared.settled.Load()
		}
		s.mu.Unlock()
		since(&s.shared.pauses.copying, begin)
		return
	}
}

// undone undoes in the view what is not committed, and returns the shard to which that applies:
// this one, or what it was before it was cleared.
func (s *shard) undone(v *committedView) (base *shard) {
	clear(v.changed)
	if !s.journaled {
		return s
	}
	j := s.journal()
	base = s
	images := len(j.images)
	for i := len(j.entries) - 1; i >= j.until(s.shared.committed.Load()); i-- {
		e := &j.entries[i]
		if e.at == cleared {
			images--
			clear(v.changed)
			base = &shard{index: j.images[images].index, arena: j.images[images].arena}
			continue
		}
		v.undo(base, e, j.record(e))
	}
	return base
}

func (v *committedView) undo(base *shard, e *entry, old record) {
	if v.changed == nil {
		v.changed = map[string]record{}
	}
	key := string(old.key())
	switch {
	case old.kind() == 0:
		v.changed[key] = nil
	case e.from == 0:
		v.changed[key] = bytes.Clone(old)
	default:
		rec, seen := v.changed[key]
		if !seen {
			rec = base.mustFind(old.key(), e.tag)
			rec = bytes.Clone(rec[:rec.size()])
			v.changed[key] = rec
		}
		rec.undoTail(old, int(e.from))
	}
}

func (v *committedView) yield(yield func(limiter.Record) bool) bool {
	for arena := v.arena; len(arena) > 0; {
		rec := record(arena)
		arena = arena[rec.size():]
		if rec.dead() || rec.expires() <= v.now {
			continue
		}
		if len(v.changed) > 0 {
			if _, changed := v.changed[string(rec.key())]; changed {
				continue
			}
		}
		if !yield(rec.whole()) {
			return false
		}
	}
	for _, rec := range v.changed {
		if rec != nil && rec.expires() > v.now && !yield(rec.whole()) {
			return false
		}
	}
	return true
}
