package main

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longest is the maximum latency of the histograms.
const longest = time.Minute

// newHistogram returns a histogram of nanoseconds with three significant digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(longest), 3)
}

// record adds n equal latencies to a histogram, clamped to its range.
func record(h *hdrhistogram.Histogram, latency int64, n int) {
	if err := h.RecordValues(min(max(latency, 1), int64(longest)), int64(n)); err != nil {
		panic("a latency within the bounds of the histogram does not fit: " + err.Error())
	}
}

// counts holds the numbers of replies by verdict.
type counts struct{ passed, denied, failed int64 }

func (c *counts) add(o counts) {
	c.passed += o.passed
	c.denied += o.denied
	c.failed += o.failed
}

// good returns the number of replies other than errors.
func (c counts) good() int64 { return c.passed + c.denied }

func (c counts) total() int64 { return c.good() + c.failed }

// failure is a kind of error reply: all error replies with the same first word.
type failure struct {
	Prefix string `json:"prefix"`
	Count  int64  `json:"count"`
	First  string `json:"first"` // full text of the first reply of this kind
}

// maxFailures bounds the number of kinds. Further kinds are counted as otherFailures.
const maxFailures = 20

const otherFailures = "(others)"

type failures []failure

func (f *failures) add(prefix, text string, count int64) {
	i := slices.IndexFunc(*f, func(x failure) bool { return x.Prefix == prefix })
	switch {
	case i >= 0:
		(*f)[i].Count += count
	case len(*f) < maxFailures || prefix == otherFailures:
		*f = append(*f, failure{prefix, count, text})
	default:
		f.add(otherFailures, text, count)
	}
}

// recorder collects the measurements of several connections.
type recorder struct {
	mu       sync.Mutex
	latency  *hdrhistogram.Histogram
	counts   counts
	failures failures
	last     int64 // time of the last reply
}

func newRecorder() *recorder { return &recorder{latency: newHistogram()} }

// mergeInto adds the measurements of r so far to the recorder sum.
func (r *recorder) mergeInto(sum *recorder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum.latency.Merge(r.latency)
	sum.counts.add(r.counts)
	for _, f := range r.failures {
		sum.failures.add(f.Prefix, f.First, f.Count)
	}
	sum.last = max(sum.last, r.last)
}

func (r *recorder) fail(text []byte) {
	prefix, _, _ := bytes.Cut(text, []byte(" "))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures.add(string(prefix), string(text), 1)
}

// merged returns the sum of several recorders.
func merged(recorders []*recorder) *recorder {
	sum := newRecorder()
	for _, r := range recorders {
		r.mergeInto(sum)
	}
	return sum
}

// journal buffers the measurements of one connection until they are flushed to the
// recorder. It is owned by one goroutine, so that adding a reply needs no lock.
type journal struct {
	recorder *recorder
	entries  []entry
	counts   counts
	last     int64
	flushed  int64 // time of the last flush
}

type entry struct {
	latency int64
	n       int
}

const (
	journalSize = 256
	// flushEvery is the maximum time between flushes in nanoseconds. It keeps the
	// progress line current.
	flushEvery = int64(100 * time.Millisecond)
)

// add adds replies that arrived at the same time with the same latency.
func (j *journal) add(now, latency int64, c counts) {
	j.counts.add(c)
	j.last = now
	if n := c.good(); n > 0 {
		j.entries = append(j.entries, entry{latency, int(n)})
	}
	if len(j.entries) >= journalSize || now-j.flushed > flushEvery {
		j.flush(now)
	}
}

func (j *journal) flush(now int64) {
	j.recorder.mu.Lock()
	defer j.recorder.mu.Unlock()
	for _, e := range j.entries {
		record(j.recorder.latency, e.latency, e.n)
	}
	j.recorder.counts.add(j.counts)
	j.recorder.last = max(j.recorder.last, j.last)
	j.entries, j.counts, j.flushed = j.entries[:0], counts{}, now
}
