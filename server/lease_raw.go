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

// rawFits has the kinds of raw limits, with the functions that report whether no computation with a limit overflows, as the
// functions that compile limits guarantee.
var rawFits = map[limiter.Kind]func(l *limiter.Limit) bool{
	limiter.Throttle:       rateFits,
	limiter.ScaledThrottle: rateFits,
	limiter.TokenBucket:    refillFits,
	limiter.ScaledBucket:   refillFits,
	limiter.SlidingWindow:  wholeFits,
	limiter.FixedWindow:    wholeFits,
	limiter.WindowBuckets:  windowFits,
	limiter.Calendar:       calendarFits,
	limiter.WindowLog:      logFits,
}

// parseRaw sets the kind, key and limit of a draw from a raw limit, and returns the arguments after it. A log has at most
// logEntries requests.
func parseRaw(req *limiter.Request, args [][]byte, logEntries int64) (rest [][]byte, err error) {
	if len(args) < rawSize {
		return nil, errRawShort
	}
	var l limiter.Limit
	var interval int64
	for i, to := range []*int64{&l.Max, &interval, &l.Amount} {
		n, ok := resp.ParseInt(args[2+i])
		if !ok || n < 0 {
			return nil, errInvalid([]string{"max", "interval", "amount"}[i], args[2+i], "an integer of at least 0")
		}
		*to = n
	}
	l.Interval = time.Duration(interval)
	kind := limiter.KindOfRaw(strings.ToLower(string(args[1])))
	if kind == 0 {
		return nil, errInvalid("kind", args[1], "one of "+enumerate(limiter.RawNames(), "and"))
	}
	if l.Max < 1 || l.Interval < 1 || !rawFits[kind](&l) {
		return nil, errRawRange
	}
	if kind == limiter.WindowLog {
		l.Amount = min(l.Amount, logEntries)
	}
	req.Kind, req.Key, req.Limit = kind, args[0], l
	return args[rawSize:], nil
}

func rateFits(l *limiter.Limit) bool {
	return l.Amount == 0 && l.Max <= math.MaxInt64/int64(l.Interval)
}

func refillFits(l *limiter.Limit) bool {
	return l.Amount >= 1 && (l.Max-1)/max(1, l.Amount)+1 <= math.MaxInt64/int64(l.Interval)
}

func wholeFits(l *limiter.Limit) bool { return l.Amount == 1 && l.Interval <= window.MaxPeriod }

func windowFits(l *limiter.Limit) bool {
	return l.Amount >= 1 && l.Amount <= window.MaxParts && l.Interval <= window.MaxPeriod/time.Duration(l.Amount)
}

func logFits(l *limiter.Limit) bool { return l.Amount >= 1 && l.Interval <= windowlog.MaxPeriod }

func calendarFits(l *limiter.Limit) bool { return l.Amount >= 1 && l.Interval <= window.MaxPeriod }
