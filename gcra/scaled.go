package gcra

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/throttledhq/throttled/internal/muldiv"
	"github.com/throttledhq/throttled/limiter"
)

// scaledSize is the length in bytes of the Data of a scaled state: the emission interval.
const scaledSize = 8

// DecideScaled is Decide for limits that change: the state contains the emission interval under which it was charged,
// and used units remain used if l has another interval. See Changed limits in the package comment. The Expires of the
// state is the TAT; old is the zero State for an absent key.
//
// The Tail of the change uses the memory of room. It is empty while the interval is unchanged. A peek does not change the
// state. A refused request changes it only from a longer interval to that of l, which shortens the wait. DecideScaled
// accepts a limit l whose Max is 0: it refuses each charge. DecideScaled allocates nothing if room has a capacity of 8
// bytes.
func DecideScaled(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (c limiter.Change, d limiter.Decision) {
	tat, stored := Rescale(&old, l.Interval, now)
	c.Expires, d = Decide(*l, tat, now, quantity)
	c.Set = c.Expires != tat || d.Limited && quantity > 0 && l.Interval < stored
	switch {
	case stored == l.Interval:
		c.Keep = scaledSize
	case c.Set:
		c.Tail = binary.LittleEndian.AppendUint64(room[:0], uint64(l.Interval))
	case stored > 0:
		// The state keeps its interval, so the times are those of the old TAT.
		d.ResetAfter = usedAt(old.Expires, now)
		if d.RetryAfter != limiter.NoRetry {
			room := uint64(l.Interval) * uint64(l.Max-quantity)
			most, _ := muldiv.Floor(room, uint64(stored), uint64(l.Interval)) // less than the used time, because the request is refused
			d.RetryAfter = d.ResetAfter - time.Duration(most)
		}
	}
	return c, d
}

// HasInterval reports whether a state of DecideScaled has the given emission interval. The decision is then that of
// Decide, and the Data of the state does not change.
func HasInterval(old *limiter.State, interval time.Duration) bool {
	return len(old.Data) == scaledSize && binary.LittleEndian.Uint64(old.Data) == uint64(interval)
}

// Rescale returns the TAT that a state of DecideScaled has with the given emission interval, and the interval in the
// state. If the state is malformed, or the key is at rest, both are 0.
func Rescale(old *limiter.State, interval time.Duration, now uint64) (tat uint64, stored time.Duration) {
	if old.Expires <= now || len(old.Data) != scaledSize {
		return 0, 0
	}
	stored = time.Duration(binary.LittleEndian.Uint64(old.Data))
	if stored == interval {
		return old.Expires, stored
	}
	if stored <= 0 {
		return 0, 0
	}
	used, ok := muldiv.Ceil(uint64(usedAt(old.Expires, now)), uint64(interval), uint64(stored))
	if !ok || used > math.MaxInt64 {
		used = math.MaxInt64
	}
	return now + used, stored
}
