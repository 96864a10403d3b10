package buckets

import (
	"math/bits"

	"github.com/throttledhq/throttled/limiter"
)

// rank orders keys for eviction: keys with a lower rank are dropped first. The high bits are the
// class of the used share of the key's limit (see shareClass), and the low bits are the class of
// the debt of the record (see debtClass). An expired key has rank 0.
//
// The share takes precedence over the debt. Clients choose the limits, so a client can create any
// number of keys with a small share and a long remaining time. Such keys must not displace keys
// with a greater share.
type rank int

const debtBits = 10 // width of a debt class

func newRank(share, debt int) rank { return rank(share<<debtBits | debt) }

func (r rank) share() int { return int(r >> debtBits) }

func (r rank) debt() int { return int(r & (1<<debtBits - 1)) }

// rankOf returns the rank of a key whose record has the given size.
func rankOf(kind limiter.Kind, g gauge, expires, now uint64, size int) rank {
	if expires <= now {
		return 0
	}
	return newRank(g.shareClass(kind, expires, now), debtClass(expires, now, size))
}

// share returns the class of the used share of a record, or 0 if it has expired.
func (r record) share(now uint64) int {
	if expires := r.expires(); expires > now {
		return r.gauge().shareClass(r.kind(), expires, now)
	}
	return 0
}

// histogram holds the bytes of the records of a shard by share class and, within one share class,
// by debt class. The classes are computed for the limiter time in the field now. Records with outstanding leases are not
// counted, because they are not evicted.
type histogram struct {
	shard      *shard
	now        uint64
	shares     [shareClasses]int
	debts      [debtClasses]int // bytes of the records in the share class debtsShare, by debt class
	debtsShare int              // the share class that debts describes; -1 if none yet
}

// countShares counts the bytes of the records by share class.
func (h *histogram) countShares(s *shard, now uint64) {
	h.shard, h.now, h.debtsShare = s, now, -1
	for _, sl := range s.index {
		if sl == 0 {
			continue
		}
		if rec := record(s.arena[sl.offset():]); !rec.pinned(now) {
			h.shares[rec.share(now)] += rec.size()
		}
	}
}

// debtsOf returns the bytes of the records in one share class, by debt class.
func (h *histogram) debtsOf(share int) []int {
	if h.debtsShare == share {
		return h.debts[:]
	}
	h.debtsShare = share
	clear(h.debts[:])
	for _, sl := range h.shard.index {
		if sl == 0 {
			continue
		}
		if rec := record(h.shard.arena[sl.offset():]); rec.share(h.now) == share && !rec.pinned(h.now) {
			size := rec.size()
			h.debts[debtClass(rec.expires(), h.now, size)] += size
		}
	}
	return h.debts[:]
}

// upTo returns the bytes of all records with rank r or below.
func (h *histogram) upTo(r rank) int {
	below := sum(h.shares[:r.share()])
	if h.shares[r.share()] == 0 {
		return below
	}
	return below + sum(h.debtsOf(r.share())[:r.debt()+1])
}

// lastRank returns the lowest rank r such that the records with rank r or below have at least want
// bytes in total. It also returns want minus the bytes of all lower ranks.
func (h *histogram) lastRank(want int) (last rank, rest int) {
	share, want := firstWith(h.shares[:], want)
	debt, want := firstWith(h.debtsOf(share), want)
	return newRank(share, debt), want
}

// firstWith returns the lowest class n such that the classes up to n have at least want bytes in
// total. If all classes together have fewer bytes, it returns the last class. It also returns want
// minus the bytes of all lower classes.
func firstWith(classes []int, want int) (class, rest int) {
	for ; class < len(classes)-1 && classes[class] < want; class++ {
		want -= classes[class]
	}
	return class, want
}

func sum(bytes []int) (sum int) {
	for _, n := range bytes {
		sum += n
	}
	return sum
}

// debtClasses is the number of classes of a debt: eight per power of two.
const debtClasses = 8 * 65

// debtClass returns the class of a debt: the remaining time in nanoseconds per byte of the record.
// A higher class is a greater debt. Class 0 is an expired record.
func debtClass(expires, now uint64, size int) int {
	if expires <= now {
		return 0
	}
	debt := max(1, (expires-now)/uint64(size))
	n := bits.Len64(debt)
	return 8*n + int(debt<<(64-n)>>60&7)
}
