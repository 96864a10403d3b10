package rediscell

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// The tests assume that the state was read at sourceNow on the clock of the source. The limiter
// clock of the importing machine is an hour ahead.
const (
	sourceNow = uint64(1_700_000_000_000_000_000)
	oursNow   = sourceNow + uint64(time.Hour)
)

var readAt = instant{source: sourceNow, ours: oursNow}

func TestFromRedis(t *testing.T) {
	f := func(name string, e entry, want reason, left time.Duration) {
		t.Helper()
		e.key = "user:1"
		rec, got := fromRedis(e, readAt, time.Second)
		if got != want {
			t.Errorf("%s: %+v is classified as %q; want %q", name, e, reasonNames[got], reasonNames[want])
			return
		}
		if got != imported {
			return
		}
		if rec.Kind != limiter.Throttle || string(rec.Key) != e.key || rec.State != nil || rec.Expires != oursNow+uint64(left) {
			t.Errorf("%s: %+v gives the record %+v; want a used time of %v", name, e, rec, left)
		}
	}
	state := func(left time.Duration, pttl int64) entry {
		return entry{value: fmt.Sprint(sourceNow + uint64(left)), pttl: pttl}
	}

	f("redis-cell", state(2*time.Second, 2000), imported, 2*time.Second)
	f("redis-cell, truncated TTL", state(2*time.Second+999_999, 2000), imported, 2*time.Second+999_999)
	f("redis-cell, TTL from an older reading of the clock", state(2*time.Second, 1997), imported, 2*time.Second)
	f("redis-cell, less than a millisecond left", state(100*time.Microsecond, 0), imported, 100*time.Microsecond)
	f("Dragonfly, TTL rounded up", state(2*time.Second+1, 2001), imported, 2*time.Second+1)
	f("one nanosecond left", state(1, 0), imported, 1)
	f("one token in 292 years", state(math.MaxInt64, 9223372036854), imported, math.MaxInt64)
	f("at the edge of the tolerance, long TTL", state(2*time.Second, 3000), imported, 2*time.Second)
	f("at the edge of the tolerance, short TTL", state(2*time.Second, 1000), imported, 2*time.Second)

	f("key created by a peek, at rest", state(0, 0), atRest, 0)
	f("at rest, expires at the next millisecond", state(-500*time.Microsecond, 0), atRest, 0)
	f("at rest, TTL from a late clock reading", state(-300*time.Millisecond, 700), atRest, 0)

	f("expired between SCAN and reading", entry{pttl: pttlAbsent}, absent, 0)
	f("expired between value and TTL", entry{value: state(1, 0).value, pttl: pttlAbsent}, absent, 0)
	f("a list that is absent now", entry{wrongType: true, pttl: pttlAbsent}, absent, 0)

	f("refund of more than the used time: TAT passed, no TTL", state(-2*time.Second, -1), noTTL, 0)
	f("refund that wrapped the TAT, no TTL", entry{value: "18446744073709551000", pttl: -1}, noTTL, 0)
	f("PERSIST on state", state(2*time.Second, -1), noTTL, 0)
	f("a counter", entry{value: "42", pttl: -1}, noTTL, 0)

	f("2^64 - x with a TTL", entry{value: "18446744073709551000", pttl: math.MaxInt64}, disagrees, 0)
	f("a window's counter", entry{value: "42", pttl: 30_000}, disagrees, 0)
	f("a small number with no time left", entry{value: "1", pttl: 0}, disagrees, 0)
	f("a day number with an hour left", entry{value: "20231114", pttl: 3_600_000}, disagrees, 0)
	f("seconds since 1970", entry{value: "1700000060", pttl: 60_000}, disagrees, 0)
	f("milliseconds, as Dragonfly had before v1.33", entry{value: "1700000060000", pttl: 60_000}, disagrees, 0)
	f("microseconds", entry{value: "1700000060000000", pttl: 60_000}, disagrees, 0)
	f("TTL shortened by EXPIRE", state(60*time.Second, 10_000), disagrees, 0)
	f("TTL lengthened by EXPIRE", state(60*time.Second, 3_600_000), disagrees, 0)
	f("beyond the tolerance, long TTL", state(2*time.Second, 3001), disagrees, 0)
	f("beyond the tolerance, short TTL", state(2*time.Second, 999), disagrees, 0)
	f("longest TTL", state(time.Second, math.MaxInt64), disagrees, 0)
	f("zero", entry{value: "0", pttl: 0}, disagrees, 0)

	for _, text := range []string{
		"", " ", "hello", "-1", "+5", "007", "00", "1.5", "1e9", "0x10", "1_000", "17000000000000000 0",
		" 1700000002000000000", "1700000002000000000\n", "1700000002000000000\x00", "١٢٣",
		"18446744073709551616", "170000000200000000000", "\xff\xfe",
	} {
		f("text", entry{value: text, pttl: 2000}, notNumber, 0)
		f("immortal text", entry{value: text, pttl: -1}, notNumber, 0)
	}
	f("list, hash, set", entry{wrongType: true, pttl: 2000}, notString, 0)
	f("immortal list, hash, set", entry{wrongType: true, pttl: -1}, notString, 0)
}

