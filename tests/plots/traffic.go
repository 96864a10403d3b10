package main

import (
	"math/rand/v2"
	"time"
)

// phase is a part of the traffic with equal gaps. The first request is at the start of the phase.
type phase struct {
	from, to, gap time.Duration // to is exclusive
}

// demoLength is the duration of the traffic of the plots.
const demoLength = 60 * time.Second

// demoPhases consists of low traffic, traffic at the limit, a burst, silence, a burst
// across the boundary of two windows, and traffic at 2.5 times the limit.
var demoPhases = []phase{
	{500 * time.Millisecond, 6 * time.Second, 2 * time.Second},
	{6500 * time.Millisecond, 12 * time.Second, time.Second},
	{12 * time.Second, 13 * time.Second, 40 * time.Millisecond},
	{28500 * time.Millisecond, 31500 * time.Millisecond, 125 * time.Millisecond},
	{33 * time.Second, demoLength, 400 * time.Millisecond},
}

// demoTraffic returns the times of the requests of the plots.
func demoTraffic() []time.Duration { return inPhases(demoPhases) }

// inPhases returns the times of all requests of phases.
func inPhases(phases []phase) (times []time.Duration) {
	for _, p := range phases {
		for at := p.from; at < p.to; at += p.gap {
			times = append(times, at)
		}
	}
	return times
}

// traffic is a kind of traffic. The gaps function returns a generator of the gaps between requests.
// Its mean argument is the average gap. Its limit argument is the limit per period, from which the
// size of bursts is derived.
type traffic struct {
	name string
	gaps func(r *rand.Rand, mean time.Duration, limit int64) (gap func() time.Duration)
}

// traffics lists the kinds of traffic of the accuracy measurement.
var traffics = []traffic{
	{"constant", constant},
	{"poisson", poisson},
	{"bursty", bursty},
}

// constant generates equal gaps.
func constant(_ *rand.Rand, mean time.Duration, _ int64) func() time.Duration {
	return func() time.Duration { return mean }
}

// poisson generates exponential gaps, as in the traffic of many independent callers.
func poisson(r *rand.Rand, mean time.Duration, _ int64) func() time.Duration {
	return func() time.Duration { return exponential(r, mean) }
}

// haste is the factor by which the rate within a burst exceeds the average.
const haste = 20

// bursty generates bursts of 1 to 2*limit requests. The gaps between bursts are exponential, and so long
// that the average of all gaps is mean.
func bursty(r *rand.Rand, mean time.Duration, limit int64) func() time.Duration {
	left := int64(0)
	return func() time.Duration {
		if left > 0 {
			left--
			return mean / haste
		}
		size := 1 + r.Int64N(2*limit)
		left = size - 1
		return exponential(r, mean*time.Duration(size)-mean/haste*time.Duration(left))
	}
}

func exponential(r *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(r.ExpFloat64() * float64(mean))
}
