// Package glob matches keys and option names against the patterns of SCAN, KEYS and
// CONFIG GET.
//
// The patterns are those of Redis:
//
//	?       any one byte
//	*       any bytes, or none
//	[abc]   one of these bytes; the brackets and the text between them are a class
//	[a-c]   one byte of this range, whose ends may be in either order
//	[^a-c]  one byte outside this range
//	\x      the byte x itself, also inside a class
//
// Every pattern is valid for Match; Check refuses some that are probably mistakes. A class without a closing bracket
// extends to the end of the pattern. "[]" matches nothing, and "[^]" matches any one byte. A backslash at the end of the
// pattern matches a backslash. In "[a-]" the closing bracket is the end of the range, so the class is not closed.
//
// Patterns are sent by clients, so their cost is bounded: a match takes on the order of len(pattern) times
// len(text) steps at most, does not recurse and does not allocate.
//
// Two differences from Redis are intended. A star always matches the empty string, so "**"
// and "*" are equivalent; Redis has a special case for "*" alone. Bytes are compared as
// unsigned numbers on every machine, whereas Redis compares the ends of a range as C
// chars, which are signed on some machines.
package glob
