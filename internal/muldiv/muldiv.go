// Package muldiv multiplies and divides without losing the upper half of the product.
//
// [Ceil] and [Floor] compute a*b/c on unsigned 64-bit numbers whose product may take 128
// bits. The limiter packages use these functions to compute rates: the product of a quantity
// and a time often exceeds 64 bits.
package muldiv

import "math/bits"

// Ceil returns a*b/c rounded up, and reports whether the result fits in 64 bits. The sum
// of a*b and c must be below 1<<128. This holds if a, b or c is below 1<<63.
func Ceil(a, b, c uint64) (uint64, bool) {
	hi, lo := bits.Mul64(a, b)
	// Round up before the division: incrementing the quotient could overflow.
	lo, carry := bits.Add64(lo, c-1, 0)
	return divide(hi+carry, lo, c)
}

// Floor returns a*b/c rounded down, and reports whether the result fits in 64 bits.
func Floor(a, b, c uint64) (uint64, bool) {
	hi, lo := bits.Mul64(a, b)
	return divide(hi, lo, c)
}

// divide returns the quotient, and reports whether it fits in 64 bits. It reports false if
// the divisor is 0.
func divide(hi, lo, c uint64) (uint64, bool) {
	if hi >= c {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, c)
	return q, true
}
