package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

// The parameters of the measurements of SLIDING. Loads are multiples of the limit.
var (
	accuracyLimits = []int64{10, 100, 1000}
	accuracyLoads  = []float64{0.5, 0.9, 1, 1.1, 2, 5}
)

const (
	accuracyPeriod   = 10 * time.Second
	accuracyRequests = 100_000 // minimum number of requests of each measurement
	accuracyPeriods  = 200     // minimum duration of each measurement, in periods
)

// setting is the set of parameters of one measurement.
type setting struct {
	traffic  traffic
	load     float64 // requests in a period, as a multiple of the limit
	limit    int64
	requests int
}

// settings returns the parameters of all measurements.
func settings() (all []setting) {
	for _, t := range traffics {
		for _, limit := range accuracyLimits {
			for _, load := range accuracyLoads {
				requests := max(accuracyRequests, int(math.Round(accuracyPeriods*load*float64(limit))))
				all = append(all, setting{t, load, limit, requests})
			}
		}
	}
	return all
}

// times returns the times of the requests. Equal settings have equal times.
func (s setting) times() []time.Duration {
	mean := time.Duration(float64(accuracyPeriod) / s.load / float64(s.limit))
	gap := s.traffic.gaps(rand.New(rand.NewPCG(1, 2)), mean, s.limit)
	times := make([]time.Duration, s.requests)
	at := time.Duration(0)
	for i := range times {
		at += gap()
		times[i] = at
	}
	return times
}

// accuracy is the result of SLIDING compared with LOG.
type accuracy struct {
	requests int
	tooMany  int // admitted by SLIDING and refused by LOG
	tooFew   int // refused by SLIDING and admitted by LOG
	sliding  int // admitted by SLIDING
	log      int // admitted by LOG
	most     int // largest number that SLIDING admitted within a period
}

// key is the state of one key and its decision function. It is used instead of a table, since
// there are millions of decisions on only two keys. The room field is memory that the decision
// function may use for the new state.
type key struct {
	decide func(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (limiter.Change, limiter.Decision)
	limit  limiter.Limit
	state  limiter.State
	room   []byte
}

// admits reports whether a request for one unit is admitted at the given time since the epoch.
func (k *key) admits(at time.Duration) bool {
	change, d := k.decide(&k.limit, k.state, epoch+uint64(at), 1, k.room)
	if change.Set {
		k.state.Expires = change.Expires
		k.state.Data = append(k.state.Data[:change.Keep], change.Tail...)
		k.room = change.Tail
	}
	return !d.Limited
}

// measure runs one measurement.
func (s setting) measure() accuracy { return compare(s.limit, accuracyPeriod, s.times()) }

// compare sends the same requests to SLIDING and to LOG.
func compare(limit int64, period time.Duration, times []time.Duration) accuracy {
	p := limiter.Period{N: int64(period), Unit: 1}
	sliding := key{decide: window.Slide, limit: must(window.NewLimit(limit, p, 1))}
	log := key{decide: windowlog.Decide, limit: must(windowlog.NewLimit(limit, p, limit))}
	a := accuracy{requests: len(times)}
	var admitted []time.Duration // by SLIDING
	for _, at := range times {
		passes, passesLog := sliding.admits(at), log.admits(at)
		if passes {
			admitted = append(admitted, at)
		}
		if passesLog {
			a.log++
		}
		switch {
		case passes && !passesLog:
			a.tooMany++
		case passesLog && !passes:
			a.tooFew++
		}
	}
	a.sliding, a.most = len(admitted), most(admitted, period)
	return a
}

// most returns the largest number of times within any half-open interval of the length of
// a period. times must be sorted.
func most(times []time.Duration, period time.Duration) (n int) {
	oldest := 0
	for i, at := range times {
		for times[oldest]+period <= at {
			oldest++
		}
		n = max(n, i-oldest+1)
	}
	return n
}

const accuracyHeader = "traffic   limit  load  requests    differ  too many   too few  admitted  largest"

// row returns a line of the table under accuracyHeader.
func (a accuracy) row(s setting) string {
	percent := func(n, of int) string { return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(of)) }
	return fmt.Sprintf("%-8s  %5d  %4.1f  %8d  %8s  %8s  %8s  %8s   %.2f x",
		s.traffic.name, s.limit, s.load, a.requests,
		percent(a.tooMany+a.tooFew, a.requests), percent(a.tooMany, a.requests), percent(a.tooFew, a.requests),
		percent(a.sliding, a.log), float64(a.most)/float64(s.limit))
}
