package check

import (
	"slices"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// LongestGap returns the length and the start of the longest gap in the interval [from, to]. A gap is
// a time in which no request of ops was decided.
func LongestGap(ops []history.Op, from, to int64) (gap time.Duration, at int64) {
	last := from
	for _, t := range append(decided(ops, from, to), to) {
		if d := time.Duration(t - last); d > gap {
			gap, at = d, last
		}
		last = t
	}
	return gap, at
}

// Silence returns the total length of all gaps in the interval [from, to], as defined for
// LongestGap. It includes only gaps that are longer than the last argument.
func Silence(ops []history.Op, from, to int64, longer time.Duration) (all time.Duration) {
	last := from
	for _, t := range append(decided(ops, from, to), to) {
		if d := time.Duration(t - last); d > longer {
			all += d
		}
		last = t
	}
	return all
}

// decided returns the sorted times in the interval (from, to) at which clients received decisions.
func decided(ops []history.Op, from, to int64) []int64 {
	var at []int64
	for i := range ops {
		if o := &ops[i]; o.Outcome != history.Unknown && o.Return > from && o.Return < to {
			at = append(at, o.Return)
		}
	}
	slices.Sort(at)
	return at
}

// Percentile returns the p-th percentile of times: the smallest element that at least p percent of
// the elements do not exceed. It returns 0 if times is empty.
func Percentile(times []time.Duration, p float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	rank := int(p/100*float64(len(sorted))+0.999999) - 1
	return sorted[max(0, min(rank, len(sorted)-1))]
}
