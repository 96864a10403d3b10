package check

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func (a wide) big() *big.Int {
	n := new(big.Int).Lsh(big.NewInt(a.hi), 64)
	return n.Add(n, new(big.Int).SetUint64(a.lo))
}

func TestWide(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	number := func() int64 { return r.Int64() >> r.IntN(63) }
	for range 10000 {
		a, b, c, d := number(), number(), number(), number()
		x, y := product(a, b), product(c, d)
		p := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		q := new(big.Int).Mul(big.NewInt(c), big.NewInt(d))
		if x.big().Cmp(p) != 0 {
			t.Fatalf("product of %d and %d: got %s, want that of package big", a, b, x.big())
		}
		if sum := new(big.Int).Add(p, q); x.plus(y).big().Cmp(sum) != 0 {
			t.Fatalf("sum of %s and %s: got %s, want that of package big", p, q, x.plus(y).big())
		}
		difference := new(big.Int).Sub(p, q)
		if x.minus(y).big().Cmp(difference) != 0 || x.minus(y).negative() != (difference.Sign() < 0) {
			t.Fatalf("difference of %s and %s: got %s, or a wrong sign; want that of package big", p, q, x.minus(y).big())
		}
		if x.less(y) != (p.Cmp(q) < 0) {
			t.Fatalf("less of %s and %s: got %t, want the opposite", p, q, x.less(y))
		}
	}
}

func TestWideOver(t *testing.T) {
	for _, tt := range []struct {
		a    wide
		b    int64
		want float64
	}{
		{product(7, 2), 4, 3.5},
		{wide{}.minus(product(7, 2)), 4, -3.5},
		{product(math.MaxInt64, 1000), 1000, math.MaxInt64},
	} {
		if got := tt.a.over(tt.b); math.Abs(got-tt.want) > 1e-9*math.Abs(tt.want) {
			t.Errorf("%v / %d = %g, want %g", tt.a, tt.b, got, tt.want)
		}
	}
}
