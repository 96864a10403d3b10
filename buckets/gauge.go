package buckets

import (
	"math"

	"github.com/throttledhq/throttled/limiter"
)

// gauge is the byte of a record from which eviction computes the used share of the key's limit. Its
// meaning depends on the kind.
//
// For Throttle, LeakyBucket and their Scaled kinds, the used share is proportional to the time that remains until the
// key expires. The gauge encodes the time in which an exhausted limit recovers completely, rounded
// to four steps per power of two. The used share is the remaining time divided by the encoded time,
// with an error of at most one eighth.
//
// For all other kinds, the gauge is the class of the used share after the last charge or refund
// (see shareClass). Units may have recovered since then, so this share can be too high, but never
// too low.
//
// The value 0 means that the used share is unknown: the record was imported, or stored without a
// gauge (see SetGauges). The key counts as exhausted until it is charged again, so that a missing
// gauge does not cause its eviction.
type gauge byte

const (
	// gaugeOfTime takes the bits of the time as a float64, rounds off the lower bits (fullSteps is
	// their number), and subtracts fullFirst, so that a time of 1 ns has the gauge 1.
	fullSteps = 50
	fullFirst = 1023<<(52-fullSteps) - 1
)

// gaugeOf returns the gauge of a key after an admitted request.
func gaugeOf(req *limiter.Request, answer *limiter.Decision) gauge {
	if byTime(req.Kind) {
		return gaugeOfTime(max(1, uint64(req.Limit.Interval)*uint64(req.Limit.Max)))
	}
	return gauge(max(1, shareClass(float64(answer.Limit-answer.Remaining), float64(answer.Limit))))
}

// SetGauges sets whether decisions store gauges. The default is true. If stored is false, versions
// without support for gauges can decode the changes returned by Collect.
func (t *Table) SetGauges(stored bool) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.gaugeless = !stored
		s.mu.Unlock()
	}
}

// gaugeOf returns the gauge to store for a key after an admitted request.
func (s *shard) gaugeOf(req *limiter.Request, answer *limiter.Decision) gauge {
	if s.gaugeless {
		return 0
	}
	return gaugeOf(req, answer)
}

// byTime reports whether the used share of a key of kind k is proportional to its remaining time.
func byTime(k limiter.Kind) bool {
	const kinds = 1<<limiter.Throttle | 1<<limiter.LeakyBucket | 1<<limiter.ScaledThrottle | 1<<limiter.ScaledLeaky
	return kinds>>k.Base()&1 != 0
}

// gaugeOfTime returns the gauge of a limit that recovers completely in the time full: 1 to 1<<63-1
// nanoseconds.
func gaugeOfTime(full uint64) gauge {
	const half = 1 << (fullSteps - 1)
	return gauge((math.Float64bits(float64(full))+half)>>fullSteps - fullFirst)
}

// full is the inverse of gaugeOfTime. It returns nanoseconds.
func (g gauge) full() float64 {
	return math.Float64frombits((uint64(g) + fullFirst) << fullSteps)
}

// shareClasses is the number of classes into which used shares are divided: eight per power of two,
// down to a share of 1/(1<<30). Class 0 is an unused limit, and the last class an exhausted limit.
const shareClasses = 8*30 + 2

const exhausted = shareClasses - 1

// shareClass returns the class of used/limit. A higher class is a greater share.
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

// shareClass returns the class of the used share of a key that expires after now.
func (g gauge) shareClass(kind limiter.Kind, expires, now uint64) int {
	switch {
	case g == 0:
		return exhausted
	case byTime(kind):
		return shareClass(float64(expires-now), g.full())
	}
	return min(int(g), exhausted)
}
