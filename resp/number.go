package resp

import (
	"math"
	"math/bits"
	"slices"
)

// ParseInt parses a signed 64-bit decimal like Redis's own parser: an optional minus sign and digits without leading
// zeros. It rejects any other form, such as "-0", "+1" and "".
func ParseInt(b []byte) (int64, bool) {
	digits := b
	negative := len(b) > 1 && b[0] == '-'
	if negative {
		digits = b[1:]
	}
	if len(digits) == 0 || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	return parseDigits(digits, negative)
}

// ParseSigned parses a signed 64-bit decimal like redis-cell's parser: an optional plus or
// minus sign and digits, with leading zeros allowed.
func ParseSigned(b []byte) (int64, bool) {
	negative := false
	if len(b) > 1 && (b[0] == '-' || b[0] == '+') {
		negative = b[0] == '-'
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	return parseDigits(b, negative)
}

func parseDigits(digits []byte, negative bool) (int64, bool) {
	var n uint64
	for _, c := range digits {
		if !isDigit(c) || n > math.MaxUint64/10-1 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case negative && n <= -math.MinInt64:
		return -int64(n), true
	case !negative && n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// digitPairs holds the numbers from 0 to 99 as two digits each.
const digitPairs = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"

// appendLine appends a type byte, a number and a line end. Replies to limiter commands consist mostly of such lines.
// Formatting the number in place takes half the time of formatting it elsewhere and copying it.
func appendLine(b []byte, kind byte, n int64) []byte {
	u := uint64(n)
	if u < 10 {
		return append(b, kind, byte('0'+u), '\r', '\n')
	}
	sign := 0
	if n < 0 {
		sign, u = 1, -u
	}
	size := 1 + sign + countDigits(u) + 2
	b = slices.Grow(b, size)
	line := b[len(b) : len(b)+size]
	line[0], line[size-2], line[size-1] = kind, '\r', '\n'
	at := size - 2
	for ; u >= 100; u /= 100 {
		at -= 2
		copy(line[at:at+2], digitPairs[u%100*2:])
	}
	if u >= 10 {
		at -= 2
		copy(line[at:at+2], digitPairs[u*2:])
	} else {
		at--
		line[at] = byte('0' + u)
	}
	if sign == 1 {
		line[1] = '-'
	}
	return b[:len(b)+size]
}

// countDigits returns the number of decimal digits of u. The result is at least 1, even if u is 0.
func countDigits(u uint64) int {
	// One bit corresponds to log10(2) decimal digits, approximately 1233/4096. The estimate n is the number of digits,
	// or one less.
	n := bits.Len64(u|1) * 1233 >> 12
	if n < len(powersOf10) && u >= powersOf10[n] {
		n++
	}
	return max(n, 1)
}

var powersOf10 = func() (list [20]uint64) {
	for i, p := 0, uint64(1); i < len(list); i, p = i+1, p*10 {
		list[i] = p
	}
	return list
}()
