package resp

import "math"

// ParseInt reads a signed 64-bit decimal as Redis's own parser takes it: an optional
// minus sign and digits without leading zeros. "-0", "+1", "" and all else is refused.
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

// ParseSigned reads a signed 64-bit decimal as redis-cell's parser takes it: one
// optional sign of either kind, digits, leading zeros allowed.
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
