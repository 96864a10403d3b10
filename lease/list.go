package lease

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/internal/fields"
	"github.com/throttledhq/throttled/limiter"
)

// MaxLeases and MaxLeasesOfLessee bound the outstanding leases of a key.
const (
	MaxLeases         = 64 // of all lessees
	MaxLeasesOfLessee = 16 // of one lessee
)

// lease is one entry of a list.
type lease struct {
	id uint64
	// end is the time from which the units can no longer be spent or returned. Times are limiter times in nanoseconds.
	end uint64
	// asOf is the time as of which the units are charged: for a window or a bucket the end of the window, the sub-window or
	// the refill interval in which they were charged, and otherwise the end of the lease or, if it is relaxed, the time of the
	// draw (see also rescale).
	asOf  uint64
	units uint64 // granted and not returned; at least 1
	// limit is the limit by which the units count: that of the draw or, for a window or a bucket, that of the last change.
	limit        limiter.Limit
	user, lessee []byte
}

// charged returns the time that the units of a lease of a GCRA limit take to be restored, in nanoseconds. It saturates.
func (e *lease) charged() uint64 {
	hi, ns := bits.Mul64(e.units, uint64(e.limit.Interval))
	if hi != 0 || ns > math.MaxInt64 {
		return math.MaxInt64
	}
	return ns
}

// relaxed returns the time by which the lease ends after the time as of which it is charged: 0 for a strict lease.
func (e *lease) relaxed() time.Duration {
	return time.Duration(min(e.end-min(e.end, e.asOf), math.MaxInt64))
}

// list holds the leases of a key in the order of their draws.
type list []lease

// find returns the index of the lease with an id, or -1.
func (l list) find(id uint64) int {
	return slices.IndexFunc(l, func(e lease) bool { return e.id == id })
}

// prune removes the leases that have ended.
func (l list) prune(now uint64) list {
	if failpoint.Is(failpoint.LeaseLateReturn) {
		now -= min(now, uint64(10*time.Second))
	}
	return slices.DeleteFunc(l, func(e lease) bool { return e.end <= now })
}

// units returns the sum of the units. It saturates.
func (l list) units() (sum uint64) {
	for i := range l {
		sum = add(sum, l[i].units)
	}
	return sum
}

// until returns the time at which the last lease ends, or 0.
func (l list) until() (end uint64) {
	for i := range l {
		end = max(end, l[i].end)
	}
	return end
}

// of returns the number of leases of a lessee.
func (l list) of(lessee string) (n int) {
	for i := range l {
		if string(l[i].lessee) == lessee {
			n++
		}
	}
	return n
}

// lessees returns the number of different lessees, including the named one.
func (l list) lessees(name string) int {
	n := 1
	for i := range l {
		same := func(e lease) bool { return string(e.lessee) == string(l[i].lessee) }
		if string(l[i].lessee) != name && !slices.ContainsFunc(l[:i], same) {
			n++
		}
	}
	return n
}

// floor returns the lowest theoretical arrival time at which the leases that are charged as of a later time than after
// are still charged completely: for each of them, its asOf plus its charge and those of all leases with the same or a
// later asOf.
func (l list) floor(after uint64) (tat uint64) {
	for i := range l {
		if l[i].asOf <= after {
			continue
		}
		at := l[i].asOf
		for j := range l {
			if l[j].asOf >= l[i].asOf {
				at = min(add(at, l[j].charged()), math.MaxInt64)
			}
		}
		tat = max(tat, at)
	}
	return tat
}

// add returns a + b, saturated at the largest uint64.
func add(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}

// appendTo appends the encoded leases. Each lease is encoded as id, end and asOf, 8 bytes each and little endian, and then
// as uvarints: units, Max, Interval and Amount of the limit, and the sizes of user and lessee, each followed by its bytes.
func (l list) appendTo(b []byte) []byte {
	for i := range l {
		e := &l[i]
		for _, n := range [...]uint64{e.id, e.end, e.asOf} {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
		for _, n := range [...]uint64{e.units, uint64(e.limit.Max), uint64(e.limit.Interval), uint64(e.limit.Amount)} {
			b = binary.AppendUvarint(b, n)
		}
		b = append(binary.AppendUvarint(b, uint64(len(e.user))), e.user...)
		b = append(binary.AppendUvarint(b, uint64(len(e.lessee))), e.lessee...)
	}
	return b
}

// parse decodes the encoded leases into buf. The names in the list refer to the memory of b. It returns false if b is
// malformed.
func parse(b []byte, buf list) (l list, ok bool) {
	r := reader{fields.Reader{Rest: b}}
	for l = buf[:0]; len(r.Rest) > 0; {
		e := lease{id: r.Fixed(), end: r.Fixed(), asOf: r.Fixed(), units: r.number()}
		e.limit = limiter.Limit{Max: r.int(), Interval: time.Duration(r.int()), Amount: r.int()}
		e.user, e.lessee = r.bytes(), r.bytes()
		if r.Failed || len(l) == MaxLeases || e.units == 0 || e.limit.Max < 1 || e.limit.Interval < 1 {
			return nil, false
		}
		l = append(l, e)
	}
	return l, true
}

// reader decodes the fields of leases.
type reader struct{ fields.Reader }

// number decodes a uvarint.
func (r *reader) number() uint64 { return r.Number(math.MaxUint64) }

// int decodes a uvarint that must fit in an int64.
func (r *reader) int() int64 { return int64(r.Number(math.MaxInt64)) }

// bytes decodes bytes that are preceded by their size.
func (r *reader) bytes() []byte { return r.Bytes(r.number()) }
