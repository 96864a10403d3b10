package main

import (
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/leaky"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

// epoch is the start of the traffic. It is midnight UTC, so windows of a minute, an hour or a day
// also start at this time.
var epoch = uint64(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())

// engine is a table whose clock shows the time of the current request.
type engine struct {
	table *buckets.Table
	now   uint64
}

func newEngine() *engine {
	e := &engine{now: epoch}
	e.table = buckets.New(buckets.Config{Clock: func() uint64 { return e.now }, Shards: 1})
	return e
}

// decide decides a request for one unit at the given time since the epoch.
func (e *engine) decide(at time.Duration, a *algorithm) limiter.Decision {
	e.now = epoch + uint64(at)
	reqs := [1]limiter.Request{{Kind: a.kind, Key: []byte(a.file), Limit: a.limit, Quantity: 1}}
	var out [1]limiter.Decision
	e.table.Decide(reqs[:], out[:])
	if out[0].Err != nil {
		panic("plots: no decision: " + out[0].Err.Error()) // memory is unlimited, and each key has one kind
	}
	return out[0]
}

// algorithm is a plotted algorithm with its limit.
type algorithm struct {
	file    string // name of its plot, and its key in the table
	title   string
	command string // the equivalent client command
	kind    limiter.Kind
	limit   limiter.Limit
}

// The limit of the plots.
const (
	demoLimit  = 10
	demoPeriod = 10 * time.Second
)

// demoAlgorithms returns the algorithms of the plots, in the order of the documentation.
func demoAlgorithms() []algorithm {
	ten := limiter.Seconds(10)
	return []algorithm{
		{"gcra", "GCRA", "CL.THROTTLE key 9 10 10", limiter.Throttle, must(gcra.NewLimit(demoLimit-1, demoLimit, ten))},
		{"sliding", "Sliding window", "CL.WINDOW key 10 10", limiter.SlidingWindow, must(window.NewLimit(demoLimit, ten, 1))},
		{"fixed", "Fixed window", "CL.WINDOW key 10 10 FIXED", limiter.FixedWindow, must(window.NewLimit(demoLimit, ten, 1))},
		{"log", "Window log", "CL.WINDOW key 10 10 LOG", limiter.WindowLog, must(windowlog.NewLimit(demoLimit, ten, demoLimit))},
		{"buckets", "Window of buckets", "CL.WINDOW key 10 10 BUCKETS 5", limiter.WindowBuckets, must(window.NewLimit(demoLimit, ten, 5))},
		{"tokenbucket", "Token bucket", "CL.BUCKET key 10 5 5", limiter.TokenBucket, must(tokenbucket.NewLimit(demoLimit, 5, limiter.Seconds(5)))},
		{"leaky", "Leaky bucket", "CL.LEAKY key 10 10 10", limiter.LeakyBucket, must(leaky.NewLimit(demoLimit, demoLimit, ten))},
	}
}

// must returns a limit with constant parameters. It panics if they are invalid.
func must(l limiter.Limit, err error) limiter.Limit {
	if err != nil {
		panic("plots: " + err.Error())
	}
	return l
}

// played is the result of an algorithm for some requests.
type played struct {
	arrivals, admitted []time.Duration
	proceedAt          []time.Duration // times at which the admitted requests may proceed
}

// play decides requests in order.
func play(a *algorithm, arrivals []time.Duration) played {
	e, p := newEngine(), played{arrivals: arrivals}
	for _, at := range arrivals {
		if d := e.decide(at, a); !d.Limited {
			p.admitted = append(p.admitted, at)
			p.proceedAt = append(p.proceedAt, at+d.Wait)
		}
	}
	return p
}
