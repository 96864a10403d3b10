package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestJournal checks that all entries are flushed to the counts and the histogram.
func TestJournal(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	recorders := []*recorder{newRecorder(), newRecorder()}
	journals := []*journal{{recorder: recorders[0]}, {recorder: recorders[0]}, {recorder: recorders[1]}}
	var all []int64
	var want counts
	for i := range 30_000 {
		latency := int64(math.Exp(rng.Float64() * 20))
		c := counts{passed: rng.Int64N(3), denied: rng.Int64N(3), failed: rng.Int64N(2)}
		journals[i%3].add(int64(i), latency, c)
		want.add(c)
		for range c.good() {
			all = append(all, latency)
		}
	}
	for _, j := range journals {
		j.flush(30_000)
	}
	sum := merged(recorders)
	if sum.counts != want || sum.latency.TotalCount() != int64(len(all)) || sum.last != 29_999 {
		t.Fatalf("counts %+v, %d latencies, last reply at %d; want counts %+v, %d latencies, last reply at 29999", sum.counts, sum.latency.TotalCount(), sum.last, want, len(all))
	}
	slices.Sort(all)
	for _, p := range percentiles {
		exact := float64(all[max(0, int(math.Ceil(p.of/100*float64(len(all))))-1)])
		if got := float64(sum.latency.ValueAtPercentile(p.of)); math.Abs(got-exact) > exact/1000+1 {
			t.Errorf("percentile %v is %v; want %v", p.of, got, exact)
		}
	}
}

func TestJournalHandsOnInTime(t *testing.T) {
	j := &journal{recorder: newRecorder()}
	f := func(now int64, want int64) {
		t.Helper()
		j.add(now, 1000, counts{passed: 1})
		if got := j.recorder.counts.passed; got != want {
			t.Errorf("at %d ns, %d replies have been flushed; want %d", now, got, want)
		}
	}
	f(1, 0)
	f(flushEvery+1, 2)
	f(flushEvery+2, 2)
	for range journalSize - 1 {
		j.add(flushEvery+3, 1000, counts{passed: 1})
	}
	if got := j.recorder.counts.passed; got != journalSize+2 {
		t.Errorf("after the journal was full, %d replies have been flushed; want all", got)
	}
}

func TestRecordClamps(t *testing.T) {
	h := newHistogram()
	for _, latency := range []int64{-5, 0, int64(time.Hour)} {
		record(h, latency, 1)
	}
	if h.Min() != 1 || h.TotalCount() != 3 || h.Max() < int64(longest) || h.Max() > int64(longest)*1001/1000 {
		t.Errorf("the histogram has %d latencies, from %d to %d ns; want 3, from 1 ns to a minute", h.TotalCount(), h.Min(), h.Max())
	}
}

func TestFailures(t *testing.T) {
	r := newRecorder()
	for i := range 3 * maxFailures {
		r.fail(fmt.Appendf(nil, "E%d text %d", i/2, i))
	}
	if len(r.failures) != maxFailures+1 {
		t.Fatalf("%d kinds of errors; want maxFailures kinds, and one kind for all others", len(r.failures))
	}
	if got, want := r.failures[3], (failure{"E3", 2, "E3 text 6"}); got != want {
		t.Errorf("the fourth kind is %+v; want %+v", got, want)
	}
	if got, want := r.failures[maxFailures], (failure{otherFailures, maxFailures, "E20 text 40"}); got != want {
		t.Errorf("the remaining kinds are %+v; want %+v", got, want)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		list []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := median(c.list); got != c.want {
			t.Errorf("median of %v is %v; want %v", c.list, got, c.want)
		}
	}
}

func TestMergeValues(t *testing.T) {
	a, b := noValues(), noValues()
	a[requests], b[requests] = 10, 20
	a[longestWait], b[longestWait] = 7, 3
	a[p50], b[p50] = 1, 2
	a[serverCPU] = 1
	got := mergeValues([]values{a, b})
	if got[requests] != 30 || got[longestWait] != 7 || got[p50] != 1.5 || !math.IsNaN(got[serverCPU]) || !math.IsNaN(got[p99]) {
		t.Errorf("at least one merged value is wrong: %v", got)
	}
}
