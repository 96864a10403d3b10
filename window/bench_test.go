package window

import (
	"math"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

// branch is a case for one code path of a decision, for the benchmark and the allocation test.
type branch struct {
	name     string
	decide   limitertest.Decide
	limit    limiter.Limit
	old      limiter.State
	at       time.Duration // since t0
	quantity int64
	room     int // capacity of the room argument in bytes, sufficient for the decision
}

// branches returns decisions with sub-windows of one day.
func branches() []branch {
	const day = 24 * time.Hour
	var all []branch
	for _, a := range []struct {
		name   string
		decide limitertest.Decide
		counts int
		size   int
		limit  uint64
		room   int
	}{
		{"slide", Slide, 2, 2, 1000, 64},
		{"fixed", Count, 1, 2, 1000, 64},
		{"buckets-7", Count, 7, 2, 1000, 64},
		{"buckets-60", Count, 60, 2, 1000, 9 << 10},
		{"buckets-1024", Count, MaxParts, 8, 1 << 40, 9 << 10},
	} {
		l := limiter.Limit{Max: int64(a.limit), Interval: day, Amount: int64(a.counts)}
		other := l
		other.Interval = day / 2
		full := make([]uint64, a.counts)
		for i := range full {
			full[i] = a.limit / uint64(a.counts)
		}
		full[a.counts-1] = a.limit
		used := append([]uint64{}, full...)
		used[a.counts-1] = 2
		add := func(name string, l limiter.Limit, counts []uint64, at time.Duration, quantity int64) {
			old := limiter.State{}
			if counts != nil {
				old = state(day, t0, a.size, counts...)
			}
			all = append(all, branch{a.name + "/" + name, a.decide, l, old, at, quantity, a.room})
		}
		add("admit", l, used, 20*time.Hour, 1)
		add("admit-fresh", l, nil, 20*time.Hour, 1)
		add("refuse", l, full, 6*time.Hour, 1)
		add("oversize", l, used, 6*time.Hour, 1+l.Max)
		add("peek", l, used, 6*time.Hour, 0)
		add("refund", l, used, 6*time.Hour, -1)
		add("refund-all", l, used, 6*time.Hour, math.MinInt64)
		add("convert-admit", other, used, 20*time.Hour, 1)
		add("convert-refuse", other, full, 6*time.Hour, 1)
		if a.counts > 1 {
			add("admit-next", l, used, 40*time.Hour, 1)
		}
	}
	return all
}

func BenchmarkDecide(b *testing.B) {
	for _, br := range branches() {
		b.Run(br.name, func(b *testing.B) {
			b.ReportAllocs()
			room := make([]byte, 0, br.room)
			l, old, now := br.limit, br.old, t0+uint64(br.at)
			// The results are discarded, since copying the two structs would take about half as long
			// as a decision. The compiler cannot optimize the call away, because decide is a variable.
			for range b.N {
				br.decide(&l, old, now, br.quantity, room)
			}
		})
	}
}

// TestBranches checks that the branches of the benchmark have the outcomes that their names state.
func TestBranches(t *testing.T) {
	for _, br := range branches() {
		ch, d := br.decide(&br.limit, br.old, t0+uint64(br.at), br.quantity, nil)
		want := br.quantity != 0
		switch br.name[len(br.name)-4:] {
		case "fuse", "size":
			want = false
		}
		if ch.Set != want || d.Limited == (want || br.quantity == 0) {
			t.Errorf("%s: the outcome does not match the name: %+v, %+v", br.name, ch, d)
		}
	}
}

// TestAllocs checks that no branch allocates memory if room has a sufficient capacity, and that
// NewLimit does not allocate memory.
func TestAllocs(t *testing.T) {
	for _, br := range branches() {
		room := make([]byte, 0, br.room)
		limitertest.NoAllocs(t, br.name, func() { br.decide(&br.limit, br.old, t0+uint64(br.at), br.quantity, room) })
	}
	limitertest.NoAllocs(t, "NewLimit", func() { _, _ = NewLimit(100, limiter.Seconds(3600), 3) })
	limitertest.NoAllocs(t, "NewLimit out of range", func() { _, _ = NewLimit(100, limiter.Seconds(3600), 5000) })
}
