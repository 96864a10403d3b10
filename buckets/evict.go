package buckets

import (
	"math/bits"
	"time"
)

// evictShare is the part of a shard's live bytes that goes when there is no room: so much
// that going through all its records is shared by many inserts.
const evictShare = 16

// evict drops the records with the smallest debts, which is the time they have left, until
// there is room for a record of size bytes and for some more. What goes has no more debt
// than what stays, but for an eighth, as debts are sorted into classes of that width.
//
// So who exhausts a key and then floods the table with others to have it forgotten has to
// drive all of those as deep into debt, which costs as much as what he would gain.
func (s *shard) evict(size int, now uint64) {
	defer since(&s.shared.pauses.eviction, time.Now())
	var classes [debtClasses]int // bytes of records
	for at, sl := range s.index {
		if sl != 0 {
			rec := s.record(at)
			classes[debtClass(rec.expires(), now)] += rec.size()
		}
	}
	want := max(size, s.liveBytes()/evictShare)
	last := 0 // the class with which there is enough
	for ; last < debtClasses-1 && classes[last] < want; last++ {
		want -= classes[last]
	}
	s.evictUpTo(last, want, now)
}

// evictUpTo drops all records of the classes below last, and so many bytes of that one.
func (s *shard) evictUpTo(last, want int, now uint64) {
	for at := 0; at < len(s.index); {
		if s.index[at] == 0 {
			at++
			continue
		}
		rec := s.record(at)
		class := debtClass(rec.expires(), now)
		if class > last || class == last && want <= 0 {
			at++
			continue
		}
		if class == last {
			want -= rec.size()
		}
		// Another slot may move into the gap, so the position is looked at again.
		s.remove(at)
		if class == 0 {
			s.expired++
		} else {
			s.shared.memory.evicted.Add(1)
		}
	}
}

// debtClasses is eight classes for each power of two of a debt.
const debtClasses = 8 * 65

// debtClass sorts debts, in nanoseconds, into classes: a debt of a higher class is the
// greater one. Class 0 has none.
func debtClass(expires, now uint64) int {
	if expires <= now {
		return 0
	}
	debt := expires - now
	n := bits.Len64(debt)
	return 8*n + int(debt<<(64-n)>>60&7)
}
