package glob

// Text is the type of patterns and of the texts matched by them.
type Text interface{ string | []byte }

// Match reports whether the whole of s matches pattern.
func Match[P, S Text](pattern P, s S) bool {
	return match(pattern, s, false)
}

// MatchFold is like Match but ignores the case of the letters A to Z, in s and in pattern.
func MatchFold[P, S Text](pattern P, s S) bool {
	return match(pattern, s, true)
}

// match compares pattern and s from left to right. On a mismatch, match extends the text of the
// last star by one byte, and continues after that star. Earlier stars need no retry: the part of the
// pattern between two stars was matched at the first possible position in s, and a later position
// would only leave less of s for the rest of the pattern.
func match[P, S Text](pattern P, s S, fold bool) bool {
	p, i := 0, 0
	star, taken := -1, 0 // index in pattern after the last star, and index in s after the bytes that the star matched
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, taken = p, i
			continue
		}
		if width, ok := matchByte(pattern, p, s[i], fold); ok {
			p += width
			i++
			continue
		}
		if star < 0 {
			return false
		}
		taken++
		p, i = star, taken
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchByte reports whether c matches the element of pattern that begins at index p, and returns the length
// of the element in bytes. The element must not be a star.
func matchByte[P Text](pattern P, p int, c byte, fold bool) (width int, ok bool) {
	if p == len(pattern) {
		return 0, false
	}
	switch b := pattern[p]; {
	case b == '?':
		return 1, true
	case b == '[':
		return matchClass(pattern, p, letter(c, fold), fold)
	case b == '\\' && p+1 < len(pattern):
		return 2, letter(pattern[p+1], fold) == letter(c, fold)
	default:
		return 1, letter(b, fold) == letter(c, fold)
	}
}

// matchClass is like matchByte, for the class whose opening bracket is at p. With fold, c
// must already be in lower case.
func matchClass[P Text](pattern P, p int, c byte, fold bool) (width int, ok bool) {
	i := p + 1
	negated := i < len(pattern) && pattern[i] == '^'
	if negated {
		i++
	}
	found := false
	for i < len(pattern) && pattern[i] != ']' {
		lo := pattern[i]
		hi := lo
		switch {
		case lo == '\\' && i+1 < len(pattern):
			lo, hi = pattern[i+1], pattern[i+1]
			i += 2
		case i+2 < len(pattern) && pattern[i+1] == '-':
			hi = pattern[i+2]
			i += 3
		default:
			i++
		}
		found = found || within(c, letter(lo, fold), letter(hi, fold))
	}
	if i < len(pattern) {
		i++ // the closing bracket
	}
	return i - p, found != negated
}

// within reports whether c is between a and b, which may be in either order.
func within(c, a, b byte) bool {
	return min(a, b) <= c && c <= max(a, b)
}

// letter returns c, converted to lower case if fold is set and c is an upper case letter.
func letter(c byte, fold bool) byte {
	if fold && 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}
