package buckets

import (
	"math/bits"
	"time"
)

// evictShare is the part of a shard's live bytes that goes when there is no room: so much
// that going through all its records is shared by many inserts.
const evictShare = 16

// evict drops records to make room for a demand, and reports whether there is room now. If
// what may go is not enough it drops nothing.
//
// Those go that have the smallest debts, which is the time they have left, for the bytes
// that they take; and none goes that has more than the new record would bring, but for an
// eighth, as debts are sorted into classes of that width. So who floods the table to have
// the debts of others or his own forgotten has to run up as much in the same memory. Were
// the bytes left out, a few large keys would push out many small ones.
func (s *shard) evict(d demand, now uint64) bool {
	defer since(&s.shared.pauses.eviction, time.Now())
	classes := s.debts(now)
	enough := 0
	for _, bytes := range classes[:d.class+1] {
		enough += bytes
	}
	need := max(1, d.size-(cap(s.arena)-s.liveBytes()))
	if enough < need {
		return false
	}
	s.evictBytes(&classes, max(need, min(enough, s.liveBytes()/evictShare)), now)
	s.compact()
	return s.hasRoom(d) // several records may need more places in the index than have become free
}

// debts returns the bytes of the records of each class.
func (s *shard) debts(now uint64) (classes [debtClasses]int) {
	for at, sl := range s.index {
		if sl != 0 {
			rec := s.record(at)
			classes[debtClass(rec.expires(), now, rec.size())] += rec.size()
		}
	}
	return classes
}

// evictBytes drops records of so many bytes, class by class from the smallest debt on.
func (s *shard) evictBytes(classes *[debtClasses]int, want int, now uint64) {
	last := 0 // the class with which there is enough
	for ; last < debtClasses-1 && classes[last] < want; last++ {
		want -= classes[last]
	}
	for at := 0; at < len(s.index); {
		if s.index[at] == 0 {
			at++
			continue
		}
		rec := s.record(at)
		class := debtClass(rec.expires(), now, rec.size())
		if class > last || class == last && want <= 0 {
			at++
			continue
		}
		if class == last {
			want -= rec.size()
		}
		s.countGone(class)
		if !s.droppable(at, now) {
			s.remember(at, 0)
		}
		s.remove(at) // another slot may move into the gap: the position is looked at again
	}
}

func (s *shard) countGone(class int) {
	if class == 0 {
		s.expired++
	} else {
		s.shared.memory.evicted.Add(1)
	}
}

// relieve evicts some records if more memory is used than a limit that has been lowered
// allows, gives their memory back, and returns how many they were.
func (s *shard) relieve(now uint64) (dropped int) {
	if s.journaled && !s.journaling() {
		return 0 // what is evicted is up to the node that decides
	}
	m := &s.shared.memory
	if limit := m.limit.Load(); limit == 0 || m.used.Load() <= limit || m.evicting() == NoEviction || s.live == 0 {
		return 0
	}
	defer since(&s.shared.pauses.eviction, time.Now())
	before := s.live
	classes := s.debts(now)
	s.evictBytes(&classes, max(1, s.liveBytes()/evictShare), now)
	if want := indexSize(int(s.live)); want < len(s.index) {
		s.resizeIndex(want)
	}
	s.resizeArena(s.liveBytes())
	return int(before - s.live)
}

// debtClasses is eight classes for each power of two of a debt.
const debtClasses = 8 * 65

// debtClass sorts debts, in nanoseconds for each byte of a record, into classes: one of a
// higher class is the greater one. Class 0 has none.
func debtClass(expires, now uint64, size int) int {
	if expires <= now {
		return 0
	}
	debt := max(1, (expires-now)/uint64(size))
	n := bits.Len64(debt)
	return 8*n + int(debt<<(64-n)>>60&7)
}
