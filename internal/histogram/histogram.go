// Package histogram counts durations and numbers in buckets whose bounds are powers of two.
//
// A [Histogram] is updated by many goroutines without a lock, and does not allocate. [Histogram.Load] returns a copy of its
// buckets for INFO and for metrics.
package histogram

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is the number of buckets of a Histogram. The bounds of durations are powers of two from 1024 ns to 1<<39 ns (9
// minutes), the bounds of numbers from 1 to 1<<29. The last bucket also counts larger values.
const Buckets = 30

// Histogram counts either durations or numbers. The zero Histogram is empty.
type Histogram struct {
	buckets [Buckets]atomic.Int64
	sum     atomic.Int64
}

// Counts is a copy of a Histogram. Values that are added during the copy may be in a part of it only.
type Counts struct {
	Buckets [Buckets]int64 // number of values in each bucket
	Sum     int64          // of all values: nanoseconds, or the sum of the numbers
}

// AddDurations adds n durations with a total. Each of them counts as total/n. n must be at least 1.
func (h *Histogram) AddDurations(total time.Duration, n int) {
	h.buckets[bucketOf(int64(max(total/time.Duration(n)-1, 0))>>10)].Add(int64(n))
	h.sum.Add(int64(total))
}

// AddNumber adds a number, which must not be negative.
func (h *Histogram) AddNumber(n int64) {
	h.buckets[bucketOf(max(n-1, 0))].Add(1)
	h.sum.Add(n)
}

// bucketOf returns the first bucket whose bound exceeds less, the value minus 1, or the last bucket.
func bucketOf(less int64) int { return min(bits.Len64(uint64(less)), Buckets-1) }

// DurationBound returns the upper bound of a bucket of durations.
func DurationBound(i int) time.Duration { return 1024 << i }

// NumberBound returns the upper bound of a bucket of numbers.
func NumberBound(i int) int64 { return 1 << i }

// Load returns a copy.
func (h *Histogram) Load() (c Counts) {
	for i := range h.buckets {
		c.Buckets[i] = h.buckets[i].Load()
	}
	c.Sum = h.sum.Load()
	return c
}

// Sum returns the sum of all values.
func (h *Histogram) Sum() int64 { return h.sum.Load() }

// Reset removes all values.
func (h *Histogram) Reset() {
	for i := range h.buckets {
		h.buckets[i].Store(0)
	}
	h.sum.Store(0)
}

// Total returns the number of values.
func (c *Counts) Total() (n int64) {
	for _, count := range c.Buckets {
		n += count
	}
	return n
}

// Quantile returns the index of the bucket that contains the p-quantile, for p from 0 to 1.
func (c *Counts) Quantile(p float64) int {
	total, seen := c.Total(), int64(0)
	for i, n := range c.Buckets {
		seen += n
		if float64(seen) >= p*float64(total) {
			return i
		}
	}
	return Buckets - 1
}
