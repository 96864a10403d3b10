package tokenbucket

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// dataSize is the length of a key's Data in bytes: used and anchor.
const dataSize = 16

// Decide decides a request for quantity tokens at time now, in nanoseconds below 1<<63, for
// a key with state old, which is the zero State for an absent key. It returns the change of
// the state and the decision. The Tail of the change uses the memory of room, whose contents
// are overwritten.
//
// Only a charge, and a refund on a bucket that is not full, change the state. A change whose
// Expires is now means that the bucket is full.
//
// The limit l must be made by NewLimit. Decide never panics on such a limit, retains
// neither old.Data nor room, leaves d.Err nil, and allocates nothing if room has a capacity
// of 16 bytes.
func Decide(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (c limiter.Change, d limiter.Decision) {
	b := open(l, old, now)
	d.Limit, d.RetryAfter = l.Max, limiter.NoRetry
	switch {
	case quantity > l.Max:
		d.Limited = true
	case quantity >= 0:
		// Subtracting the quantity from Max, instead of adding it to used, cannot
		// overflow.
		if most := uint64(l.Max - quantity); b.used > most {
			d.Limited, d.RetryAfter = true, b.until(l, most, now)
		} else {
			b.used += uint64(quantity)
			c.Set = quantity > 0
		}
	case b.used > 0:
		// Negating the quantity as a uint64 gives the correct magnitude of the smallest int64 too.
		b.used -= min(b.used, -uint64(quantity))
		c.Set = true
	}
	if c.Set {
		b.expires = math.MaxUint64
	}
	d.Remaining = l.Max - int64(min(b.used, uint64(l.Max)))
	d.ResetAfter = b.until(l, 0, now)
	if c.Set {
		c.Expires = now + uint64(d.ResetAfter)
		c.Tail = appendPair(room[:0], b.used, b.anchor)
	}
	return c, d
}

// A bucket is the state of a key as of its last refill.
type bucket struct {
	used, anchor uint64
	// expires is the time from which the bucket counts as full regardless of its refills,
	// because the state has expired.
	expires uint64
}

// open decodes a state and applies the refills up to now.
func open(l *limiter.Limit, old limiter.State, now uint64) bucket {
	full := bucket{anchor: now}
	if old.Expires <= now || len(old.Data) != dataSize {
		return full
	}
	b := bucket{
		used:    binary.LittleEndian.Uint64(old.Data),
		anchor:  binary.LittleEndian.Uint64(old.Data[8:]),
		expires: old.Expires,
	}
	if b.anchor < now {
		refills := (now - b.anchor) / uint64(l.Interval)
		hi, tokens := bits.Mul64(refills, uint64(l.Amount))
		if hi != 0 || tokens >= b.used {
			return full
		}
		b.used -= tokens
		b.anchor += refills * uint64(l.Interval)
	}
	if b.used == 0 {
		return full
	}
	return b
}

// until returns the time until the number of used tokens falls to the argument most, capped
// at the largest Duration.
func (b bucket) until(l *limiter.Limit, most, now uint64) time.Duration {
	if b.used <= most {
		return 0
	}
	refills := ceilDiv(b.used-most, uint64(l.Amount))
	// The time is computed with 128 bits, since a state set manually may hold any numbers.
	hi, at := bits.Mul64(refills, uint64(l.Interval))
	at, carry := bits.Add64(at, b.anchor, 0)
	if hi+carry != 0 || at > b.expires {
		at = b.expires
	}
	return time.Duration(min(at-now, math.MaxInt64))
}
