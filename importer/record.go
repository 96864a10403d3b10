package importer

import (
	"math"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// reason says what became of a key: taken, or why it was not.
type reason int

const (
	taken reason = iota
	atRest
	gone
	noTTL
	disagrees
	notNumber
	notString
	reasons // how many there are
)

// reasonNames is what a report calls them.
var reasonNames = [reasons]string{
	taken:     "imported",
	atRest:    "at rest: the TAT has passed",
	gone:      "gone before it was read",
	noTTL:     "a number without a TTL",
	disagrees: "a number that does not agree with its TTL",
	notNumber: "a string that is not a number",
	notString: "not a string",
}

// entry is a key as the source shows it.
type entry struct {
	key       string
	value     string // its first valueBytes bytes
	pttl      int64  // milliseconds; below 0 if there is no TTL; pttlGone
	wrongType bool   // there is a value, and it is not a string
}

// pttlGone is what PTTL answers when there is no such key.
const pttlGone = -2

// valueBytes is what is read of a value: one byte more than a TAT can have, so that no
// long value passes for a short one.
const valueBytes = 21

// instant is one point in time by two clocks, in nanoseconds below 1<<63.
type instant struct {
	source uint64 // wall time of the source
	ours   uint64 // limiter time
}

// fromRedis decides what an entry is that was read at the given instant. The record is
// meaningful only with the reason taken.
func fromRedis(e entry, at instant, tolerance time.Duration) (limiter.Record, reason) {
	if e.pttl == pttlGone {
		return limiter.Record{}, gone
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
	}, taken
}

// parseTAT reads a number in the one form in which it is written as a TAT: digits, without
// a sign or leading zeros.
func parseTAT(s string) (uint64, bool) {
	tat, err := strconv.ParseUint(s, 10, 64)
	return tat, err == nil && (s[0] != '0' || s == "0")
}

// timeUntil returns tat - now, unless it is longer than the 292 years that any limit can
// have charged.
func timeUntil(tat, now uint64) (time.Duration, bool) {
	if tat < now {
		return -time.Duration(now - tat), true
	}
	return time.Duration(tat - now), tat-now <= math.MaxInt64
}

// agree reports whether what is used of a bucket lasts as long as a TTL of so many
// milliseconds. The two are never quite the same: redis-cell rounds the TTL down,
// Dragonfly up, and either counts it from the time at which its server last looked at
// the clock.
func agree(used time.Duration, pttl int64, tolerance time.Duration) bool {
	const longest = int64(math.MaxInt64 / time.Millisecond)
	ttl := time.Duration(min(pttl, longest)) * time.Millisecond
	if used > ttl {
		return used-ttl <= tolerance
	}
	return used >= ttl-tolerance
}
