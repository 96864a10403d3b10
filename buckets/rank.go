package buckets

import (
	"math/bits"

	"github.com/throttledhq/throttled/limiter"
)

// rank orders keys for eviction: a key of a lower rank is dropped first. It is the class of
// the share of its limit that the key has used, and below that the class of its debt. 0 is a
// key whose time has passed.
//
// The share comes first, whatever the limits are: keys that have used little can be had in any
// number, and with any time left, by asking for other limits.
type rank int

const debtBits = 10 // hold a debt class

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

// share returns the share of the rank of a record.
func (r record) share(now uint64) int {
	if expires := r.expires(); expires > now {
		return r.gauge().shareClass(r.kind(), expires, now)
	}
	return 0
}

// census is how many bytes of the records of a shard are of each rank at a time.
type census struct {
	shard  *shard
	now    uint64
	shares [shareClasses]int
	debts  [debtClasses]int // of the records of one share
	of     int              // that share; -1: none yet
}

// take counts the bytes of the records of each share.
func (c *census) take(s *shard, now uint64) {
	c.shard, c.now, c.of = s, now, -1
	for _, sl := range s.index {
		if sl != 0 {
			rec := record(s.arena[sl.offset():])
			c.shares[rec.share(now)] += rec.size()
		}
	}
}

// debtsOf returns the bytes of the records of each debt, of those of one share.
func (c *census) debtsOf(share int) []int {
	if c.of == share {
		return c.debts[:]
	}
	c.of = share
	clear(c.debts[:])
	for _, sl := range c.shard.index {
		if sl == 0 {
			continue
		}
		if rec := record(c.shard.arena[sl.offset():]); rec.share(c.now) == share {
			size := rec.size()
			c.debts[debtClass(rec.expires(), c.now, size)] += size
		}
	}
	return c.debts[:]
}

// upTo returns the bytes of the records up to a rank.
func (c *census) upTo(r rank) int {
	below := sum(c.shares[:r.share()])
	if c.shares[r.share()] == 0 {
		return below
	}
	return below + sum(c.debtsOf(r.share())[:r.debt()+1])
}

// lastRank returns the rank with which there are so many bytes, and how many of them are of
// that rank.
func (c *census) lastRank(want int) (last rank, rest int) {
	share, want := firstWith(c.shares[:], want)
	debt, want := firstWith(c.debtsOf(share), want)
	return newRank(share, debt), want
}

// firstWith returns the first class with which there are so many bytes, or the last class, and
// how many of the bytes are of that class.
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

// debtClasses is eight classes for each power of two of a debt.
const debtClasses = 8 * 65

// debtClass sorts debts, which are the time that a key has left in nanoseconds for each byte of
// its record, into classes: one of a higher class is the greater one. Class 0 has none.
func debtClass(expires, now uint64, size int) int {
	if expires <= now {
		return 0
	}
	debt := max(1, (expires-now)/uint64(size))
	n := bits.Len64(debt)
	return 8*n + int(debt<<(64-n)>>60&7)
}
