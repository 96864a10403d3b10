package tokenbucket

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// rateSize is the length in bytes of the part of a scaled state before used and anchor: the refill interval and the
// refill amount.
const rateSize = 16

// DecideScaled is Decide for limits that change: the state contains the interval and the amount of the refills under
// which it was charged, and refills up to now count with these. See Changed limits in the package comment.
//
// A peek does not change the state. A refused request changes it only to the refills of l, if the request is then admitted
// sooner. DecideScaled accepts a limit l whose Max is 0: it refuses each charge. It allocates nothing if room has a
// capacity of 32 bytes.
func DecideScaled(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (c limiter.Change, d limiter.Decision) {
	stored := rateOf(&old)
	if stored.Interval == l.Interval && stored.Amount == l.Amount {
		old.Data = old.Data[rateSize:]
		c, d = Decide(l, old, now, quantity, room)
		c.Keep = rateSize
		return c, d
	}
	return decideChanged(l, &stored, old, now, quantity, room)
}

// rateOf returns the limit in a state, without its Max. It returns the zero Limit if the state is malformed.
func rateOf(old *limiter.State) (l limiter.Limit) {
	if len(old.Data) != rateSize+dataSize {
		return l
	}
	l.Interval = time.Duration(binary.LittleEndian.Uint64(old.Data))
	l.Amount = int64(binary.LittleEndian.Uint64(old.Data[8:]))
	if l.Interval <= 0 || l.Amount <= 0 {
		return limiter.Limit{}
	}
	return l
}

// decideChanged decides a request on a state that is absent, or was charged under the refills of another limit, which is
// stored in it.
func decideChanged(l, stored *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (c limiter.Change, d limiter.Decision) {
	var b bucket
	var data, tail [dataSize]byte
	var converted limiter.State
	if stored.Interval > 0 {
		old.Data = old.Data[rateSize:]
		b = open(stored, old, now)
	}
	if b.used > 0 {
		anchor := b.anchor
		if stored.Interval != l.Interval {
			anchor = now // the next refill is due after a whole new interval, so that no refill is early
		}
		converted = limiter.State{Expires: math.MaxUint64, Data: appendPair(data[:0], b.used, anchor)}
	}
	changed, d := Decide(l, converted, now, quantity, tail[:0])
	if !changed.Set {
		kept := d // the decision if the state keeps its refills
		kept.ResetAfter = b.until(stored, 0, now)
		if d.RetryAfter != limiter.NoRetry {
			kept.RetryAfter = b.until(stored, uint64(l.Max-quantity), now)
		}
		if quantity == 0 || d.RetryAfter >= kept.RetryAfter || d.ResetAfter > kept.ResetAfter {
			return c, kept
		}
		changed.Expires, changed.Tail = now+uint64(d.ResetAfter), converted.Data
	}
	c.Set, c.Expires = true, changed.Expires
	c.Tail = appendPair(room[:0], uint64(l.Interval), uint64(l.Amount))
	c.Tail = append(c.Tail, changed.Tail...)
	return c, d
}

// appendPair appends two numbers, little endian.
func appendPair(b []byte, x, y uint64) []byte {
	b = binary.LittleEndian.AppendUint64(b, x)
	return binary.LittleEndian.AppendUint64(b, y)
}
