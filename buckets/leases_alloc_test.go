//go:build !race

// Under the race detector, a sync.Pool drops a quarter of the values at random, so that the number of allocations
// depends on chance.

package buckets

import (
	"testing"

	"github.com/throttledhq/throttled/limiter"
)

// TestLeasedKeysDoNotAllocate checks that a charge, a peek and a refusal of a key with an outstanding lease allocate no memory,
// alone and in a group.
func TestLeasedKeysDoNotAllocate(t *testing.T) {
	for kind, l := range ample {
		if kind.Raw() == "" {
			continue // not leased
		}
		table := New(Config{Clock: newFakeClock().read})
		req := charge(kind, "key", l, 5)
		mustDraw(t, table, req)
		other := charge(kind, "other", l, 1)
		mustDraw(t, table, other)
		out := make([]limiter.Decision, 2)
		for _, quantity := range []int64{1, 0, l.Max} {
			req.Quantity = quantity
			for _, reqs := range [][]limiter.Request{{req}, linked(other, req)} {
				if n := testing.AllocsPerRun(200, func() { table.Decide(reqs, out[:len(reqs)]) }); n != 0 || out[0].Err != nil {
					t.Errorf("%v, %d requests, quantity %d: %v allocations, decision %+v; want none, and no error", kind, len(reqs), quantity, n, out[0])
				}
			}
		}
	}
}
