package server

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// parsed is the result of parsing a limiter command.
type parsed struct {
	reqs []limiter.Request
	unit time.Duration
	err  error
}

// parseCommand checks the arity of a limiter command and then parses the command, like the server.
func parseCommand(line string) (p parsed) {
	var args [][]byte
	for _, w := range strings.Split(line, " ") {
		args = append(args, []byte(w))
	}
	cmd := testCommands.find(args, nil)
	if !cmd.arityFits(len(args)) {
		return parsed{err: cmd.errArguments(args)}
	}
	var got parsing
	got.logEntries = 77
	p.err = cmd.parse(&got, args)
	p.reqs, p.unit = got.reqs, got.unit
	return p
}

var testCommands = newRegistry(commandTable(), onRedis)

// TestParseLimit parses valid commands for one limit.
func TestParseLimit(t *testing.T) {
	f := func(line string, kind limiter.Kind, limit limiter.Limit, quantity int64, unit time.Duration) {
		t.Helper()
		p := parseCommand(line)
		if p.err != nil {
			t.Errorf("%s: got error %v, want none", line, p.err)
			return
		}
		want := limiter.Request{Kind: kind, Limit: limit, Quantity: quantity}
		got := p.reqs[0]
		key := string(got.Key)
		got.Key = nil
		if len(p.reqs) != 1 || key != "k" || p.unit != unit || got.Kind != want.Kind || got.Limit != want.Limit || got.Quantity != want.Quantity || got.Linked {
			t.Errorf("%s: got key %q, request %+v, unit %v; want key k, request %+v, unit %v", line, key, got, p.unit, want, unit)
		}
	}
	const s, ms = time.Second, time.Millisecond

	throttle := limiter.Limit{Max: 16, Interval: 2 * s}
	f("CL.THROTTLE k 15 30 60", limiter.Throttle, throttle, 1, s)
	f("CL.THROTTLE k 15 30 1m", limiter.Throttle, throttle, 1, s)
	f("CL.THROTTLE k 15 30 60 MS", limiter.Throttle, throttle, 1, ms)
	f("CL.THROTTLE k 15 30 60 5", limiter.Throttle, throttle, 5, s)
	f("CL.THROTTLE k 15 30 60 -5 ms", limiter.Throttle, throttle, -5, ms)
	f("CL.THROTTLE k 15 30 60000ms 0 mS", limiter.Throttle, throttle, 0, ms)

	sliding := limiter.Limit{Max: 100, Interval: time.Hour, Amount: 1}
	f("CL.WINDOW k 100 1h", limiter.SlidingWindow, sliding, 1, s)
	f("CL.WINDOW k 100 3600 MS", limiter.SlidingWindow, sliding, 1, ms)
	f("CL.WINDOW k 100 3600 0", limiter.SlidingWindow, sliding, 0, s)
	f("CL.WINDOW k 100 3600 -3 Ms", limiter.SlidingWindow, sliding, -3, ms)
	f("CL.WINDOW k 100 3600 SLIDING", limiter.SlidingWindow, sliding, 1, s)
	f("CL.WINDOW k 100 3600 2 sliding MS", limiter.SlidingWindow, sliding, 2, ms)
	f("CL.WINDOW k 100 60m FIXED", limiter.FixedWindow, sliding, 1, s)
	f("CL.WINDOW k 100 60m 9 Fixed MS", limiter.FixedWindow, sliding, 9, ms)
	logged := limiter.Limit{Max: 100, Interval: time.Hour, Amount: 77}
	f("CL.WINDOW k 100 3600 LOG", limiter.WindowLog, logged, 1, s)
	f("CL.WINDOW k 100 3600 4 log MS", limiter.WindowLog, logged, 4, ms)
	counted := limiter.Limit{Max: 100, Interval: 20 * time.Minute, Amount: 3}
	f("CL.WINDOW k 100 3600 BUCKETS 3", limiter.WindowBuckets, counted, 1, s)
	f("CL.WINDOW k 100 3600 buckets +03 ms", limiter.WindowBuckets, counted, 1, ms)
	f("CL.WINDOW k 100 3600 2 BUCKETS 3 MS", limiter.WindowBuckets, counted, 2, ms)

	f("CL.BUCKET k 4 2 1", limiter.TokenBucket, limiter.Limit{Max: 4, Interval: s, Amount: 2}, 1, s)
	f("CL.BUCKET k 200 50 1d 30 MS", limiter.TokenBucket, limiter.Limit{Max: 200, Interval: 24 * time.Hour, Amount: 50}, 30, ms)
	f("CL.LEAKY k 10 2 1s", limiter.LeakyBucket, limiter.Limit{Max: 10, Interval: 500 * ms}, 1, s)
	f("CL.LEAKY k 10 2 1000ms 9223372036854775807 MS", limiter.LeakyBucket, limiter.Limit{Max: 10, Interval: 500 * ms}, math.MaxInt64, ms)
}

