package buckets

import (
	"math/bits"
	"time"
)

// evictShare determines how much one eviction drops: 1/evictShare of the live bytes of the shard.
// This amortizes the scan of all records over many inserts. An eviction drops more than this share
// if the demand needs more, and less if the records that may be dropped are smaller in total (see
// evict).
const evictShare = 16

// evict drops records to make room for a demand, and reports whether there is room now. If the
// records that may be dropped are not sufficient, it drops none.
//
// It drops records in ascending order of their rank (see rank), and none with a higher rank than the
// demand. A flood of new keys therefore displaces only keys that have used no greater share of their
// limit than the keys of the flood.
func (s *shard) evict(d demand, now uint64) bool {
	defer since(&s.shared.pauses.eviction, time.Now())
	d.rank = s.discount(d)
	var c histogram
	c.countShares(s, now)
	enough := c.upTo(d.rank)
	need := max(1, d.size-(cap(s.arena)-s.liveBytes()))
	if enough < need {
		return false
	}
	s.evictBytes(&c, max(need, min(enough, s.liveBytes()/evictShare)), now)
	s.compact()
	return s.hasRoom(d) // a demand of several records may need more index slots than eviction has freed
}

// largeRecord is the size from which a new record counts as large, as a multiple of the average size
// of the records in its shard.
const largeRecord = 16

// discount returns the rank of a demand, with a reduced share if its records are large (see
// largeRecord): a few long keys must not displace many short keys with a slightly smaller share. The
// share of a stored record is never reduced because of its size.
func (s *shard) discount(d demand) rank {
	if d.rank == 0 || s.live == 0 {
		return d.rank
	}
	usual := largeRecord * s.liveBytes() / int(s.live)
	excess := d.size / d.records / max(1, usual)
	return newRank(max(1, d.rank.share()-8*bits.Len(uint(excess))), d.rank.debt())
}

// evictBytes drops the records with the lowest ranks: at least want bytes in total, or all records. It drops no record
// with outstanding leases.
func (s *shard) evictBytes(c *histogram, want int, now uint64) {
	last, want := c.lastRank(want)
	for at := 0; at < len(s.index); {
		if s.index[at] == 0 || s.record(at).pinned(now) {
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
		s.evictAt(at, now) // another slot may have moved to this position: examine the position again
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
		s.saveOld(at, 0)
	}
	s.remove(at)
}
