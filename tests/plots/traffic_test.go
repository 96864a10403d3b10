package main

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

func TestInPhases(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		phases []phase
		want   []time.Duration
	}{
		"none":                {nil, nil},
		"an empty one":        {[]phase{{s, s, s}}, nil},
		"the end is excluded": {[]phase{{0, 3 * s, s}}, []time.Duration{0, s, 2 * s}},
		"two":                 {[]phase{{0, 2 * s, s}, {5 * s, 6 * s, s / 2}}, []time.Duration{0, s, 5 * s, 5*s + s/2}},
	} {
		if got := inPhases(c.phases); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestDemoTraffic(t *testing.T) {
	arrivals := demoTraffic()
	if !inOrder(arrivals) || arrivals[len(arrivals)-1] >= demoLength {
		t.Error("the requests are not sorted, or extend beyond the end")
	}
	if n := most(arrivals, time.Second); n != 25 {
		t.Errorf("the largest burst has %d requests in a second, want 25", n)
	}
	if n := count(arrivals)[26:57]; sum(n) != 0 {
		t.Errorf("%d requests in the silence, want 0", sum(n))
	}
}

func inOrder(times []time.Duration) bool {
	for i := 1; i < len(times); i++ {
		if times[i] < times[i-1] {
			return false
		}
	}
	return true
}

func sum(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// TestTraffics checks that each traffic has the requested mean gap, and is equal for equal seeds.
func TestTraffics(t *testing.T) {
	const mean, limit, n = 7 * time.Millisecond, 20, 200_000
	for _, tr := range traffics {
		var total [2]time.Duration
		for i := range total {
			gap := tr.gaps(rand.New(rand.NewPCG(3, 4)), mean, limit)
			for range n {
				g := gap()
				if g < 0 {
					t.Fatalf("%s: negative gap %v", tr.name, g)
				}
				total[i] += g
			}
		}
		if total[0] != total[1] {
			t.Errorf("%s: total times %v and %v with the same seed, want equal times", tr.name, total[0], total[1])
		}
		if ratio := float64(total[0]) / float64(n*mean); ratio < 0.97 || ratio > 1.03 {
			t.Errorf("%s: the mean gap is %.3f x the requested gap, want 0.97 to 1.03", tr.name, ratio)
		}
	}
}

func TestConstant(t *testing.T) {
	gap := constant(nil, time.Second, 10)
	for range 3 {
		if g := gap(); g != time.Second {
			t.Errorf("got a gap of %v, want 1s", g)
		}
	}
}

// TestBursty checks that bursts of all sizes from 1 to 2*limit occur, and no larger bursts.
func TestBursty(t *testing.T) {
	const mean, limit = time.Second, 5
	gap := bursty(rand.New(rand.NewPCG(3, 4)), mean, limit)
	sizes, size := map[int]int{}, 0
	for range 10_000 {
		if gap() == mean/haste {
			size++
			continue
		}
		if size > 0 {
			sizes[size]++
		}
		size = 1
	}
	for size := 1; size <= 2*limit; size++ {
		if sizes[size] == 0 {
			t.Errorf("no burst has %d requests, want at least one", size)
		}
		delete(sizes, size)
	}
	if len(sizes) > 0 {
		t.Errorf("bursts of sizes above 2*limit: %v, want none", sizes)
	}
}
