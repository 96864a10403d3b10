// Package resp reads requests and writes replies of the Redis serialization
// protocol, versions 2 and 3.
//
// [Reader] reads bytes from a connection and returns complete commands. Its memory is bounded
// by its [Limits]: it keeps at most one buffer, does not recurse, and does not allocate once
// the buffer has reached its final size. A length announced by a client never causes an
// allocation. Parsing of an incomplete command resumes at the byte where it stopped. The
// commands and errors returned do not depend on how the bytes are divided into reads.
//
// [Reply] encodes replies and collects them, so that the caller can write them with one call. It handles all
// differences between RESP2 and RESP3.
//
// [SplitLine] splits a line into words like Redis. [ParseInt] parses an integer like Redis, and [ParseSigned] parses an
// integer like redis-cell.
//
// The arguments that a Reader returns point into its buffer and are valid until the next
// Fill.
//
// The Reader is stricter than Redis in three points, because the lenient forms are useful only for smuggling commands
// past a proxy: the two bytes after an argument must be CR LF, a count or length must end in CR LF, and an inline
// request must not contain control characters (bytes below 0x20) other than white space.
package resp
