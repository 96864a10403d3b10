package server

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/options"
)

// form is a call of CL.THROTTLE on an empty table, and its expected reply.
type form struct {
	words []string // after the name of the command
	want  string
	keys  int64 // number of keys in the table after the call
}

func words(line string) []string { return strings.Split(line, " ") }

const most64 = "9223372036854775807"

var throttleForms = []form{
	{want: failure(errArity("cl.throttle"))},
	{words: words("k"), want: failure(errArity("cl.throttle"))},
	{words: words("k 1 1"), want: failure(errArity("cl.throttle"))},
	{words: words("k 1 1 1 1 1"), want: failure(errArity("cl.throttle"))},

	// Keys may hold any bytes.
	{words: []string{"", "1", "1", "1"}, want: five(0, 2, 1, -1, 1), keys: 1},
	{words: []string{strings.Repeat("k", 1024), "1", "1", "1"}, want: five(0, 2, 1, -1, 1), keys: 1},
	{words: []string{strings.Repeat("k", 512<<10), "1", "1", "1"}, want: five(0, 2, 1, -1, 1), keys: 1},
	{words: []string{"\x00\xff\r\n\x1b[31m", "1", "1", "1"}, want: five(0, 2, 1, -1, 1), keys: 1},
	{words: words("{a}b 1 1 1"), want: five(0, 2, 1, -1, 1), keys: 1},
	{words: words("user:* 1 1 1"), want: five(0, 2, 1, -1, 1), keys: 1},
	{words: words("%s%n 1 1 1"), want: five(0, 2, 1, -1, 1), keys: 1},
	{words: words("../../etc 1 1 1"), want: five(0, 2, 1, -1, 1), keys: 1},
	{words: words("${jndi:x} 1 1 1"), want: five(0, 2, 1, -1, 1), keys: 1},

	// Bursts.
	{words: words("k -1 1 1"), want: failure(badThrottle(2, "-1"))},
	{words: words("k 0 1 1"), want: five(0, 1, 0, -1, 1), keys: 1},
	{words: words("k +1 1 1"), want: five(0, 2, 1, -1, 1), keys: 1},
	{words: words("k 01 1 1"), want: five(0, 2, 1, -1, 1), keys: 1},
	{words: words("k " + most64 + " 1 1"), want: failure(errThrottleBound)},
	{words: words("k 9223372036854775808 1 1"), want: failure(badThrottle(2, "9223372036854775808"))},
	{words: words("k -9223372036854775808 1 1"), want: failure(badThrottle(2, "-9223372036854775808"))},
	{words: words("k 99999999999999999999999 1 1"), want: failure(badThrottle(2, "99999999999999999999999"))},

	// Counts.
	{words: words("k 1 0 1"), want: failure(badThrottle(3, "0"))},
	{words: words("k 1 -5 1"), want: failure(badThrottle(3, "-5"))},
	{words: words("k 1 " + most64 + " 1"), want: five(0, 2, 1, -1, 1), keys: 1},

	// Periods.
	{words: words("k 1 1 0"), want: failure(badThrottle(4, "0"))},
	{words: words("k 1 1 -1"), want: failure(badThrottle(4, "-1"))},
	{words: words("k 0 1 9223372036"), want: five(0, 1, 0, -1, 9223372036), keys: 1},
	{words: words("k 1 1 9223372036"), want: failure(errThrottleBound)},
	{words: words("k 0 1 9223372037"), want: failure(errThrottleBound)},
	{words: words("k 0 1 " + most64), want: failure(errThrottleBound)},
	{words: words("k 9223372036854775806 1 86400"), want: failure(errThrottleBound)},

	// Quantities.
	{words: words("k 1 1 86400 200000000"), want: five(1, 2, 2, -1, 0)},
	{words: words("k 1 1 1 0"), want: five(0, 2, 2, -1, 0)},
	{words: words("k 1 1 1 -1"), want: five(0, 2, 2, -1, 0)},
	{words: words("k 1 1 1 -9223372036854775808"), want: five(0, 2, 2, -1, 0)},
	{words: words("k 1 1 1 3"), want: five(1, 2, 2, -1, 0)},
	{words: words("k 1 1 1 " + most64), want: five(1, 2, 2, -1, 0)},
	{words: []string{"k", "1", "1", "1", ""}, want: failure(badThrottle(5, ""))},
}

// notNumbers lists texts that are not accepted as numbers.
var notNumbers = []string{" 1", "1 ", "1.0", "1.5", "1e3", "0x10", "1_000", "", "+", "-", "+-1", "NaN", "inf", "abc", "١", "−1", "1\x00", "1\r\n"}

func TestThrottleForms(t *testing.T) {
	t.Parallel()
	s, _ := startFrozen(t, func(o *options.Options) { o.ClientQueryBufferLimit = 2 << 20 })
	p := s.dial()
	for _, f := range throttleForms {
		p.do("+OK\r\n", "FLUSHALL")
		p.do(f.want, append([]string{"CL.THROTTLE"}, f.words...)...)
		if keys := p.ask("DBSIZE").int(); keys != f.keys {
			t.Errorf("%.40q: the table has %d keys after the call, want %d", f.words, keys, f.keys)
		}
	}
	for _, text := range notNumbers {
		for at := 2; at <= 5; at++ {
			call := []string{"CL.THROTTLE", "k", "1", "1", "1", "1"}
			call[at] = text
			p.do("+OK\r\n", "FLUSHALL")
			p.do(failure(badThrottle(at, text)), call...)
			p.do(":0\r\n", "DBSIZE")
		}
	}
	p.send(request("CL.THROTTLE", strings.Repeat("k", 512<<10+1), "1", "1", "1"))
	p.expect(badLength)
	p.closed()
}

