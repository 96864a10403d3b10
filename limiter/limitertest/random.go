package limitertest

import (
	"flag"
	"math"
	"math/rand/v2"

	"github.com/throttledhq/throttled/limiter"
)

var steps = flag.Int("steps", 0, "number of random steps of a test against an oracle; 0 for the default of the test")

// Steps returns the number of random steps for a test: the value of the flag -steps if it is set, and otherwise the
// argument. More steps are useful after a change to the arithmetic:
//
//	go test ./gcra -args -steps 10000000
func Steps(usual int) int {
	if *steps > 0 {
		return *steps
	}
	return usual
}

// AnyInt returns a random int64 of any magnitude. Numbers next to a power of two or to the largest int64 are frequent,
// and some numbers are negative.
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

// Within maps any v to a number from 1 to most, by v modulo most: 0 becomes 1, and most-1 becomes most.
func Within(v, most int64) int64 { return 1 + int64(uint64(v)%uint64(most)) }

// AnyQuantity returns a random quantity. Quantities that are special cases for l are frequent: 0, 1, the limit and one
// unit more or less, refunds, and the smallest int64.
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
