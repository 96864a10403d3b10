package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

// ErrLimit is the error for a Limit that cannot be compiled, and for the zero Limit.
var ErrLimit = errors.New("invalid limit")

// Limit is a compiled limit. The functions that return one are named after the commands of the server. The zero Limit is
// not valid.
type Limit struct {
	limit         limiter.Limit
	first, second int64 // the integers of the command
	period        int64 // in milliseconds
	kind          limiter.Kind
}

// form is the form of a kind of limits in commands. An integer follows the first one if second is true.
type form struct {
	word, mode string
	second     bool
	arguments  [3]string // names of the parameters, for errors: the first integer, the second one, and the period
	least      int64     // smallest first integer
	longest    string    // condition for all arguments together, for errors
}

var windowArguments, shortPeriod = [3]string{"limit", "", "period"}, "period must be at most 146 years"

// forms has the forms of all kinds of limits.
var forms = map[limiter.Kind]form{
	limiter.Throttle: {
		word: "THROTTLE", second: true, arguments: [3]string{"maxBurst", "count", "period"},
		longest: "(maxBurst + 1) * period / count must be at most 292 years",
	},
	limiter.SlidingWindow: {word: "WINDOW", mode: "SLIDING", arguments: windowArguments, least: 1, longest: shortPeriod},
	limiter.FixedWindow:   {word: "WINDOW", mode: "FIXED", arguments: windowArguments, least: 1, longest: shortPeriod},
	limiter.WindowLog:     {word: "WINDOW", mode: "LOG", arguments: windowArguments, least: 1, longest: shortPeriod},
	limiter.TokenBucket: {
		word: "BUCKET", second: true, arguments: [3]string{"capacity", "refill", "interval"}, least: 1,
		longest: "interval * (capacity / refill, rounded up) must be at most 292 years",
	},
}

// check returns an error that names the first argument that is out of range.
func (f *form) check(first, second int64, period time.Duration) error {
	switch {
	case first < f.least:
		return fmt.Errorf("%w: %s must be at least %d, not %d", ErrLimit, f.arguments[0], f.least, first)
	case f.second && second < 1:
		return fmt.Errorf("%w: %s must be at least 1, not %d", ErrLimit, f.arguments[1], second)
	case period <= 0 || period%time.Millisecond != 0:
		return fmt.Errorf("%w: %s must be a positive number of milliseconds, not %v", ErrLimit, f.arguments[2], period)
	}
	return nil
}

// Throttle returns a limit of the algorithm GCRA: bursts of maxBurst+1 units, and count units in each period, which is a
// whole number of milliseconds. The error wraps ErrLimit.
func Throttle(maxBurst, count int64, period time.Duration) (Limit, error) {
	return compile(limiter.Throttle, maxBurst, count, period, func(p limiter.Period) (limiter.Limit, error) {
		return gcra.NewLimit(maxBurst, count, p)
	})
}

// SlidingWindow returns a limit of units in a window that slides: an estimate from the counts of two windows. The period is
// a whole number of milliseconds. The error wraps ErrLimit.
func SlidingWindow(limit int64, period time.Duration) (Limit, error) {
	return wholeWindow(limiter.SlidingWindow, limit, period)
}

// FixedWindow returns a limit of units in windows that start at multiples of the period, which is a whole number of
// milliseconds. The error wraps ErrLimit.
func FixedWindow(limit int64, period time.Duration) (Limit, error) {
	return wholeWindow(limiter.FixedWindow, limit, period)
}

func wholeWindow(kind limiter.Kind, limit int64, period time.Duration) (Limit, error) {
	return compile(kind, limit, 0, period, func(p limiter.Period) (limiter.Limit, error) { return window.NewLimit(limit, p, 1) })
}

// WindowLog returns a limit of units in any window of the length period, which is a whole number of milliseconds. The server
// stores each request. The error wraps ErrLimit.
func WindowLog(limit int64, period time.Duration) (Limit, error) {
	return compile(limiter.WindowLog, limit, 0, period, func(p limiter.Period) (limiter.Limit, error) {
		return windowlog.NewLimit(limit, p, max(1, min(limit, windowlog.MaxEntries)))
	})
}

// Bucket returns a limit by a bucket of capacity tokens, to which refill tokens are added in every interval, which is a
// whole number of milliseconds. The error wraps ErrLimit.
func Bucket(capacity, refill int64, interval time.Duration) (Limit, error) {
	return compile(limiter.TokenBucket, capacity, refill, interval, func(p limiter.Period) (limiter.Limit, error) {
		return tokenbucket.NewLimit(capacity, refill, p)
	})
}

// compile returns the Limit that a function compiles. The server compiles the command to the same limit.
func compile(kind limiter.Kind, first, second int64, period time.Duration, f func(limiter.Period) (limiter.Limit, error)) (Limit, error) {
	form := forms[kind]
	if err := form.check(first, second, period); err != nil {
		return Limit{}, err
	}
	ms := period.Milliseconds()
	l, err := f(limiter.Period{N: ms, Unit: time.Millisecond})
	if err != nil {
		return Limit{}, fmt.Errorf("%w: %s", ErrLimit, form.longest)
	}
	return Limit{limit: l, first: first, second: second, period: ms, kind: kind}, nil
}

// command returns the command that charges n units of the limit.
func (l *Limit) command(key string, n int64) []any {
	f := forms[l.kind]
	args := append(make([]any, 0, 8), "CL."+f.word)
	args = append(l.appendAmount(args, key), n)
	if f.mode != "" {
		args = append(args, f.mode)
	}
	return append(args, "MS")
}

// appendSpec appends the limit as a limit of CL.ALL.
func (l *Limit) appendSpec(args []any, key string) []any {
	f := forms[l.kind]
	args = l.appendAmount(append(args, f.word), key)
	if f.mode != "" {
		args = append(args, f.mode)
	}
	return args
}

// appendAmount appends the key, the integers and the period.
func (l *Limit) appendAmount(args []any, key string) []any {
	args = append(args, key, l.first)
	if forms[l.kind].second {
		args = append(args, l.second)
	}
	return append(args, fmt.Sprintf("%dms", l.period))
}
