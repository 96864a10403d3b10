package buckets

import (
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// pauses holds, for each kind of work other than decisions, the longest time for which this work has
// locked a shard. Such work is rare, so timing it has no measurable cost. Times are wall time, including
// preemption by the operating system.
type pauses struct {
	growth, compaction, eviction, sweep, copying atomic.Int64 // ns
}

// since raises worst to the time elapsed since begin, unless worst is already greater.
func since(worst *atomic.Int64, begin time.Time) {
	took := int64(time.Since(begin))
	for old := worst.Load(); took > old && !worst.CompareAndSwap(old, took); {
		old = worst.Load()
	}
}

func (p *pauses) report() limiter.Pauses {
	return limiter.Pauses{
		Growth:     time.Duration(p.growth.Load()),
		Compaction: time.Duration(p.compaction.Load()),
		Eviction:   time.Duration(p.eviction.Load()),
		Sweep:      time.Duration(p.sweep.Load()),
		Copy:       time.Duration(p.copying.Load()),
	}
}
