package main

import (
	"reflect"
	"testing"
	"time"
)

const second = time.Second

// atOnce returns n equal times.
func atOnce(at time.Duration, n int) (times []time.Duration) {
	for range n {
		times = append(times, at)
	}
	return times
}

func algorithmOf(t *testing.T, file string) *algorithm {
	t.Helper()
	for _, a := range demoAlgorithms() {
		if a.file == file {
			return &a
		}
	}
	t.Fatalf("no algorithm %s", file)
	return nil
}

// TestPlay checks how many requests each algorithm admits. The requests are twenty at 9.9 s, just before
// the end of a window, twenty at 10.1 s, just after the end, and one at 15.1 s.
func TestPlay(t *testing.T) {
	arrivals := append(append(atOnce(9900*time.Millisecond, 20), atOnce(10100*time.Millisecond, 20)...), 15100*time.Millisecond)
	for file, want := range map[string][3]int{
		"gcra":        {10, 0, 1},
		"sliding":     {10, 0, 1}, // at 15.1 s the ten count as 4.9
		"fixed":       {10, 10, 0},
		"log":         {10, 0, 0},
		"buckets":     {10, 0, 0},
		"tokenbucket": {10, 0, 1}, // five units are restored by 14.9 s
		"leaky":       {10, 0, 1},
	} {
		p := play(algorithmOf(t, file), arrivals)
		if got := byTime(p.admitted, arrivals); got != want {
			t.Errorf("%s: admitted %v, want %v", file, got, want)
		}
		if len(p.arrivals) != len(arrivals) || len(p.proceedAt) != len(p.admitted) {
			t.Errorf("%s: got %d requests, and %d times at which requests may proceed; want all requests, and a time for each admitted request", file, len(p.arrivals), len(p.proceedAt))
		}
	}
}

// byTime counts the admitted requests of the first twenty, the next twenty, and the rest.
func byTime(admitted, arrivals []time.Duration) (n [3]int) {
	for _, at := range admitted {
		switch at {
		case arrivals[0]:
			n[0]++
		case arrivals[20]:
			n[1]++
		default:
			n[2]++
		}
	}
	return n
}

// TestDepartures checks the times at which admitted requests may proceed. Only the leaky bucket
// delays requests.
func TestDepartures(t *testing.T) {
	for _, a := range demoAlgorithms() {
		want := atOnce(3*second, 4)
		if a.file == "leaky" {
			want = []time.Duration{3 * second, 4 * second, 5 * second, 6 * second}
		}
		if p := play(&a, atOnce(3*second, 4)); !reflect.DeepEqual(p.proceedAt, want) {
			t.Errorf("%s: proceed at %v, want %v", a.file, p.proceedAt, want)
		}
	}
}

// TestDemoShowsTheDifferences checks that the plots show the differences that the documentation
// describes.
func TestDemoShowsTheDifferences(t *testing.T) {
	largest := map[string]int{}
	for _, a := range demoAlgorithms() {
		p := play(&a, demoTraffic())
		if a.file == "leaky" {
			p.admitted = p.proceedAt
		}
		largest[a.file] = most(p.admitted, demoPeriod)
	}
	want := map[string]int{"gcra": 19, "sliding": 17, "fixed": 20, "log": 10, "buckets": 11, "tokenbucket": 17, "leaky": 10}
	if !reflect.DeepEqual(largest, want) {
		t.Errorf("admitted within 10 s: got %v, want %v", largest, want)
	}
}
