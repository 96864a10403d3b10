package tokenbucket

import (
	"encoding/binary"

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
