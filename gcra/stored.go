package gcra

import (
	"encoding/binary"
	"time"

	"github.com/throttledhq/throttled/internal/muldiv"
	"github.com/throttledhq/throttled/limiter"
)

// Stored returns the emission interval in a state of DecideScaled, and the units in use at time now, rounded up. It
// returns ok false if the state is malformed.
func Stored(old limiter.State, now uint64) (interval time.Duration, used uint64, ok bool) {
	if len(old.Data) != scaledSize {
		return 0, 0, false
	}
	interval = time.Duration(binary.LittleEndian.Uint64(old.Data))
	if interval <= 0 {
		return 0, 0, false
	}
	used, ok = muldiv.Ceil(uint64(usedAt(old.Expires, now)), 1, uint64(interval))
	return interval, used, ok
}
