package histogram

import (
	"math"
	"sync"
	"testing"
	"time"
)

// TestDurations checks the bucket of durations around the bounds.
func TestDurations(t *testing.T) {
	for _, c := range []struct {
		took time.Duration
		want int
	}{
		{-time.Second, 0}, {0, 0}, {1, 0}, {1024, 0}, {1025, 1}, {2048, 1}, {2049, 2}, {time.Millisecond, 10},
		{DurationBound(Buckets - 2), Buckets - 2}, {DurationBound(Buckets-2) + 1, Buckets - 1}, {math.MaxInt64, Buckets - 1},
	} {
		var h Histogram
		h.AddDurations(c.took, 1)
		if got := h.Load(); got.Buckets[c.want] != 1 || got.Total() != 1 || got.Sum != int64(c.took) {
			t.Errorf("%v: got %+v, want one value in bucket %d", c.took, got, c.want)
		}
		if c.want < Buckets-1 && c.took > DurationBound(c.want) {
			t.Errorf("%v exceeds the bound of bucket %d", c.took, c.want)
		}
	}
}

// TestNumbers checks the bucket of numbers around the bounds.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		n    int64
		want int
	}{{0, 0}, {1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {1 << 29, 29}, {math.MaxInt64, 29}} {
		var h Histogram
		h.AddNumber(c.n)
		if got := h.Load(); got.Buckets[c.want] != 1 || got.Sum != c.n {
			t.Errorf("%d: got %+v, want one value in bucket %d", c.n, got, c.want)
		}
		if c.want < Buckets-1 && c.n > NumberBound(c.want) {
			t.Errorf("%d exceeds the bound of bucket %d", c.n, c.want)
		}
	}
}

// TestMean checks that durations that are added together count as their mean.
func TestMean(t *testing.T) {
	var h Histogram
	h.AddDurations(8*time.Millisecond, 8)
	if got := h.Load(); got.Buckets[10] != 8 || got.Sum != int64(8*time.Millisecond) || h.Sum() != got.Sum {
		t.Errorf("got %+v, want 8 values of 1 ms in bucket 10", got)
	}
}

func TestQuantile(t *testing.T) {
	var h Histogram
	for range 90 {
		h.AddDurations(time.Microsecond, 1)
	}
	for range 10 {
		h.AddDurations(time.Millisecond, 1)
	}
	c := h.Load()
	for _, q := range []struct {
		p    float64
		want int
	}{{0.5, 0}, {0.9, 0}, {0.91, 10}, {1, 10}} {
		if got := c.Quantile(q.p); got != q.want {
			t.Errorf("quantile %v: got bucket %d, want %d", q.p, got, q.want)
		}
	}
}

// TestConcurrent checks that no value is lost, and that Reset removes all.
func TestConcurrent(t *testing.T) {
	var h Histogram
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for n := range int64(1000) {
				h.AddNumber(n)
			}
		})
	}
	all.Wait()
	if got := h.Load(); got.Total() != 4000 || got.Sum != 4*499500 {
		t.Errorf("got %d values with the sum %d, want 4000 and %d", got.Total(), got.Sum, 4*499500)
	}
	h.Reset()
	if got := h.Load(); got != (Counts{}) {
		t.Errorf("after Reset, got %+v", got)
	}
	if n := testing.AllocsPerRun(100, func() { h.AddDurations(time.Second, 3); h.AddNumber(7) }); n != 0 {
		t.Errorf("adding allocates %v times, want 0", n)
	}
}
