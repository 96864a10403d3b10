package buckets

import (
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// pauses keeps the longest time that a shard was locked by each kind of work other than
// deciding. Such work is rare, so timing it costs nothing that matters. What is timed is
// the clock on the wall: it includes what the system took the processor away for.
type pauses struct {
	growth, compaction, eviction, sweep, copying atomic.Int64 // ns
}

// since notes in one of the pauses that its work has gone on since begin.
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