// TestParseLimitRefuses parses invalid commands for one limit.
func TestParseLimitRefuses(t *testing.T) {
	f := func(want error, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if p := parseCommand(line); !errors.Is(p.err, want) {
				t.Errorf("%s: got error %v, want %v", line, p.err, want)
			}
		}
	}
	f(errArity("cl.throttle"), "CL.THROTTLE k 1 1", "CL.THROTTLE k 1 1 1 1 1", "CL.THROTTLE k x 1 1 1 x",
		"CL.THROTTLE k 1 1 1 MS 1", "CL.THROTTLE k 1 1 1 1 1 MS", "CL.THROTTLE k 1 1 1 1 MS MS", "CL.THROTTLE k 1 1 1 1 FIXED")
	f(errArity("cl.bucket"), "CL.BUCKET k 1 1", "CL.BUCKET k 1 1 1 1 1", "CL.BUCKET k 1 1 1 1 LOG")
	f(errArity("cl.leaky"), "CL.LEAKY k 1 1", "CL.LEAKY k 1 1 1 1 1", "CL.LEAKY k 1 1 1 1 MS 1")
	f(errArity("cl.window"), "CL.WINDOW k 1")
	f(errArity("cl.all"), "CL.ALL", "CL.ALL 1", "CL.ALL 1 WINDOW")

	f(errUnitPlace, "CL.WINDOW k 1 1 MS FIXED", "CL.WINDOW k 1 1 1 FIXED MS MS", "CL.WINDOW k 1 1 ms 1")
	f(replyError("ERR BUCKETS must be followed by an integer from 1 to 1024"),
		"CL.WINDOW k 1 1 BUCKETS", "CL.WINDOW k 1 1 BUCKETS MS", "CL.WINDOW k 1 1 2 BUCKETS")
	for mode, lines := range map[string][]string{
		"x":      {"CL.WINDOW k 1 1 x", "CL.WINDOW k 1 1 1 x", "CL.WINDOW k 1 1 x MS", "CL.WINDOW k 1 1 x FIXED"},
		"SLIDIN": {"CL.WINDOW k 1 1 SLIDIN"},
		"FIXD":   {"CL.WINDOW k 1 1 FIXD"},
	} {
		f(replyError("ERR unknown mode '"+mode+"': use SLIDING, FIXED, LOG or BUCKETS"), lines...)
	}
	for arg, lines := range map[string][]string{
		"1":   {"CL.WINDOW k 1 1 1 1", "CL.WINDOW k 1 1 FIXED 1"},
		"LOG": {"CL.WINDOW k 1 1 1 FIXED LOG"},
		"3":   {"CL.WINDOW k 1 1 BUCKETS 2 3"},
	} {
		f(replyError("ERR unexpected argument '"+arg+"': the syntax is CL.WINDOW key limit period [quantity] [SLIDING | FIXED | LOG | BUCKETS parts] [MS]"), lines...)
	}
}

