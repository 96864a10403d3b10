// Package glob matches keys and option names against the patterns that SCAN, KEYS and
// CONFIG GET take.
//
// The patterns are those of Redis:
//
//   - any bytes, also none
//     ?       any one byte
//     [abc]   one of these bytes
//     [a-c]   one byte of this range, its ends in either order
//     [^a-c]  one byte outside it
//     \x      the byte x itself, also inside a class
//
// There is no bad pattern. A class that is never closed reaches to the end of the
// pattern, "[]" matches nothing, "[^]" matches any one byte, and a backslash that ends
// the pattern stands for itself. In "[a-]" the bracket is the end of a range, so that
// class is never closed either.
//
// Patterns come from clients, so their cost is bounded: a match takes at most in the
// order of len(pattern) times len(s) steps, does not recurse and does not allocate.
//
// Two points differ from Redis, both on purpose. A star matches the empty string also
// where Redis has no special case for "*" alone, so "**" and "*" mean the same. Bytes
// are compared as unsigned numbers on every machine, where Redis compares the ends of
// a range as the C compiler's char, which is signed on some.
package glob
