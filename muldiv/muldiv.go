// Package muldiv multiplies and divides without losing the upper half of the product.
//
// [Ceil] and [Floor] compute a*b/c on unsigned 64-bit numbers whose product may take 128
// bits. They are what the packages of arithmetic share: a rate is a quantity times a time
// over a time, and the product of the two rarely fits 64 bits.
package muldiv

import "math/bits"

// Ceil returns a*b/c rounded up, and whether that fits 64 bits. The sum of a*b and c must
// be below 1<<128, which it is if any of the three is below 1<<63.
func Ceil(a, b, c uint64) (uint64, bool) {
	hi, lo := bits.Mul64(a, b)
	// Rounding before the division, not after it, leaves no increment that could wrap.
	lo, carry := bits.Add64(lo, c-1, 0)
	return divide(hi+carry, lo, c)
}

// Floor returns a*b/c rounded down, and whether that fits 64 bits.
func Floor(a, b, c uint64) (uint64, bool) {
	hi, lo := bits.Mul64(a, b)
	return divide(hi, lo, c)
}

// divide reports false for a divisor of 0, too.
func divide(hi, lo, c uint64) (uint64, bool) {
	if hi >= c {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, c)
	return q, true
}
