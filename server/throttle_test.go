package server

import (
	"bytes"
	"errors"
	"math"
	bigmath "math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// throttleArgs returns the arguments of a CL.THROTTLE call.
func throttleArgs(numbers ...string) [][]byte {
	args := [][]byte{[]byte("cl.throttle"), []byte("key")}
	for _, n := range numbers {
		args = append(args, []byte(n))
	}
	return args
}

// parseThrottle parses CL.THROTTLE.
func parseThrottle(args [][]byte, req *limiter.Request) error {
	p := parsing{logEntries: 1}
	err := limitFormOf([]byte("throttle")).parse(&p, args)
	if err == nil {
		*req = p.reqs[0]
	}
	return err
}

// errThrottleBound is the error for parameters of CL.THROTTLE if restoring the whole limit takes more than 292 years.
const errThrottleBound replyError = "ERR limit out of range: (max_burst + 1) * period / count must be at most 9223372036 seconds (292 years)"

// badThrottle returns the error for an invalid argument of CL.THROTTLE. The at parameter is the index of the argument;
// the name of the command has index 0.
func badThrottle(at int, arg string) replyError {
	const wide = "a 64-bit integer"
	what := [...]struct{ name, want string }{
		2: {"max_burst", wide + " of at least 0"},
		3: {"count", wide + " of at least 1"},
		4: {"period", wide + " of at least 1, in seconds or with one of the units ms, s, m, h and d"},
		5: {"quantity", wide},
	}[at]
	return errInvalid(what.name, []byte(arg), what.want)
}

// slowThrottleError returns the error that CL.THROTTLE must return for arguments that slowThrottle, the reference
// parser, rejects. The quantity is checked first, and then the other parameters in order.
func slowThrottleError(args [4][]byte) replyError {
	if _, ok := slowInt(args[3]); !ok && !strings.EqualFold(string(args[3]), "ms") {
		return badThrottle(5, string(args[3]))
	}
	for i, parse := range []func([]byte) (*bigmath.Int, bool){slowInt, slowInt, slowPeriod} {
		if n, ok := parse(args[i]); !ok || n.Sign() < 0 || n.Sign() == 0 && i > 0 {
			return badThrottle(2+i, string(args[i]))
		}
	}
	return errThrottleBound
}

func TestParseThrottle(t *testing.T) {
	f := func(limit, interval, quantity int64, numbers ...string) {
		t.Helper()
		var req limiter.Request
		if err := parseThrottle(throttleArgs(numbers...), &req); err != nil {
			t.Errorf("%q is refused: %v", numbers, err)
			return
		}
		if req.Kind != limiter.Throttle || string(req.Key) != "key" || req.Limit.Max != limit ||
			int64(req.Limit.Interval) != interval || req.Quantity != quantity {
			t.Errorf("%q is parsed as %+v, which differs from the expected request", numbers, req)
		}
	}
	f(16, 2e9, 1, "15", "30", "60")
	f(1, 1e9, 1, "0", "1", "1")
	f(16, 2e9, -3, "15", "30", "60", "-3")
	f(16, 2e9, 0, "+15", "030", "60", "-0")
	f(6001, 166667, 1, "6000", "6000", "1")
	f(1, 9223372036e9, 1, "0", "1", "9223372036")
	f(1, 1, math.MaxInt64, "0", "9223372036854775807", "1", "9223372036854775807")
	f(1, 1, math.MinInt64, "0", "1000000000", "1", "-9223372036854775808")

	fails := func(want error, numbers ...string) {
		t.Helper()
		var req limiter.Request
		if err := parseThrottle(throttleArgs(numbers...), &req); !errors.Is(err, want) {
			t.Errorf("%q: the error is %v; want %v", numbers, err, want)
		}
	}
	for _, bad := range []string{"", " 1", "1 ", "1.0", "1e3", "0x10", "1_000", "NaN", "--1", "+-1", "+", "-", "x", "١", "9223372036854775808"} {
		fails(badThrottle(2, bad), bad, "30", "60")
		fails(badThrottle(3, bad), "15", bad, "60")
		fails(badThrottle(4, bad), "15", "30", bad)
		fails(badThrottle(5, bad), "15", "30", "60", bad)
	}
	fails(badThrottle(2, "-1"), "-1", "30", "60")
	fails(badThrottle(3, "0"), "15", "0", "60")
	fails(badThrottle(4, "0"), "15", "30", "0")
	fails(errThrottleBound, "9223372036854775807", "30", "60")
	fails(errThrottleBound, "1", "1", "9223372036")
	fails(errThrottleBound, "0", "1", "9223372037")
	fails(errArity("cl.throttle"), "1", "1", "1", "1", "1")
}

var integerForm = regexp.MustCompile(`^[+-]?[0-9]+$`)

// slowInt parses an integer with a regular expression and math/big.
func slowInt(s []byte) (*bigmath.Int, bool) {
	if !integerForm.Match(s) {
		return nil, false
	}
	n, ok := new(bigmath.Int).SetString(string(bytes.TrimPrefix(s, []byte("+"))), 10)
	return n, ok && n.IsInt64()
}

// slowPeriod parses a period and returns it in nanoseconds.
func slowPeriod(s []byte) (*bigmath.Int, bool) {
	unit := time.Second
	lower := bytes.ToLower(s)
	for suffix, length := range map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	} {
		if number := bytes.TrimSuffix(lower, []byte(suffix)); len(number) < len(lower) && integerForm.Match(number) {
			s, unit = number, length
		}
	}
	n, ok := slowInt(s)
	if !ok {
		return nil, false
	}
	return n.Mul(n, bigmath.NewInt(int64(unit))), true
}

