package limitertest

import (
	"flag"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

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

// EachParameters calls check with random parameters of a limit. check reports whether the parameters are in range, which
// must be neither rare nor common: otherwise the test would mean little.
func EachParameters(t *testing.T, steps int, check func(a, b, c int64) bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- requests of tests, which each run repeats
	fits := 0
	for range steps {
		if check(AnyInt(r), AnyInt(r), AnyInt(r)) {
			fits++
		}
	}
	if fits < steps/20 || fits > steps*19/20 {
		t.Errorf("%d of %d sets of parameters are in range: too few or too many for a meaningful test", fits, steps)
	}
}

// Exceeds reports whether a number of units is more than a rate of count units per period seconds allows in the elapsed
// nanoseconds. The arithmetic is exact.
func Exceeds(units int64, elapsed uint64, count, period int64) bool {
	if units <= 0 {
		return false
	}
	hi, lo := bits.Mul64(uint64(units), uint64(period)*1e9)
	maxHi, maxLo := bits.Mul64(uint64(count), elapsed)
	return hi > maxHi || hi == maxHi && lo > maxLo
}
