package server

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// parsed is the result of parsing a limiter command. Its keys are copies.
type parsed struct {
	reqs []limiter.Request
	unit time.Duration
	err  error
}

// parseCommand parses a limiter command as the server does after the checks of dispatch.
func parseCommand(line string) (p parsed) {
	var args [][]byte
	for _, w := range strings.Split(line, " ") {
		args = append(args, []byte(w))
	}
	cmd := testCommands.find(args)
	if !cmd.arityFits(len(args)) {
		return parsed{err: errArity(cmd.name)}
	}
	p.reqs, p.unit, p.err = cmd.parse(nil, args, 77)
	return p
}

var testCommands = newRegistry(commandTable(), onRedis)

// TestParseLimit parses valid commands for one limit.
func TestParseLimit(t *testing.T) {
	f := func(line string, kind limiter.Kind, limit limiter.Limit, quantity int64, unit time.Duration) {
		t.Helper()
		p := parseCommand(line)
		if p.err != nil {
			t.Errorf("%s: %v", line, p.err)
			return
		}
		want := limiter.Request{Kind: kind, Limit: limit, Quantity: quantity}
		got := p.reqs[0]
		key := string(got.Key)
		got.Key = nil
		if len(p.reqs) != 1 || key != "k" || p.unit != unit || got.Kind != want.Kind || got.Limit != want.Limit || got.Quantity != want.Quantity || got.Linked {
			t.Errorf("%s: %q, %+v in %v; want %+v in %v", line, key, got, p.unit, want, unit)
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
				t.Errorf("%s: %v, want %v", line, p.err, want)
			}
		}
	}
	f(errArity("cl.throttle"), "CL.THROTTLE k 1 1", "CL.THROTTLE k 1 1 1 1 1", "CL.THROTTLE k x 1 1 1 x",
		"CL.THROTTLE k 1 1 1 MS 1", "CL.THROTTLE k 1 1 1 1 1 MS", "CL.THROTTLE k 1 1 1 1 MS MS", "CL.THROTTLE k 1 1 1 1 FIXED")
	f(errArity("cl.bucket"), "CL.BUCKET k 1 1", "CL.BUCKET k 1 1 1 1 1", "CL.BUCKET k 1 1 1 1 LOG")
	f(errArity("cl.leaky"), "CL.LEAKY k 1 1", "CL.LEAKY k 1 1 1 1 1", "CL.LEAKY k 1 1 1 1 MS 1")
	f(errArity("cl.window"), "CL.WINDOW k 1")
	f(errArity("cl.all"), "CL.ALL 1 WINDOW k 1", "CL.ALL 1")

	f(errSyntax, "CL.WINDOW k 1 1 x", "CL.WINDOW k 1 1 SLIDIN", "CL.WINDOW k 1 1 1 x", "CL.WINDOW k 1 1 1 1",
		"CL.WINDOW k 1 1 1 FIXED LOG", "CL.WINDOW k 1 1 FIXED 1", "CL.WINDOW k 1 1 MS FIXED", "CL.WINDOW k 1 1 BUCKETS",
		"CL.WINDOW k 1 1 BUCKETS MS", "CL.WINDOW k 1 1 2 BUCKETS", "CL.WINDOW k 1 1 BUCKETS 2 3", "CL.WINDOW k 1 1 1 FIXED MS MS")

	f(errNotInteger, "CL.THROTTLE k 1 1 1 x", "CL.THROTTLE k 1 1 1 MS MS", "CL.THROTTLE k 1 1 1 FIXED",
		"CL.BUCKET k 1 1 1 x", "CL.LEAKY k 1 1 1 x", "CL.WINDOW k 1 1 1.5", "CL.WINDOW k 1 1 -", "CL.WINDOW k 1 1 ",
		"CL.WINDOW k 1 1 BUCKETS x", "CL.WINDOW k 1 1 BUCKETS 0", "CL.WINDOW k 1 1 BUCKETS 1025", "CL.WINDOW k 1 1 BUCKETS -1",
		"CL.WINDOW k 1 1 9223372036854775808", "CL.WINDOW k 0 1", "CL.WINDOW k -1 1", "CL.WINDOW k x 1",
		"CL.BUCKET k 0 1 1", "CL.BUCKET k 1 0 1", "CL.BUCKET k 1 1 0", "CL.BUCKET k x 1 1", "CL.BUCKET k 1 x 1",
		"CL.LEAKY k 0 1 1", "CL.LEAKY k 1 0 1", "CL.LEAKY k 1 1 0", "CL.LEAKY k -1 1 1", "CL.LEAKY k 1 x 1")
	for _, period := range []string{"0", "-1", "", "ms", "s", "-5ms", "0s", "0d", "1.5s", "1us", "1ns", "1w", "1y", "1sm", "1mss", "s1",
		"9223372036854775808s", "9223372036854775807d", "--1s", "+s", "1m1s", "0x1h", "١s"} {
		f(errNotInteger, "CL.THROTTLE k 0 1 "+period, "CL.WINDOW k 1 "+period, "CL.BUCKET k 1 1 "+period, "CL.LEAKY k 1 1 "+period)
	}
}

// TestParsePeriod parses periods in all units.
func TestParsePeriod(t *testing.T) {
	f := func(text string, n int64, unit time.Duration) {
		t.Helper()
		if p, ok := parsePeriod([]byte(text)); !ok || p != (limiter.Period{N: n, Unit: unit}) {
			t.Errorf("%q is parsed as %v, %v", text, p, ok)
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
			t.Errorf("%q is parsed as %v", text, p)
		}
	}
}

// TestSpells checks that spells compares ASCII letters case-insensitively and all other bytes
// exactly.
func TestSpells(t *testing.T) {
	for _, text := range []string{"log", "LOG", "Log", "lOG"} {
		if !spells([]byte(text), "log") {
			t.Errorf("%q does not match log", text)
		}
	}
	for _, text := range []string{"", "lo", "logs", "l0g", "LO\x07", "\x0cog", "lo\xe7"} {
		if spells([]byte(text), "log") {
			t.Errorf("%q matches log", text)
		}
	}
	for c := range 256 {
		b := []byte{byte(c)}
		if letter := strings.Contains("abcdefghijklmnopqrstuvwxyz", strings.ToLower(string(b))); beginsWord(b) != letter {
			t.Errorf("beginsWord(%q) is %v", b, !letter)
		}
		if spells(b, "z") != (c == 'z' || c == 'Z') {
			t.Errorf("%q: wrong match with z", b)
		}
	}
}
