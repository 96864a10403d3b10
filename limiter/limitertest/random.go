package limitertest

import (
	"flag"
	"math"
	"math/rand/v2"

	"github.com/throttledhq/throttled/limiter"
)

var steps = flag.Int("steps", 0, "number of random steps of a test against an oracle; 0 for the default of the test")

// Steps returns the number of random steps for a test: usual, or the value of the flag -steps
// if it is set. More steps are useful after a change to the arithmetic:
//
//	go test ./gcra -args -steps 10000000
func Steps(usual int) int {
	if *steps > 0 {
		return *steps
	}
	return usual
}

// AnyInt draws an int64 of any magnitude, often next to a power of two or to the largest,
// and sometimes negative.
func AnyInt(r *rand.Rand) int64 {
	v := int64(r.Uint64() >> (1 + r.UintN(63)))
	switch r.UintN(8) {
	case 0:
		v = -v
	case 1:
		v = int64(1)<<r.UintN(63) - 1 + r.Int64N(3)
	case 2:
		v = math.MaxInt64 - r.Int64N(3)
	case 3:
		v = r.Int64N(8)
	}
	return v
}

// Within folds any v into 1..most: 0 becomes 1, and most-1 most.
func Within(v, most int64) int64 { return 1 + int64(uint64(v)%uint64(most)) }

// AnyQuantity draws a quantity that a limit treats specially, or any: a peek, the limit or one
// unit more or less, the smallest numbers, refunds, single units.
func AnyQuantity(r *rand.Rand, l limiter.Limit) int64 {
	switch r.UintN(10) {
	case 0:
		return 0
	case 1:
		return l.Max - 1 + r.Int64N(3) // may wrap to the smallest int64
	case 2:
		return math.MinInt64 + r.Int64N(2)
	case 3:
		return AnyInt(r)
	case 4:
		return -Within(AnyInt(r), l.Max)
	case 5, 6:
		return 1
	}
	return Within(r.Int64(), l.Max)
}
