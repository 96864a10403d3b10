package buckets

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Each kind of work is reported in its own field once this work has been done, and not earlier.
func TestPauses(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, Shards: 1, MaxMemory: 200_000, Eviction: EvictSmallestDebt})
	check := func(after string, want ...bool) {
		t.Helper()
		p := table.Usage().Pauses
		for i, d := range []time.Duration{p.Growth, p.Compaction, p.Eviction, p.Sweep, p.Copy} {
			if (d > 0) != want[i] {
				t.Errorf("after %s the pauses are %+v; Growth, Compaction, Eviction, Sweep and Copy above 0: want %v", after, p, want)
			}
		}
	}
	l := limiter.Limit{Max: 2, Interval: time.Hour}
	check("nothing", false, false, false, false, false)
	flood(t, table, "a", 500, l)
	check("growth", true, false, false, false, false)
	for range table.Records() {
	}
	check("copying", true, false, false, false, true)
	sweepAll(table)
	check("a sweep", true, false, false, true, true)
	flood(t, table, "b", 10_000, l)
	check("eviction", true, true, true, true, true)
}

func TestSinceKeepsTheLongest(t *testing.T) {
	var worst atomic.Int64
	now := time.Now()
	since(&worst, now.Add(-time.Hour))
	since(&worst, now)
	if d := time.Duration(worst.Load()); d < time.Hour || d > 2*time.Hour {
		t.Errorf("the longest pause is %v, want 1 h", d)
	}
}
