package tokenbucket

import (
	"math/bits"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// NewLimit compiles a limit on a bucket of capacity tokens, to which refillAmount tokens
// are added every refillInterval.
//
// It returns limiter.ErrRange if a parameter is not positive, or if the time that an
// empty bucket takes to fill, ceil(capacity / refillAmount) * refillInterval, is more
// than an int64 of nanoseconds.
func NewLimit(capacity, refillAmount int64, refillInterval limiter.Period) (limiter.Limit, error) {
	interval, ok := refillInterval.Duration()
	if capacity <= 0 || refillAmount <= 0 || !ok {
		return limiter.Limit{}, limiter.ErrRange
	}
	refills := ceilDiv(uint64(capacity), uint64(refillAmount))
	if hi, fill := bits.Mul64(refills, uint64(interval)); hi != 0 || time.Duration(fill) < 0 {
		return limiter.Limit{}, limiter.ErrRange
	}
	return limiter.Limit{Max: capacity, Interval: interval, Amount: refillAmount}, nil
}

// ceilDiv returns a / b rounded up, for a above 0.
func ceilDiv(a, b uint64) uint64 { return (a-1)/b + 1 }
