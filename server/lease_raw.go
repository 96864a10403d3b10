package server

import (
	"math"
	"strings"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

// rawWord introduces a limit of CL.LEASE in the form in which engines use limits: RAW key kind max interval amount, with the
// interval in nanoseconds. Sidecars use it for the limits of rules, which no other form can express.
const rawWord = "raw"

// rawSize is the number of arguments of a raw limit.
const rawSize = 5

// rawRule contains the conditions that a raw limit of one kind must meet, so that no computation with it overflows, as the
// functions that compile limits guarantee.
type rawRule struct {
	least, most int64                        // range of the amount
	parts       func(l *limiter.Limit) int64 // number of intervals that must together fit in the period
	period      time.Duration
	formula     string // length of these intervals, for errors
}

const longest = time.Duration(math.MaxInt64)

var (
	rawRate   = rawRule{0, 0, func(l *limiter.Limit) int64 { return l.Max }, longest, "max * interval"}
	rawRefill = rawRule{1, math.MaxInt64, func(l *limiter.Limit) int64 { return (l.Max-1)/l.Amount + 1 }, longest, "ceil(max / amount) * interval"}
	rawWindow = rawRule{1, 1, oneInterval, window.MaxPeriod, "interval"}
)

func oneInterval(*limiter.Limit) int64 { return 1 }

// rawRules has the kinds of raw limits.
var rawRules = map[limiter.Kind]rawRule{
	limiter.Throttle:       rawRate,
	limiter.ScaledThrottle: rawRate,
	limiter.TokenBucket:    rawRefill,
	limiter.ScaledBucket:   rawRefill,
	limiter.SlidingWindow:  rawWindow,
	limiter.FixedWindow:    rawWindow,
	limiter.WindowBuckets:  {1, window.MaxParts, func(l *limiter.Limit) int64 { return l.Amount }, window.MaxPeriod, "amount * interval"},
	limiter.Calendar:       {1, math.MaxInt64, oneInterval, window.MaxPeriod, "interval"},
	limiter.WindowLog:      {1, math.MaxInt64, oneInterval, windowlog.MaxPeriod, "interval"},
}

// parseRaw sets the kind, key and limit of a draw from a raw limit, and returns the arguments after it. A log has at most
// logEntries requests.
func parseRaw(req *limiter.Request, args [][]byte, logEntries int64) (rest [][]byte, err error) {
	if len(args) < rawSize {
		return nil, errRawShort
	}
	kind := limiter.KindOfRaw(strings.ToLower(string(args[1])))
	if kind == 0 {
		return nil, errInvalid("kind", args[1], "one of "+enumerate(limiter.RawNames(), "and"))
	}
	rule := rawRules[kind]
	l, err := rule.parse(args[2:rawSize])
	if err != nil {
		return nil, err
	}
	if kind == limiter.WindowLog {
		l.Amount = min(l.Amount, logEntries)
	}
	req.Kind, req.Key, req.Limit = kind, args[0], l
	return args[rawSize:], nil
}

// parse parses the integers of a raw limit.
func (r *rawRule) parse(args [][]byte) (limiter.Limit, error) {
	var n [rawSize - 2]int64
	for i, want := range [...]struct {
		name        string
		least, most int64
	}{{"max", 1, math.MaxInt64}, {"interval", 1, math.MaxInt64}, {"amount", r.least, r.most}} {
		var ok bool
		if n[i], ok = resp.ParseInt(args[i]); !ok || n[i] < want.least || n[i] > want.most {
			return limiter.Limit{}, errInvalid(want.name, args[i], integerIn(want.least, want.most))
		}
	}
	l := limiter.Limit{Max: n[0], Interval: time.Duration(n[1]), Amount: n[2]}
	if r.parts(&l) > int64(r.period/l.Interval) {
		return limiter.Limit{}, r.errRange()
	}
	return l, nil
}
