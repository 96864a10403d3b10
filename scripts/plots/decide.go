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

// epoch is when traffic begins: windows of any usual length begin then, too.
var epoch = uint64(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())

// engine is a table whose clock tells the time of the request that is being decided.
type engine struct {
	table *buckets.Table
	now   uint64
}

func newEngine() *engine {
	e := &engine{now: epoch}
	e.table = buckets.New(buckets.Config{Clock: func() uint64 { return e.now }, Shards: 1})
	return e
}

// decide answers a request for one unit, at a time after the epoch.
func (e *engine) decide(at time.Duration, a *algorithm) limiter.Decision {
	e.now = epoch + uint64(at)
	reqs := [1]limiter.Request{{Kind: a.kind, Key: []byte(a.file), Limit: a.limit, Quantity: 1}}
	var out [1]limiter.Decision
	e.table.Decide(reqs[:], out[:])
	if out[0].Err != nil {
		panic("plots: no decision: " + out[0].Err.Error()) // there is no bound on memory, and one kind per key
	}
	return out[0]
}

// algorithm is one that is shown, under a limit.
type algorithm struct {
	file    string // its plot, and its key in the table
	title   string
	command string // by which a client asks for the same
	kind    limiter.Kind
	limit   limiter.Limit
}

// The limit of the plots.
const (
	demoLimit  = 10
	demoPeriod = 10 * time.Second
)

// demoAlgorithms are those of the plots, in the order of the documentation.
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

// must unwraps limits whose parameters are written in this program.
func must(l limiter.Limit, err error) limiter.Limit {
	if err != nil {
		panic("plots: " + err.Error())
	}
	return l
}

// played is what an algorithm made of some requests.
type played struct {
	came, admitted []time.Duration
	goesOn         []time.Duration // when each of the admitted may go on
}

// play decides requests one after the other.
func play(a *algorithm, came []time.Duration) played {
	e, p := newEngine(), played{came: came}
	for _, at := range came {
		if d := e.decide(at, a); !d.Limited {
			p.admitted = append(p.admitted, at)
			p.goesOn = append(p.goesOn, at+d.Wait)
		}
	}
	return p
}
