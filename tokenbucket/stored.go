package tokenbucket

import (
	"encoding/binary"
	"math"

	"github.com/throttledhq/throttled/limiter"
)

// Contents is the content of a state.
type Contents struct {
	Used   uint64 // tokens in use after the refill at Anchor
	Anchor uint64 // time of that refill, in nanoseconds
}

// Stored returns the content of a state of Decide. It returns ok false if the state is malformed.
func Stored(old limiter.State) (c Contents, ok bool) {
	if len(old.Data) != dataSize {
		return c, false
	}
	return Contents{binary.LittleEndian.Uint64(old.Data), binary.LittleEndian.Uint64(old.Data[8:])}, true
}

// StoredScaled returns the content of a state of DecideScaled at time now, and the interval and the amount of its refills,
// as a limit without Max. It returns ok false if the state is malformed.
func StoredScaled(old limiter.State, now uint64) (c Contents, refills limiter.Limit, ok bool) {
	refills = rateOf(&old)
	if refills.Interval == 0 {
		return c, refills, false
	}
	b := open(&refills, limiter.State{Expires: old.Expires, Data: old.Data[rateSize:]}, now)
	return Contents{b.used, b.anchor}, refills, true
}

// Hold returns a state of the given kind, TokenBucket or ScaledBucket, with the refills of l: old as of time now, but with
// at least used tokens in use, and the next refill not before the time until. Later refills are postponed, too.
func Hold(kind limiter.Kind, l *limiter.Limit, old limiter.State, now, used, until uint64) limiter.State {
	var b bucket
	var data []byte
	if kind == limiter.ScaledBucket {
		if stored := rateOf(&old); stored.Interval > 0 {
			b = open(&stored, limiter.State{Expires: old.Expires, Data: old.Data[rateSize:]}, now)
			if stored.Interval != l.Interval {
				b.anchor = now // as in decideChanged
			}
		}
		data = appendPair(nil, uint64(l.Interval), uint64(l.Amount))
	} else {
		b = open(l, old, now)
	}
	if b.used == 0 {
		b.anchor = now
	}
	b.used, b.expires = max(b.used, used), math.MaxUint64
	b.anchor = max(b.anchor, until-min(until, uint64(l.Interval)))
	return limiter.State{Expires: now + uint64(b.until(l, 0, now)), Data: appendPair(data, b.used, b.anchor)}
}
