package buckets

import (
	"iter"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Records iterates over the live records, shard by shard, while the table is in use. The records of
// each shard are a consistent snapshot, taken when the iteration reaches that shard. All decisions
// made before the call of Records are included. A record is valid until the next record is yielded.
//
// A shard is locked only while it is copied.
func (t *Table) Records() iter.Seq[limiter.Record] {
	return func(yield func(limiter.Record) bool) {
		var arena []byte
		var now uint64
		for i := range t.shards {
			arena, now = t.shards[i].copyArena(arena, t.clock())
			if !yieldLive(arena, now, yield) {
				return
			}
		}
	}
}

// copyArena returns a copy of the arena and the time of the shard. The copy is stored in the memory of
// buf if buf is large enough. Otherwise copyArena unlocks the shard before it allocates more.
func (s *shard) copyArena(buf []byte, now uint64) ([]byte, uint64) {
	for {
		now = s.lock(now)
		if n := len(s.arena); n > cap(buf) {
			s.mu.Unlock()
			buf = make([]byte, 0, n+n/4)
			continue
		}
		begin := time.Now()
		buf = append(buf[:0], s.arena...)
		s.mu.Unlock()
		since(&s.shared.pauses.copying, begin)
		return buf, now
	}
}

func yieldLive(arena []byte, now uint64, yield func(limiter.Record) bool) bool {
	for len(arena) > 0 {
		rec := record(arena)
		if !rec.dead() && rec.expires() > now && !yield(rec.whole()) {
			return false
		}
		arena = arena[rec.size():]
	}
	return true
}