// TestInvalidArguments checks that an error contains the name of the first invalid argument of a limit, its value,
// and the values that are allowed.
func TestInvalidArguments(t *testing.T) {
	f := func(name, value, want string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			line = strings.Replace(line, "?", value, 1)
			if p, want := parseCommand(line), errInvalid(name, []byte(value), want); p.err != want {
				t.Errorf("%s: got error %v, want %v", line, p.err, want)
			}
		}
	}
	const any64, from0, from1 = "a 64-bit integer", "a 64-bit integer of at least 0", "a 64-bit integer of at least 1"
	for _, value := range []string{"x", "MS1", "1.5", "-", "", "9223372036854775808", "1s", "0x1"} {
		f("quantity", value, any64, "CL.THROTTLE k 1 1 1 ?", "CL.BUCKET k 1 1 1 ? MS", "CL.LEAKY k 1 1 1 ?")
		f("quantity", value, "a 64-bit integer. It is the first argument of CL.ALL", "CL.ALL ? WINDOW k 1 1")
		if !beginsWord([]byte(value)) {
			f("quantity", value, any64, "CL.WINDOW k 1 1 ?", "CL.WINDOW k 1 1 ? FIXED MS")
		}
		f("max_burst", value, from0, "CL.THROTTLE k ? 1 1", "CL.THROTTLE k ? 0 0")
		f("count", value, from1, "CL.THROTTLE k 0 ? 1", "CL.LEAKY k 1 ? 1", "CL.LEAKY k 1 ? x")
		f("limit", value, from1, "CL.WINDOW k ? 1", "CL.WINDOW k ? 0 LOG")
		f("capacity", value, from1, "CL.BUCKET k ? 1 1", "CL.LEAKY k ? 1 1")
		f("refill_amount", value, from1, "CL.BUCKET k 1 ? 1", "CL.BUCKET k 9223372036854775807 ? 1d")
	}
	f("quantity", "MS", any64, "CL.THROTTLE k 1 1 1 ? MS")
	f("quantity", "FIXED", any64, "CL.THROTTLE k 1 1 1 ?", "CL.BUCKET k 1 1 1 ?")
	f("max_burst", "-1", from0, "CL.THROTTLE k ? 1 1")
	for _, value := range []string{"0", "-1", "-9223372036854775808"} {
		f("count", value, from1, "CL.THROTTLE k 0 ? 1", "CL.LEAKY k 1 ? 1")
		f("limit", value, from1, "CL.WINDOW k ? 1", "CL.WINDOW k ? 1 BUCKETS 3")
		f("capacity", value, from1, "CL.BUCKET k ? 1 1", "CL.LEAKY k ? 1 1")
		f("refill_amount", value, from1, "CL.BUCKET k 1 ? 1")
	}
	for _, value := range []string{"x", "0", "1025", "-1", "MSS", "1.5", "99999999999999999999"} {
		f("number of BUCKETS", value, "an integer from 1 to 1024", "CL.WINDOW k 1 1 BUCKETS ?", "CL.WINDOW k 1 1 5 buckets ? MS")
	}
	const inTime = from1 + ", in seconds or with one of the units ms, s, m, h and d"
	for _, value := range []string{"0", "-1", "", "ms", "s", "-5ms", "0s", "0d", "1.5s", "1us", "1ns", "1w", "1y", "1sm", "1mss", "s1",
		"5x", "9223372036854775808s", "--1s", "+s", "1m1s", "0x1h", "١s"} {
		f("period", value, inTime, "CL.THROTTLE k 0 1 ?", "CL.WINDOW k 1 ?", "CL.WINDOW k 1 ? LOG", "CL.LEAKY k 1 1 ?")
		f("refill_interval", value, inTime, "CL.BUCKET k 1 1 ?")
	}
}