// oracle computes the results of fromRedis for a string value, with big integers.
func oracle(value string, pttl int64, now uint64, tolerance time.Duration) (reason, *big.Int) {
	if pttl == pttlAbsent {
		return absent, nil
	}
	tat, _ := new(big.Int).SetString(value, 10)
	canonical := regexp.MustCompile(`^(0|[1-9][0-9]*)$`).MatchString(value)
	if !canonical || tat.BitLen() > 64 {
		return notNumber, nil
	}
	if pttl < 0 {
		return noTTL, nil
	}
	used := tat.Sub(tat, new(big.Int).SetUint64(now))
	ttl := new(big.Int).Mul(big.NewInt(min(pttl, math.MaxInt64/1_000_000)), big.NewInt(1_000_000))
	gap := ttl.Sub(ttl, used)
	switch {
	case !used.IsInt64(), gap.Abs(gap).Cmp(big.NewInt(int64(tolerance))) > 0:
		return disagrees, nil
	case used.Sign() <= 0:
		return atRest, nil
	}
	return imported, used
}

func FuzzFromRedis(f *testing.F) {
	f.Add("key", "1700000002000000000", int64(2000), sourceNow, oursNow, int64(time.Second))
	f.Add("", "1700000000000000000", int64(0), sourceNow, uint64(0), int64(1))
	f.Add("k", "18446744073709551615", int64(math.MaxInt64), uint64(math.MaxInt64), oursNow, int64(math.MaxInt64))
	f.Add("k", "0", int64(math.MaxInt64), uint64(math.MaxInt64), oursNow, int64(math.MaxInt64))
	f.Add("k", "9223372036854775807", int64(9223372036854), uint64(0), uint64(math.MaxInt64), int64(1000))
	f.Add("k", "007", int64(-1), sourceNow, oursNow, int64(1))
	f.Add("k", "7", int64(-2), sourceNow, oursNow, int64(1))
	f.Fuzz(func(t *testing.T, key, value string, pttl int64, source, ours uint64, tolerance int64) {
		source, ours, tolerance = source&math.MaxInt64, ours&math.MaxInt64, max(tolerance&math.MaxInt64, 1)
		rec, got := fromRedis(entry{key: key, value: value, pttl: pttl}, instant{source, ours}, time.Duration(tolerance))
		want, used := oracle(value, pttl, source, time.Duration(tolerance))
		if got != want {
			t.Fatalf("%q with TTL %d at source time %d is classified as %q; want %q", value, pttl, source, reasonNames[got], reasonNames[want])
		}
		if got == imported && (rec.Expires-ours != used.Uint64() || rec.Expires <= ours || string(rec.Key) != key) {
			t.Fatalf("%q with TTL %d at source time %d gives the record %+v at limiter time %d; want a used time of %d ns", value, pttl, source, rec, ours, used)
		}
	})
}
