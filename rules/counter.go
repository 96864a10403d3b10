package rules

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/throttledhq/throttled/ban"
	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/internal/muldiv"
	"github.com/throttledhq/throttled/leaky"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

// Counter is an amount of a limit in the form in which an Engine decides it. A request to the engine has the Kind, the
// key of AppendKey, and the limit of LimitAt. A Counter is immutable.
//
// The amount "unlimited" has the Kind 0: it admits each request and needs no state, so no request to the engine is made.
// The amount "none" has the Nominal 0 and a Limit.Max of 1. A request to the engine for it has a quantity of at least 2:
// it is refused at all times and changes no state. A refund is admitted, and changes no state either.
//
// If an amount changes, the counter keeps its key, and the units used stay used: a change from 5 to 8 per minute gives
// exactly 3 more. A limit with another period, algorithm or list "per" has other keys, and therefore new counters. The
// same holds for tiers that are added or removed, and for overrides with changed conditions, if their requests are counted
// on their own.
type Counter struct {
	Amount Amount
	Kind   limiter.Kind
	// Limit is the limit for requests with priority. Limit.Max includes the soft share, rounded down. For the Kind
	// Calendar, the other fields depend on the time, and only LimitAt sets them.
	Limit limiter.Limit
	// Nominal is the number of units up to which requests are admitted without the flag "soft": Limit.Max without the
	// soft share, or 0 for "none" and "unlimited".
	Nominal int64
	// Reserved is the number of units of Limit.Max that only requests with priority can charge. It is rounded up, and at
	// most Nominal.
	Reserved int64

	// Window is the short name of the period, such as "15m", or "unlimited" or "none".
	Window string
	// Title is the name of the limit and Window as two bulk strings of RESP, as they are in replies. The name of the
	// default of a domain is empty.
	Title []byte
	// AdmittedTitle is Title, and the first two integers of a decision that admits the request: 0 and Nominal.
	AdmittedTitle []byte

	prefix   string // of the key
	calendar calendar
}

// Errors of the compilation of an amount.
var (
	errRange = errors.New("the time to restore all units is out of range")
	errLog   = fmt.Errorf(`the algorithm "log" stores each request, and can store at most %d`, windowlog.MaxEntries)
	errSoft  = errors.New("the count with the soft share is out of range")
)

// compileCounters returns the counters for a list of amounts of a limit. If l is nil, they are amounts of the default
// of the domain. The error names the limit and the amount.
func compileCounters(domain, limit string, l *Limit, amounts []Amount) ([]Counter, error) {
	if l == nil {
		l = &Limit{}
	}
	counters := make([]Counter, len(amounts))
	for i, amount := range amounts {
		var err error
		if counters[i], err = compileCounter(l, amount); err != nil {
			return nil, fmt.Errorf("domain %s, limit %q, amount %q: %w", domain, limit, amount, err)
		}
		counters[i].Window = windowOf(l, amount)
		counters[i].setTitles(limit)
		counters[i].prefix = keyPrefix(domain, limit, l.Algorithm.Kind, counters[i].Window)
	}
	return counters, nil
}

// setTitles sets the parts of replies that do not depend on the request. limit is the name of the limit.
func (c *Counter) setTitles(limit string) {
	title := fmt.Appendf(nil, "$%d\r\n%s\r\n$%d\r\n%s\r\n", len(limit), limit, len(c.Window), c.Window)
	n := len(title)
	c.AdmittedTitle = fmt.Appendf(title, ":0\r\n:%d\r\n", c.Nominal)
	c.Title = c.AdmittedTitle[:n:n]
}

// compileCounter returns the counter for one amount, without its Window and the prefix of its key.
func compileCounter(l *Limit, amount Amount) (Counter, error) {
	c := Counter{Amount: amount}
	switch amount.Kind {
	case Unlimited:
		return c, nil
	case None:
		c.Kind, c.Limit = limiter.ScaledThrottle, limiter.Limit{Max: 1, Interval: 1}
		return c, nil
	}
	c.Nominal = amount.atOnce()
	most, ok := withShare(c.Nominal, l.Soft)
	if !ok {
		return c, errSoft
	}
	c.Reserved = reserved(c.Nominal, l.Priority.Share)
	if l.Algorithm.Kind == Fixed && amount.Per.Unit >= Day {
		c.Kind, c.Limit.Max = limiter.Calendar, most
		c.calendar = calendar{amount.Per, l.Zone, l.Anchor}
		return c, nil
	}
	var err error
	c.Kind, c.Limit, err = engineLimit(l.Algorithm, amount, most)
	return c, err
}

