package check

import (
	"math"
	"math/bits"
)

// wide is a 128-bit integer. Units times nanoseconds overflow 64 bits.
type wide struct {
	hi int64
	lo uint64
}

// noValue represents a missing value. It is so small that its sum with values of a history is still
// less than every real value.
var noValue = wide{math.MinInt64 / 2, 0}

// product returns a*b. Neither factor may be negative.
func product(a, b int64) wide {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return wide{int64(hi), lo}
}

func (a wide) plus(b wide) wide {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	return wide{a.hi + b.hi + int64(carry), lo}
}

func (a wide) minus(b wide) wide {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	return wide{a.hi - b.hi - int64(borrow), lo}
}

func (a wide) less(b wide) bool { return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo }

func (a wide) negative() bool { return a.hi < 0 }

// over returns a/b as an approximate number.
func (a wide) over(b int64) float64 {
	if a.negative() {
		return -wide{}.minus(a).over(b)
	}
	return (float64(a.hi)*(1<<64) + float64(a.lo)) / float64(b)
}