// TestBounds checks the errors for parameters that are valid individually but not together.
func TestBounds(t *testing.T) {
	f := func(want string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if p := parseCommand(line); p.err != replyError("ERR limit out of range: "+want) {
				t.Errorf("%s: got error %v, want 'limit out of range: %s'", line, p.err, want)
			}
		}
	}
	const most = "9223372036854775807"
	f("(max_burst + 1) * period / count must be at most 9223372036 seconds (292 years)",
		"CL.THROTTLE k "+most+" 1 1", "CL.THROTTLE k 1 1 9223372036", "CL.THROTTLE k 0 1 9223372037", "CL.THROTTLE k 0 1 "+most+"d")
	f("period must be at most 4611686018 seconds (146 years)",
		"CL.WINDOW k 1 4611686019", "CL.WINDOW k 1 53376d FIXED", "CL.WINDOW k 1 "+most+"d LOG", "CL.WINDOW k 1 4611686019s BUCKETS 2")
	f("refill_interval * ceil(capacity / refill_amount) must be at most 9223372036 seconds (292 years)",
		"CL.BUCKET k 1 1 9223372037", "CL.BUCKET k 3 1 36500d", "CL.BUCKET k "+most+" 1 1", "CL.BUCKET k 1 1 "+most+"h")
	f("capacity * period / count must be at most 9223372036 seconds (292 years)",
		"CL.LEAKY k 1 1 9223372037", "CL.LEAKY k 2 1 53376d", "CL.LEAKY k "+most+" 1 1")
	for _, line := range []string{
		"CL.THROTTLE k 0 1 9223372036", "CL.WINDOW k 1 4611686018", "CL.WINDOW k 1 4611686018 LOG", "CL.WINDOW k 1 4611686018 BUCKETS 2",
		"CL.BUCKET k 1 1 9223372036", "CL.LEAKY k 1 1 9223372036", "CL.LEAKY k 4 4 9223372036",
	} {
		if p := parseCommand(line); p.err != nil {
			t.Errorf("%s: got error %v, want none", line, p.err)
		}
	}
}

// TestParsePeriod parses periods in all units.
func TestParsePeriod(t *testing.T) {
	f := func(text string, n int64, unit time.Duration) {
		t.Helper()
		if p, ok := parsePeriod([]byte(text)); !ok || p != (limiter.Period{N: n, Unit: unit}) {
			t.Errorf("parsePeriod(%q): got %v and %v, want the integer and the unit in the text, and true", text, p, ok)
		}
	}
	f("60", 60, time.Second)
	f("+060", 60, time.Second)
	f("-1", -1, time.Second)
	f("250ms", 250, time.Millisecond)
	f("250Ms", 250, time.Millisecond)
	f("+1S", 1, time.Second)
	f("5m", 5, time.Minute)
	f("05M", 5, time.Minute)
	f("1h", 1, time.Hour)
	f("365d", 365, 24*time.Hour)
	f("-3D", -3, 24*time.Hour)
	f("9223372036854775807d", math.MaxInt64, 24*time.Hour)
	for _, text := range []string{"", " ", "1 s", "1s ", " 1s", "s", "ms", "1 ms", "m s", "1\x00s", "1s\x00", "1ſ"} {
		if p, ok := parsePeriod([]byte(text)); ok {
			t.Errorf("parsePeriod(%q): got %v and true, want false", text, p)
		}
	}
}

// TestSpells checks that spells compares ASCII letters case-insensitively and all other bytes
// exactly.
func TestSpells(t *testing.T) {
	for _, text := range []string{"log", "LOG", "Log", "lOG"} {
		if !spells([]byte(text), "log") {
			t.Errorf("spells returned false for %q and the word log", text)
		}
	}
	for _, text := range []string{"", "lo", "logs", "l0g", "LO\x07", "\x0cog", "lo\xe7"} {
		if spells([]byte(text), "log") {
			t.Errorf("spells returned true for %q and the word log", text)
		}
	}
	for c := range 256 {
		b := []byte{byte(c)}
		if letter := strings.Contains("abcdefghijklmnopqrstuvwxyz", strings.ToLower(string(b))); beginsWord(b) != letter {
			t.Errorf("beginsWord(%q) is %v, want the opposite", b, !letter)
		}
		if spells(b, "z") != (c == 'z' || c == 'Z') {
			t.Errorf("%q: spells is wrong for the word z, want true for z and Z only", b)
		}
	}
}