// slowThrottle parses the arguments of CL.THROTTLE with unbounded arithmetic.
func slowThrottle(args [4][]byte) (limit, interval, quantity *bigmath.Int, ok bool) {
	var n [4]*bigmath.Int
	for i, arg := range args {
		n[i], ok = slowInt(arg)
		if i == 2 {
			n[i], ok = slowPeriod(arg)
		}
		if i == 3 && strings.EqualFold(string(arg), "ms") {
			n[i], ok = bigmath.NewInt(1), true
		}
		if !ok {
			return nil, nil, nil, false
		}
	}
	if n[0].Sign() < 0 || n[1].Sign() <= 0 || n[2].Sign() <= 0 {
		return nil, nil, nil, false
	}
	limit = new(bigmath.Int).Add(n[0], bigmath.NewInt(1))
	interval, rest := new(bigmath.Int).QuoRem(n[2], n[1], new(bigmath.Int))
	if rest.Sign() > 0 {
		interval.Add(interval, bigmath.NewInt(1))
	}
	fits := limit.IsInt64() && new(bigmath.Int).Mul(limit, interval).IsInt64()
	return limit, interval, n[3], fits
}

// FuzzThrottleArguments compares the parser of CL.THROTTLE with slowThrottle.
func FuzzThrottleArguments(f *testing.F) {
	for _, seed := range [][4]string{
		{"15", "30", "60", "1"}, {"0", "1", "1", "0"}, {"+5", "+1", "+1", "-1"}, {"007", "01", "1", "-0"},
		{"9223372036854775807", "1", "1", "1"}, {"9223372036854775806", "1000000000", "1", "1"},
		{"0", "1", "9223372036", "9223372036854775807"}, {"4611686017", "30", "60", "-9223372036854775808"},
		{"1.5", "1", "1", "1"}, {"", " 1", "\x00", "--1"}, {"6000", "6000", "1", "1"},
		{"18446744073709551616", "99999999999999999999999", "-0", "+"},
		{"15", "30", "250ms", "MS"}, {"15", "30", "+1H", "1"}, {"15", "30", "ms", "ms"}, {"0", "9223372036854775807", "9223372036854775807d", "0"},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]), []byte(seed[2]), []byte(seed[3]))
	}
	f.Fuzz(func(t *testing.T, burst, count, period, quantity []byte) {
		args := [4][]byte{burst, count, period, quantity}
		limit, interval, charged, ok := slowThrottle(args)
		var req limiter.Request
		err := parseThrottle(append(throttleArgs(), args[:]...), &req)
		switch {
		case ok && err != nil:
			t.Errorf("%q is refused: %v", args, err)
		case !ok && !errors.Is(err, slowThrottleError(args)):
			t.Errorf("%q is parsed as %+v with the error %v; want the error %v", args, req, err, slowThrottleError(args))
		case ok && (req.Limit.Max != limit.Int64() || int64(req.Limit.Interval) != interval.Int64() || req.Quantity != charged.Int64()):
			t.Errorf("%q is parsed as %+v; want limit %v, interval %v, quantity %v", args, req, limit, interval, charged)
		}
	})
}
