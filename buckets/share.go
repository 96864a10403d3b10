package buckets

import (
	"math"

	"github.com/throttledhq/throttled/limiter"
)

// UsedShare returns the used share of the limit of a record that expires after now: 0 to 1, with an error of at most an
// eighth of the share. For Throttle, LeakyBucket and their Scaled kinds, it is the share at time now, and for the other
// kinds the share after the last charge. It returns known false if the record was stored without a gauge.
func UsedShare(r *limiter.Record, now uint64) (share float64, known bool) {
	g := gauge(r.Gauge)
	switch {
	case g == 0:
		return 0, false
	case byTime(r.Kind):
		return min(1, float64(r.Expires-now)/g.full()), true
	case g >= exhausted:
		return 1, true
	}
	const steps, none = 52 - 3, 1023<<3 - exhausted
	return math.Float64frombits(uint64(int(g)+none) << steps), true
}
