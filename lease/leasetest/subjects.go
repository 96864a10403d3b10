package leasetest

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Subjects returns one subject of each kind that can be leased, with random limits. The length of relaxed leases is
// added to the time that the rule of GCRA permits.
func Subjects(rng *rand.Rand) []*Subject {
	var all []*Subject
	for _, kind := range []limiter.Kind{limiter.Throttle, limiter.ScaledThrottle} {
		all = append(all, gcra(kind, rng, false), gcra(kind, rng, true), changing(kind, rng))
	}
	for _, kind := range []limiter.Kind{limiter.FixedWindow, limiter.WindowBuckets, limiter.SlidingWindow, limiter.Calendar} {
		all = append(all, windows(kind, rng))
	}
	return append(all, bucket(limiter.TokenBucket, rng), bucket(limiter.ScaledBucket, rng))
}

func name(kind limiter.Kind, relaxed bool) string {
	s := kind.String() + "-" + kind.Encoding()
	if kind == limiter.ScaledThrottle || kind == limiter.ScaledBucket {
		s = "scaled-" + s
	}
	if relaxed {
		s += "-relaxed"
	}
	return s
}

// between returns a random number from low to high.
func between(rng *rand.Rand, low, high int64) int64 { return low + rng.Int64N(high-low+1) }

func fixed(l limiter.Limit) func(uint64) limiter.Limit {
	return func(uint64) limiter.Limit { return l }
}

func gcra(kind limiter.Kind, rng *rand.Rand, relaxed bool) *Subject {
	l := limiter.Limit{Max: between(rng, 8, 60), Interval: time.Duration(between(rng, 20, 60)) * time.Millisecond}
	return &Subject{Name: name(kind, relaxed), Kind: kind, Limit: fixed(l), Relaxed: relaxed, ByTime: true, NoRefunds: relaxed, Rule: func(r *Run) Rule {
		rule := GCRA{Interval: uint64(l.Interval), Limit: l.Max}
		if relaxed {
			rule.Slack = r.Hold
		}
		return rule
	}}
}

// changing returns a GCRA limit that changes. A unit of a Throttle counts with the emission interval of its request, and one
// of a ScaledThrottle with the shortest interval.
func changing(kind limiter.Kind, rng *rand.Rand) *Subject {
	var l limiter.Limit
	rule := GCRA{Interval: math.MaxInt64}
	s := &Subject{Name: name(kind, false) + "-changing", Kind: kind, NoRefunds: true, Rule: func(*Run) Rule { return rule }}
	s.Limit = func(uint64) limiter.Limit { return l }
	s.Change = func(rng *rand.Rand) {
		l = limiter.Limit{Max: between(rng, 8, 60), Interval: time.Duration(between(rng, 20, 200)) * time.Millisecond}
		if kind == limiter.Throttle {
			rule.Interval, rule.Limit = 1, max(rule.Limit, l.Max*int64(l.Interval))
		} else {
			rule.Interval, rule.Limit = min(rule.Interval, uint64(l.Interval)), max(rule.Limit, l.Max)
		}
	}
	if kind == limiter.Throttle {
		s.Weight = func() int64 { return int64(l.Interval) }
	}
	s.Change(rng)
	return s
}

func windows(kind limiter.Kind, rng *rand.Rand) *Subject {
	width := time.Duration(between(rng, 50, 300)) * time.Millisecond
	l := limiter.Limit{Max: between(rng, 5, 60), Interval: width, Amount: 1}
	rule := Rule(Windows{Width: uint64(width), Parts: 1, Limit: l.Max})
	s := &Subject{Name: name(kind, false), Kind: kind, Limit: fixed(l)}
	switch kind {
	case limiter.SlidingWindow:
		rule, s.Rounded = Sliding{Width: uint64(width), Limit: l.Max}, true
	case limiter.WindowBuckets:
		l.Amount = between(rng, 2, 5)
		s.Limit = fixed(l)
		rule = Windows{Width: uint64(width), Parts: uint64(l.Amount), Limit: l.Max}
	case limiter.Calendar:
		s.Limit = func(now uint64) limiter.Limit {
			l.Amount = int64(now - now%uint64(width) + uint64(width))
			return l
		}
	}
	s.Rule = func(*Run) Rule { return rule }
	return s
}

func bucket(kind limiter.Kind, rng *rand.Rand) *Subject {
	l := limiter.Limit{Max: between(rng, 5, 60), Interval: time.Duration(between(rng, 50, 300)) * time.Millisecond, Amount: between(rng, 1, 10)}
	return &Subject{Name: name(kind, false), Kind: kind, Limit: fixed(l), Rule: func(r *Run) Rule {
		return Refills{Times: r.Refills, Amount: l.Amount, Limit: l.Max}
	}}
}
