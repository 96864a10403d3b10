package leasetest

import (
	"math/rand/v2"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Subjects returns one subject of each kind that can be leased, with random limits. The length of relaxed leases is
// added to the time that the rule of GCRA permits.
func Subjects(rng *rand.Rand) []*Subject {
	var all []*Subject
	for _, kind := range []limiter.Kind{limiter.Throttle, limiter.ScaledThrottle} {
		all = append(all, gcra(kind, rng, false), gcra(kind, rng, true), changing(kind, rng, false), changing(kind, rng, true))
	}
	for _, kind := range []limiter.Kind{limiter.FixedWindow, limiter.WindowBuckets, limiter.SlidingWindow, limiter.WindowLog, limiter.Calendar} {
		all = append(all, windows(kind, rng), changingWindows(kind, rng))
	}
	for _, kind := range []limiter.Kind{limiter.TokenBucket, limiter.ScaledBucket} {
		all = append(all, bucket(kind, rng), changingBucket(kind, rng))
	}
	return all
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
	return &Subject{Name: name(kind, relaxed), Kind: kind, Limit: fixed(l), Relaxed: relaxed, ByTime: true, Rule: func(r *Run) Rule {
		return GCRA{Interval: uint64(l.Interval), Limit: l.Max, Slack: r.Slack}
	}}
}

// changing returns a GCRA limit that changes. A unit of a Throttle counts with the emission interval of its request.
func changing(kind limiter.Kind, rng *rand.Rand, relaxed bool) *Subject {
	var l limiter.Limit
	s := &Subject{Name: name(kind, relaxed) + "-changing", Kind: kind, Relaxed: relaxed}
	s.Rule = func(r *Run) Rule { return Changing{s.ByTime, r.Slack} }
	s.Limit = func(uint64) limiter.Limit { return l }
	s.Change = func(rng *rand.Rand) {
		l = limiter.Limit{Max: between(rng, 8, 60), Interval: time.Duration(between(rng, 20, 200)) * time.Millisecond}
	}
	if kind == limiter.Throttle {
		s.ByTime, s.Weight = true, func() int64 { return int64(l.Interval) }
	} else {
		s.Rounded = true
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
	case limiter.WindowLog:
		l.Interval, l.Amount = 10*width, between(rng, 5, 100)
		s.Limit = fixed(l)
		rule = ChangedWindows{kind}
	case limiter.Calendar:
		s.Limit = func(now uint64) limiter.Limit {
			l.Amount = int64(now - now%uint64(width) + uint64(width))
			return l
		}
	}
	s.Rule = func(*Run) Rule { return rule }
	return s
}

// changingWindows returns a limit of windows whose maximum, length and number change. For a Calendar, the wall clock is set, too.
func changingWindows(kind limiter.Kind, rng *rand.Rand) *Subject {
	var l limiter.Limit
	var wall uint64
	s := &Subject{Name: name(kind, false) + "-changing", Kind: kind, Rule: func(*Run) Rule { return ChangedWindows{kind} }}
	s.Rounded = kind == limiter.SlidingWindow
	s.Limit = func(now uint64) limiter.Limit {
		if kind == limiter.Calendar {
			l.Amount = int64((now+wall)/uint64(l.Interval)+1) * int64(l.Interval)
		}
		return l
	}
	s.Change = func(rng *rand.Rand) {
		if l.Max == 0 || rng.IntN(3) == 0 {
			l.Max = between(rng, 5, 60)
		}
		l.Interval = time.Duration(between(rng, 1, []int64{10, 100, 300, 2000}[rng.IntN(4)])) * time.Millisecond
		wall = uint64(between(rng, 0, 600)) * uint64(time.Millisecond)
		switch l.Amount = 1; kind {
		case limiter.WindowBuckets:
			l.Amount = between(rng, 2, 5)
		case limiter.WindowLog:
			l.Amount = between(rng, 5, 100)
		}
	}
	s.Change(rng)
	return s
}

func bucket(kind limiter.Kind, rng *rand.Rand) *Subject {
	l := limiter.Limit{Max: between(rng, 5, 60), Interval: time.Duration(between(rng, 50, 300)) * time.Millisecond, Amount: between(rng, 1, 10)}
	return &Subject{Name: name(kind, false), Kind: kind, Limit: fixed(l), Rule: func(*Run) Rule { return Refills{} }}
}

// changingBucket returns a limit of a bucket whose maximum and refills change.
func changingBucket(kind limiter.Kind, rng *rand.Rand) *Subject {
	var l limiter.Limit
	s := &Subject{Name: name(kind, false) + "-changing", Kind: kind, Rule: func(*Run) Rule { return Refills{} }}
	s.Limit = func(uint64) limiter.Limit { return l }
	s.Change = func(rng *rand.Rand) {
		if l.Max == 0 || rng.IntN(3) == 0 {
			l.Max = between(rng, 5, 60)
		}
		l.Interval = time.Duration(between(rng, 1, []int64{10, 100, 300, 2000}[rng.IntN(4)])) * time.Millisecond
		l.Amount = between(rng, 1, 10)
	}
	s.Change(rng)
	return s
}
