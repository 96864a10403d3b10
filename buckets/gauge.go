package buckets

import (
	"math"

	"github.com/throttledhq/throttled/limiter"
)

// gauge is the byte of a record by which eviction finds the share of its limit that the key
// has used. Its meaning depends on the kind.
//
// Of Throttle and LeakyBucket, whose share falls with the time that is left, it is the time in
// which a full limit comes back, in four steps for each power of two: the share at any time
// is the time left divided by it, and at most a ninth off. Of all other kinds it is the class
// of the share as of the last charge or refund (see shareClass). That is too high where
// something has come back since then, and never too low.
//
// 0 is unknown, as for records that were imported, or stored without a gauge (see SetGauges).
// They count as exhausted until they are charged again: a limit must not be forgotten because
// its gauge is missing.
type gauge byte

const (
	fullSteps = 50 // bits of a float64 below those that a gauge of time keeps
	fullFirst = 1023<<(52-fullSteps) - 1
)

// gaugeOf returns the gauge of a key after a request that was admitted.
func gaugeOf(req *limiter.Request, answer *limiter.Decision) gauge {
	if byTime(req.Kind) {
		return gaugeOfTime(uint64(req.Limit.Interval) * uint64(req.Limit.Max))
	}
	return gauge(max(1, shareClass(float64(answer.Limit-answer.Remaining), float64(answer.Limit))))
}

// SetGauges sets whether decisions store gauges, as they do from the beginning. While they do
// not, the changes that Collect returns can be read by versions that do not know of gauges.
func (t *Table) SetGauges(stored bool) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.gaugeless = !stored
		s.mu.Unlock()
	}
}

// gaugeOf returns the gauge to store of a key after a request that was admitted.
func (s *shard) gaugeOf(req *limiter.Request, answer *limiter.Decision) gauge {
	if s.gaugeless {
		return 0
	}
	return gaugeOf(req, answer)
}

// byTime reports whether the share that a key of a kind has used is in proportion to the time
// that it has left.
func byTime(k limiter.Kind) bool { return k == limiter.Throttle || k == limiter.LeakyBucket }

// gaugeOfTime returns the gauge of a limit that takes full nanoseconds to come back, 1 to
// 1<<63-1.
func gaugeOfTime(full uint64) gauge {
	const half = 1 << (fullSteps - 1)
	return gauge((math.Float64bits(float64(full))+half)>>fullSteps - fullFirst)
}

// full is the inverse of gaugeOfTime, in nanoseconds.
func (g gauge) full() float64 {
	return math.Float64frombits((uint64(g) + fullFirst) << fullSteps)
}

// shareClasses is eight classes for each power of two of a share, down to 1 in 1<<30. Class 0
// is nothing used, the last class a limit that is exhausted.
const shareClasses = 8*30 + 2

const exhausted = shareClasses - 1

// shareClass sorts used/limit into classes: one of a higher class is the greater share.
func shareClass(used, limit float64) int {
	const steps = 52 - 3
	const none = 1023<<3 - exhausted
	switch {
	case used <= 0:
		return 0
	case used >= limit:
		return exhausted
	}
	return max(1, int(math.Float64bits(used/limit)>>steps)-none)
}

// shareClass returns the class of the share that a key has used which expires after now.
func (g gauge) shareClass(kind limiter.Kind, expires, now uint64) int {
	switch {
	case g == 0:
		return exhausted
	case byTime(kind):
		return shareClass(float64(expires-now), g.full())
	}
	return min(int(g), exhausted)
}
