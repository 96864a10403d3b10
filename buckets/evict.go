package buckets

import (
	"math/bits"
	"time"
)

// evictShare is the part of a shard's live bytes that is evicted when there is no room: so
// much that the search through all its records is shared by many inserts.
const evictShare = 16

// evict drops records to make room for a demand, and reports whether there is room now. If
// the records that may be dropped are not enough it drops nothing.
//
// Dropped are those of the lowest ranks, and none of a higher rank than the new record has. So
// a flood of keys displaces only keys that have used no greater share of their limits than
// those of the flood.
func (s *shard) evict(d demand, now uint64) bool {
	defer since(&s.shared.pauses.eviction, time.Now())
	d.rank = s.discount(d)
	var c census
	c.take(s, now)
	enough := c.upTo(d.rank)
	need := max(1, d.size-(cap(s.arena)-s.liveBytes()))
	if enough < need {
		return false
	}
	s.evictBytes(&c, max(need, min(enough, s.liveBytes()/evictShare)), now)
	s.compact()
	return s.hasRoom(d) // several records may need more places in the index than have become free
}

// largeRecord is how many times as large as the others of its shard a record may be before its
// share counts less.
const largeRecord = 16

// discount returns the rank of a demand, with a smaller share if its records are much larger
// than those that would make room for them: few long keys must not displace many short ones
// that have used a little less. Only a record that is to be added is judged by that. Once it is
// there, its name costs it nothing.
func (s *shard) discount(d demand) rank {
	if d.rank == 0 || s.live == 0 {
		return d.rank
	}
	usual := largeRecord * s.liveBytes() / int(s.live)
	excess := d.size / d.records / max(1, usual)
	return newRank(max(1, d.rank.share()-8*bits.Len(uint(excess))), d.rank.debt())
}

// evictBytes drops records of so many bytes, or all, from the lowest rank on.
func (s *shard) evictBytes(c *census, want int, now uint64) {
	last, want := c.lastRank(want)
	for at := 0; at < len(s.index); {
		if s.index[at] == 0 {
			at++
			continue
		}
		rec := s.record(at)
		share := rec.share(now)
		if share > last.share() {
			at++
			continue
		}
		if share == last.share() {
			switch debt := debtClass(rec.expires(), now, rec.size()); {
			case debt > last.debt(), debt == last.debt() && want <= 0:
				at++
				continue
			case debt == last.debt():
				want -= rec.size()
			}
		}
		s.evictAt(at, now) // another slot may move into the gap: the position is looked at again
	}
}

// evictAt drops the record at an index position.
func (s *shard) evictAt(at int, now uint64) {
	if s.record(at).expires() <= now {
		s.expired++
	} else {
		s.shared.memory.evicted.Add(1)
	}
	if !s.droppable(at, now) {
		s.remember(at, 0)
	}
	s.remove(at)
}
