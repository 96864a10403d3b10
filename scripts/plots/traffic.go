package main

import (
	"math/rand/v2"
	"time"
)

// phase is a stretch of traffic with equal gaps. The first request comes at from.
type phase struct {
	from, to, gap time.Duration // to is not part of it
}

// The traffic of the plots ends here.
const demoLength = 60 * time.Second

// demoPhases are quiet, steady at the limit, a hard burst, silence, a burst across the
// boundary of two windows, and two and a half times as much as the limit.
var demoPhases = []phase{
	{500 * time.Millisecond, 6 * time.Second, 2 * time.Second},
	{6500 * time.Millisecond, 12 * time.Second, time.Second},
	{12 * time.Second, 13 * time.Second, 40 * time.Millisecond},
	{28500 * time.Millisecond, 31500 * time.Millisecond, 125 * time.Millisecond},
	{33 * time.Second, demoLength, 400 * time.Millisecond},
}

// demoTraffic returns the times of the requests of the plots.
func demoTraffic() []time.Duration { return inPhases(demoPhases) }

// inPhases returns the times of all requests of some phases.
func inPhases(phases []phase) (times []time.Duration) {
	for _, p := range phases {
		for at := p.from; at < p.to; at += p.gap {
			times = append(times, at)
		}
	}
	return times
}

// traffic makes the gaps between requests. mean is the gap that they have on average, and
// limit is that of the limit per period: a burst is measured by it.
type traffic struct {
	name string
	gaps func(r *rand.Rand, mean time.Duration, limit int64) (gap func() time.Duration)
}

// traffics are those that the accuracy is measured on.
var traffics = []traffic{
	{"constant", constant},
	{"poisson", poisson},
	{"bursty", bursty},
}

// constant has equal gaps.
func constant(_ *rand.Rand, mean time.Duration, _ int64) func() time.Duration {
	return func() time.Duration { return mean }
}

// poisson is what many independent callers make together: exponential gaps.
func poisson(r *rand.Rand, mean time.Duration, _ int64) func() time.Duration {
	return func() time.Duration { return exponential(r, mean) }
}

// haste is how much faster than on average the requests of a burst come.
const haste = 20

// bursty has bursts of 1 to 2*limit requests, and exponential silences between them that are
// as long as keeps the average.
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
