package rediscell

import (
	"math"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// reason is the outcome for a key: imported, or the reason why it was skipped.
type reason int

const (
	imported reason = iota
	atRest
	absent
	noTTL
	disagrees
	notNumber
	notString
	reasons // the number of reasons
)

// reasonNames holds the texts of the reasons in a report.
var reasonNames = [reasons]string{
	imported:  "imported",
	atRest:    "at rest: the TAT has passed",
	absent:    "deleted or expired before it was read",
	noTTL:     "a number without a TTL",
	disagrees: "a number that does not agree with its TTL",
	notNumber: "a string that is not a number",
	notString: "not a string",
}

// entry is a key as read from the source.
type entry struct {
	key       string
	value     string // the first valueBytes bytes of its value
	pttl      int64  // milliseconds; pttlAbsent if the key is absent, -1 if it has no TTL
	wrongType bool   // the key holds a value that is not a string
}

// pttlAbsent is the reply of PTTL for an absent key.
const pttlAbsent = -2

// valueBytes is the maximum number of bytes that are read from a value. It is one more than
// the length of the longest TAT, so that the start of a longer value is not mistaken for a TAT.
const valueBytes = 21

// instant is the same point in time on two clocks, in nanoseconds. Both times are below
// 1<<63.
type instant struct {
	source uint64 // wall time of the source
	ours   uint64 // limiter time
}

// fromRedis classifies an entry that was read at the given instant. The record is valid only if the returned
// reason equals the constant imported.
func fromRedis(e entry, at instant, tolerance time.Duration) (limiter.Record, reason) {
	if e.pttl == pttlAbsent {
		return limiter.Record{}, absent
	}
	if e.wrongType {
		return limiter.Record{}, notString
	}
	tat, ok := parseTAT(e.value)
	if !ok {
		return limiter.Record{}, notNumber
	}
	if e.pttl < 0 {
		return limiter.Record{}, noTTL
	}
	used, ok := timeUntil(tat, at.source)
	if !ok || !agree(used, e.pttl, tolerance) {
		return limiter.Record{}, disagrees
	}
	if used <= 0 {
		return limiter.Record{}, atRest
	}
	return limiter.Record{
		Kind:    limiter.Throttle,
		Key:     []byte(e.key),
		Expires: at.ours + uint64(used),
	}, imported
}

// parseTAT parses a number in the form in which TATs are written: digits, without a sign
// or leading zeros.
func parseTAT(s string) (uint64, bool) {
	tat, err := strconv.ParseUint(s, 10, 64)
	return tat, err == nil && (s[0] != '0' || s == "0")
}

// timeUntil returns tat - now, and reports whether it is at most 292 years, the longest used
// time that a key can have.
func timeUntil(tat, now uint64) (time.Duration, bool) {
	if tat < now {
		return -time.Duration(now - tat), true
	}
	return time.Duration(tat - now), tat-now <= math.MaxInt64
}

// agree reports whether the used time of a key agrees with a TTL of pttl milliseconds. The two are rarely
// equal: redis-cell rounds the TTL down, Dragonfly rounds it up, and both compute the TTL from a clock
// reading that may be slightly old.
func agree(used time.Duration, pttl int64, tolerance time.Duration) bool {
	const longest = int64(math.MaxInt64 / time.Millisecond)
	ttl := time.Duration(min(pttl, longest)) * time.Millisecond
	if used > ttl {
		return used-ttl <= tolerance
	}
	return used >= ttl-tolerance
}