// TestThrottleNames checks that command names are case-insensitive.
func TestThrottleNames(t *testing.T) {
	t.Parallel()
	s, _ := startFrozen(t, nil)
	p := s.dial()
	for i, name := range []string{"cl.ThRoTtLe", "CL.THROTTLE", "cl.throttle"} {
		p.do(five(0, 2, 1, -1, 1), name, strconv.Itoa(i), "1", "1", "1")
	}
	p.fails("ERR unknown command 'CL.THROTTL'", "CL.THROTTL", "k", "1", "1", "1")
	p.fails("ERR unknown command 'CL.THROTTLE '", "CL.THROTTLE ", "k", "1", "1", "1")
}

// TestThrottleRates sends calls at twice the allowed rate and counts the admitted calls.
func TestThrottleRates(t *testing.T) {
	t.Parallel()
	f := func(burst, rate int64, span time.Duration) {
		t.Helper()
		s, clock := startFrozen(t, nil)
		p := s.dial()
		call := request("CL.THROTTLE", "k", strconv.FormatInt(burst, 10), strconv.FormatInt(rate, 10), "1")
		gap := time.Second / time.Duration(2*rate)
		admitted := int64(0)
		for passed := time.Duration(0); passed < span; passed += gap {
			p.send(call)
			admitted += 1 - p.read().list[0].int()
			clock.advance(gap)
		}
		want := burst + 1 + int64(span.Seconds()*float64(rate))
		if admitted > want || float64(admitted) < 0.99*float64(want) {
			t.Errorf("burst %d, rate %d: %d calls were admitted in %v, want %d or at most one percent less", burst, rate, admitted, span, want)
		}
	}
	f(0, 2000, time.Second)
	f(0, 8000, time.Second/4)
	f(100, 1_000_000, 2*time.Millisecond)
}

// TestThrottleAtOnce counts the calls that are admitted at one instant while the full limit is available, and the calls
// that are admitted one second later.
func TestThrottleAtOnce(t *testing.T) {
	t.Parallel()
	s, clock := startFrozen(t, nil)
	p := s.dial()
	// admit sends n calls and returns the number of admitted calls. It fails the test if the number of remaining units
	// increases from one reply to the next.
	admit := func(n int, params ...string) (admitted int64) {
		t.Helper()
		p.send(strings.Repeat(request(append([]string{"CL.THROTTLE"}, params...)...), n))
		last := int64(math.MaxInt64)
		for range n {
			d := p.read().list
			if d[2].int() > last {
				t.Fatalf("the number of remaining units increases from %d to %d", last, d[2].int())
			}
			last = d[2].int()
			admitted += 1 - d[0].int()
		}
		return admitted
	}
	if got := admit(7000, "a", "6000", "6000", "1"); got != 6001 {
		t.Errorf("limit 6000 6000 1: %d calls were admitted, want 6001", got)
	}
	clock.advance(time.Second)
	if got := admit(7000, "a", "6000", "6000", "1"); got < 5999 || got > 6000 {
		t.Errorf("limit 6000 6000 1: %d calls were admitted a second later, want 5999 or 6000", got)
	}
	if got := admit(2000, "b", "1000", "1000", "60"); got != 1001 {
		t.Errorf("limit 1000 1000 60: %d calls were admitted, want 1001", got)
	}
}

// TestThrottleParameters calls CL.THROTTLE for one key with different parameters. The key must keep its TAT, and each
// call must be decided by its own parameters.
func TestThrottleParameters(t *testing.T) {
	t.Parallel()
	s, clock := startFrozen(t, nil)
	p := s.dial()
	for range 6 {
		p.ask("CL.THROTTLE", "k", "10", "10", "60")
	}
	p.do(five(0, 11, 4, -1, 42), "CL.THROTTLE", "k", "10", "10", "60")
	p.do(five(1, 2, 0, 41, 42), "CL.THROTTLE", "k", "1", "1", "1")
	p.do(five(1, 2, 0, 40, 42), "CL.THROTTLE", "k", "1", "1", "1", "0")
	p.do(five(0, 1001, 958, -1, 43), "CL.THROTTLE", "k", "1000", "1", "1")
	p.do(five(0, 11, 2, -1, 49), "CL.THROTTLE", "k", "10", "10", "60")
	clock.advance(49 * time.Second)
	p.do(five(0, 2, 1, -1, 1), "CL.THROTTLE", "k", "1", "1", "1")
}

// TestRefusalsChangeNothing checks that refused calls do not change the state of a key.
func TestRefusalsChangeNothing(t *testing.T) {
	t.Parallel()
	s, _ := startFrozen(t, nil)
	p := s.dial()
	p.do(five(0, 1, 0, -1, 100), "CL.THROTTLE", "k", "0", "1", "100")
	before := p.info("memory")["used_memory_dataset"]
	const n = 30_000
	go func() { _, _ = p.Write([]byte(strings.Repeat(request("CL.THROTTLE", "k", "0", "1", "100"), n))) }()
	for range n {
		p.expect(five(1, 1, 0, 100, 100))
	}
	p.do(":100000\r\n", "PTTL", "k")
	p.do(":1\r\n", "DBSIZE")
	if after := p.info("memory")["used_memory_dataset"]; after != before {
		t.Errorf("after the refused calls the keys use %s bytes, want %s as before", after, before)
	}
}