// compileBan returns the counter for the bans of a limit, or nil if it has no ban. The counter has no units: a request with
// quantity 0 asks for a ban, and a request with quantity 1 begins one. The key does not depend on the length of the ban,
// so a ban stays if the length changes.
func compileBan(domain string, l *Limit) *Counter {
	if l.Ban.For == 0 {
		return nil
	}
	return &Counter{
		Kind: limiter.Ban, Limit: ban.NewLimit(l.Ban.For), Nominal: 1, Window: "ban",
		prefix: fmt.Sprintf("rule|%s|%s|ban|-", domain, l.Name),
	}
}

// windowOf returns the name of the window of an amount in keys.
func windowOf(l *Limit, amount Amount) string {
	if amount.Kind != Rate {
		return amount.String()
	}
	return windowName(amount.Per, l.Algorithm.Kind == Fixed)
}

// engineLimit compiles an amount whose soft share is included in most, the units that can be charged at once. The soft
// share does not change the rate at which units are restored.
func engineLimit(algorithm Algorithm, amount Amount, most int64) (limiter.Kind, limiter.Limit, error) {
	period := limiter.Period{N: amount.Per.N, Unit: units[amount.Per.Unit].length}
	form := forms[algorithm.Kind]
	limit, err := form.limit(most, amount.Count, period, int64(algorithm.Buckets))
	switch {
	case err == nil:
		return form.kind, limit, nil
	case algorithm.Kind == Log && most > windowlog.MaxEntries:
		return 0, limiter.Limit{}, errLog
	}
	return 0, limiter.Limit{}, errRange
}

// form describes the use of one algorithm by the engine.
type form struct {
	kind limiter.Kind
	// limit compiles a limit on most units at once, with count units per period.
	limit func(most, count int64, period limiter.Period, buckets int64) (limiter.Limit, error)
}

var forms = [...]form{
	GCRA: {limiter.ScaledThrottle, func(most, count int64, period limiter.Period, _ int64) (limiter.Limit, error) {
		return gcra.NewLimit(most-1, count, period)
	}},
	Sliding: {limiter.SlidingWindow, func(most, _ int64, period limiter.Period, _ int64) (limiter.Limit, error) {
		return window.NewLimit(most, period, 1)
	}},
	Fixed: {limiter.FixedWindow, func(most, _ int64, period limiter.Period, _ int64) (limiter.Limit, error) {
		return window.NewLimit(most, period, 1)
	}},
	Log: {limiter.WindowLog, func(most, _ int64, period limiter.Period, _ int64) (limiter.Limit, error) {
		return windowlog.NewLimit(most, period, most)
	}},
	Buckets: {limiter.WindowBuckets, func(most, _ int64, period limiter.Period, buckets int64) (limiter.Limit, error) {
		return window.NewLimit(most, period, buckets)
	}},
	Bucket: {limiter.ScaledBucket, func(most, count int64, period limiter.Period, _ int64) (limiter.Limit, error) {
		return tokenbucket.NewLimit(most, count, period)
	}},
	Leaky: {limiter.ScaledLeaky, func(most, count int64, period limiter.Period, _ int64) (limiter.Limit, error) {
		return leaky.NewLimit(most, count, period)
	}},
}

// reserved returns a percentage of n, rounded up: a share of few units would else reserve nothing.
func reserved(n int64, percent int) int64 {
	part, _ := muldiv.Ceil(uint64(n), uint64(percent), 100) // at most n
	return int64(part)
}

// withShare returns n plus a percentage of n, rounded down. ok is false if the sum is out of range.
func withShare(n int64, percent int) (sum int64, ok bool) {
	part, _ := muldiv.Floor(uint64(n), uint64(percent), 100) // at most n
	return n + int64(part), int64(part) <= math.MaxInt64-n
}

// LimitAt returns the limit for a request at limiter time now. For a request without priority, the units in Reserved
// are subtracted from its Max. The result is 0 if the whole limit is reserved: each charge is then refused.
func (c *Counter) LimitAt(now time.Time, priority bool) limiter.Limit {
	limit := c.Limit
	if !priority {
		limit.Max -= c.Reserved
	}
	if c.Kind == limiter.Calendar {
		c.calendar.setWindow(&limit, now)
	}
	return limit
}

// setWindow sets the fields of a limit of the Kind Calendar that depend on the time.
func (c *calendar) setWindow(limit *limiter.Limit, now time.Time) {
	start, end := c.window(now.Unix())
	limit.Amount, limit.Interval = end*int64(time.Second), max(time.Duration(end-start)*time.Second, 1)
}
