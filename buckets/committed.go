package buckets

import (
	"bytes"
	"iter"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/throttledhq/throttled/limiter"
)

// CommittedRecords iterates over the records like Records, but without the effects of uncommitted
// generations. In a replicated table, it omits records that have expired by the log time last passed
// to Commit or Replay. If a table is not replicated, all of its records are committed.
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

// Hash returns a hash of the committed records that expire after the limiter time now, and the
// number of these records. The same records have the same hash in any order and in any table.
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

// committedView is a copy of a shard without the effects of uncommitted generations. For keys in
// overrides, it ignores the records in the arena.
type committedView struct {
	arena     []byte
	overrides map[string]record // by key: the committed record of a key with uncommitted changes, or nil if absent
	now       uint64
}

// viewCommitted fills v from the shard. If the arena of the view has to grow, the new arena is
// allocated without holding the lock of the shard.
func (s *shard) viewCommitted(v *committedView, now uint64) {
	for {
		s.mu.Lock()
		begin := time.Now()
		base := s.fillOverrides(v)
		if n := len(base.arena); n > cap(v.arena) {
			s.mu.Unlock()
			v.arena = make([]byte, 0, n+n/4)
			continue
		}
		v.arena = append(v.arena[:0], base.arena...)
		v.now = now
		if s.replicated {
			v.now = s.shared.settled.Load()
		}
		s.mu.Unlock()
		since(&s.shared.pauses.copying, begin)
		return
	}
}

// fillOverrides stores the committed records of all keys with uncommitted changes in v.overrides.
// It returns the shard that holds the committed records of all other keys: s or, if s was cleared
// in an uncommitted generation, a shard with the content before the first such clear.
func (s *shard) fillOverrides(v *committedView) (base *shard) {
	clear(v.overrides)
	if !s.replicated {
		return s
	}
	u := s.undoLog()
	base = s
	images := len(u.images)
	for i := len(u.entries) - 1; i >= u.until(s.shared.committed.Load()); i-- {
		e := &u.entries[i]
		if e.at == cleared {
			images--
			clear(v.overrides)
			base = &shard{index: u.images[images].index, arena: u.images[images].arena}
			continue
		}
		v.undo(base, e, u.record(e))
	}
	return base
}

func (v *committedView) undo(base *shard, e *entry, old record) {
	if v.overrides == nil {
		v.overrides = map[string]record{}
	}
	key := string(old.key())
	switch {
	case old.kind() == 0:
		v.overrides[key] = nil
	case e.from == 0:
		v.overrides[key] = bytes.Clone(old)
	default:
		rec, seen := v.overrides[key]
		if !seen {
			rec = base.mustFind(old.key(), e.tag)
			rec = bytes.Clone(rec[:rec.size()])
			v.overrides[key] = rec
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
		if len(v.overrides) > 0 {
			if _, overridden := v.overrides[string(rec.key())]; overridden {
				continue
			}
		}
		if !yield(rec.whole()) {
			return false
		}
	}
	for _, rec := range v.overrides {
		if rec != nil && rec.expires() > v.now && !yield(rec.whole()) {
			return false
		}
	}
	return true
}
