//go:build measure

package rules

import (
	"testing"
	"time"
)

const (
	maxRatio    = 1.3             // cost of a match with the largest file, relative to 10 limits
	maxLoadTime = 2 * time.Second // to parse and compile 100,000 limits
)

// requestsOf returns the attributes of n different requests for a file, or of all requests if there are fewer.
func requestsOf(file largeFile, n int) [][][]byte {
	n = min(n, file.requests)
	list := make([][][]byte, n)
	for i := range list {
		list[i] = pairsOf(file.request(i * (file.requests / n)))
	}
	return list
}

// matchTime returns the time of one match, as the average over the requests.
func matchTime(t testing.TB, d *CompiledDomain, requests [][][]byte, m *Matches) time.Duration {
	t.Helper()
	const repeats = 64
	start := time.Now()
	for i := range repeats {
		if err := d.Match(requests[i%len(requests)], time.Time{}, m); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(start) / repeats
}

// TestMatch_Cost, run by make rules-bench, checks that the cost of a match does not grow with the number of limits or
// overrides. It compares the fastest of many short runs, so that other programs on the machine affect it little. All files
// are matched with the same number of different requests, so that the caches of the processor hold the memory that they
// use; BenchmarkMatch also measures requests that use all limits in turn.
func TestMatch_Cost(t *testing.T) {
	for _, kind := range largeFiles {
		domains, requests := make([]*CompiledDomain, len(sizes)), make([][][][]byte, len(sizes))
		for i, n := range sizes {
			file := kind.make(n)
			domains[i], requests[i] = compile(t, file.text), requestsOf(file, 2)
		}
		fastest := make([]time.Duration, len(sizes))
		var m Matches
		for range 1000 {
			for i := range sizes {
				if d := matchTime(t, domains[i], requests[i], &m); fastest[i] == 0 || d < fastest[i] {
					fastest[i] = d
				}
			}
		}
		for i, n := range sizes {
			ratio := float64(fastest[i]) / float64(fastest[0])
			t.Logf("%-9s %6d: %4d ns per match, ratio %.2f", kind.name, n, fastest[i].Nanoseconds(), ratio)
			if ratio > maxRatio {
				t.Errorf("%s: a match with %d costs %.2f times as much as with %d, want at most %v", kind.name, n, ratio, sizes[0], maxRatio)
			}
		}
	}
}

// TestLoad_Time, run by make rules-bench, checks the time to parse and to compile a large file.
func TestLoad_Time(t *testing.T) {
	const n = 100_000
	for _, kind := range largeFiles {
		text := []byte(kind.make(n).text)
		var parsing, compiling time.Duration
		for range 3 {
			start := time.Now()
			file, err := Parse("large.yaml", text, loadZone)
			parsed := time.Now()
			if err == nil {
				_, err = Compile(file)
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start); parsing == 0 || d < parsing+compiling {
				parsing, compiling = parsed.Sub(start), time.Since(parsed)
			}
		}
		t.Logf("%-9s %6d: parse %v, compile %v", kind.name, n, parsing.Round(time.Millisecond), compiling.Round(time.Millisecond))
		if parsing+compiling > maxLoadTime {
			t.Errorf("%s: loading takes %v, want at most %v", kind.name, parsing+compiling, maxLoadTime)
		}
	}
}
