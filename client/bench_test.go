package client

import (
	"testing"
	"time"

	"github.com/throttledhq/throttled/client/internal/testserver"
)

// leased returns a Client with enough units in hand, and the limit of the key "k".
func leased(t testing.TB) (*Client, Limit) {
	c := connect(t, dial(t, testserver.Start(t, "0").Addr), Options{})
	limit := must(Throttle(999_999_999, 1_000_000_000, time.Second))
	eventually(t, "leases of the size of the demand", func() bool {
		for range 10_000 {
			allow(t, c, "k", limit)
		}
		return c.Stats().Units > 10_000
	})
	return c, limit
}

// TestAllow_Allocations checks that a decision with a lease allocates nothing.
func TestAllow_Allocations(t *testing.T) {
	c, limit := leased(t)
	local := c.Stats().LocalAdmitted
	const runs = 1000
	allocations := testing.AllocsPerRun(runs, func() { allow(t, c, "k", limit) })
	// Draws in the background allocate at times, and requests that are forwarded too.
	if local = c.Stats().LocalAdmitted - local; local < runs/2 || allocations >= 1 {
		t.Errorf("%g allocations a decision, %d of %d decided with leases; want 0, and most", allocations, local, runs)
	}
}

// BenchmarkAllow measures decisions with leases, and reports the calls of the server that they cause. It does not use allow,
// whose call of Helper takes longer than a decision.
func BenchmarkAllow(b *testing.B) {
	c, limit := leased(b)
	before, ctx := c.Stats(), b.Context()
	for b.Loop() {
		if _, err := c.Allow(ctx, "k", limit); err != nil {
			b.Fatal(err)
		}
	}
	report(b, before, c.Stats())
}

// BenchmarkAllow_Parallel is BenchmarkAllow with a goroutine for each processor, all on one key.
func BenchmarkAllow_Parallel(b *testing.B) {
	c, limit := leased(b)
	before, ctx := c.Stats(), b.Context()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Allow(ctx, "k", limit); err != nil {
				b.Error(err)
				return
			}
		}
	})
	report(b, before, c.Stats())
}

func report(b *testing.B, before, after Stats) {
	b.Helper()
	b.ReportMetric(100*float64(calls(after)-calls(before))/float64(b.N), "calls/100")
}
