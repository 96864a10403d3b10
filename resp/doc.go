// Package resp reads requests and writes replies in the Redis serialization
// protocol, versions 2 and 3.
//
// [Reader] takes bytes from a connection and hands out complete commands. It is
// bounded in every dimension by its [Limits], keeps no more than one buffer, never
// recurses, takes up an incomplete command where its bytes ended and allocates nothing
// once its buffer has its size. No length that a client announces makes it allocate.
// Cutting the same bytes into other reads gives the same commands and the same error.
//
// [Reply] collects replies to be written at once; which of its methods differ between
// RESP2 and RESP3 is decided there and nowhere else.
//
// [SplitLine], [ParseInt] and [ParseSigned] read text as Redis and redis-cell do.
//
// What a Reader hands out points into its buffer and is valid until the next Fill.
//
// The Reader is stricter than Redis in three points, because what they let through
// serves only to smuggle commands past a proxy: the two bytes behind an argument must
// be CR LF, a count or length must end in CR LF, and an inline request holds no byte
// below the space but white space.
package resp
