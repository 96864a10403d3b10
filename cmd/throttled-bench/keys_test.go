package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestLayoutAppend(t *testing.T) {
	f := func(l layout, index int64, want string) {
		t.Helper()
		if got := string(l.append(nil, index)); got != want {
			t.Errorf("key %d of %+v is %q; want %q", index, l, got, want)
		}
	}
	f(layout{10, 6, "k:"}, 0, "k:0000")
	f(layout{10, 6, "k:"}, 7, "k:0007")
	f(layout{10, 6, "k:"}, 1234, "k:1234")
	f(layout{10, 3, ""}, 42, "042")
}

// choices returns the number of times that each of n keys is chosen.
func choices(c chooser, n int64, draws int) []float64 {
	counts := make([]float64, n)
	for range draws {
		counts[c.next()]++
	}
	return counts
}

// chiSquare returns the chi-square statistic of counts against the expected values. If the
// distribution is as expected, the mean of the statistic is the number of keys minus one,
// and its standard deviation is the square root of twice the mean.
func chiSquare(counts []float64, weight func(i int) float64) float64 {
	drawn, weights := sum(counts), 0.0
	for i := range counts {
		weights += weight(i)
	}
	x := 0.0
	for i, c := range counts {
		want := drawn * weight(i) / weights
		x += (c - want) * (c - want) / want
	}
	return x
}

func TestDistributions(t *testing.T) {
	f := func(d dist, n int64, weight func(i int) float64) {
		t.Helper()
		counts := choices(d.chooser(n, 0, 1, rand.New(rand.NewPCG(1, 2))), n, 300_000)
		x, freedom := chiSquare(counts, weight), float64(n-1)
		if bound := freedom + 5*math.Sqrt(2*freedom); x > bound {
			t.Errorf("%v over %d keys: chi-square %.1f; want under %.1f", d, n, x, bound)
		}
	}
	f(dist{name: uniformDist}, 100, func(int) float64 { return 1 })
	for _, exponent := range []float64{0.3, 0.99, 1, 1 + 1e-10, 1.5, 3} {
		f(dist{zipfDist, exponent}, 100, func(i int) float64 { return math.Pow(float64(i+1), -exponent) })
	}
	f(dist{zipfDist, 0.99}, 2, func(i int) float64 { return math.Pow(float64(i+1), -0.99) })
}

// TestZipfBounds checks that no key is out of range, even with many keys.
func TestZipfBounds(t *testing.T) {
	for _, exponent := range []float64{0.01, 0.99, 1, 2, 10} {
		for _, n := range []int64{1, 2, 1_000_000, 1_000_000_000_000_000} {
			z := newZipf(rand.New(rand.NewPCG(3, 4)), exponent, n)
			for range 10_000 {
				if k := z.next(); k < 0 || k >= n {
					t.Fatalf("exponent %v: next returns %d; want at least 0 and less than %d", exponent, k, n)
				}
			}
		}
	}
}

// TestSequential checks that all connections together choose all keys in order.
func TestSequential(t *testing.T) {
	f := func(keys int64, conns int) {
		t.Helper()
		choosers := make([]chooser, conns)
		for i := range choosers {
			choosers[i] = dist{name: sequentialDist}.chooser(keys, i, conns, nil)
		}
		for n := range 5 * keys {
			if got := choosers[n%int64(conns)].next(); got != n%keys {
				t.Fatalf("%d connections: choice %d, from %d keys, is key %d; want the keys in order", conns, n, keys, got)
			}
		}
	}
	f(10, 1)
	f(10, 3)
	f(10, 5)
	f(3, 10)
	f(1, 2)
}

func TestHot(t *testing.T) {
	if counts := choices(dist{name: hotDist}.chooser(5, 3, 4, nil), 5, 100); counts[0] != 100 {
		t.Errorf("hot chooses the keys this often: %v; want 100 times the first key", counts)
	}
}

func BenchmarkChoosers(b *testing.B) {
	for _, name := range []string{"uniform", "zipf", "sequential"} {
		b.Run(name, func(b *testing.B) {
			d, err := parseDist(name)
			if err != nil {
				b.Fatal(err)
			}
			c := d.chooser(1_000_000, 0, 1, rand.New(rand.NewPCG(1, 1)))
			b.ReportAllocs()
			for b.Loop() {
				c.next()
			}
		})
	}
}
