package muldiv

import (
	"math"
	"math/big"
	"testing"
)

// check compares Floor and Ceil with the same computation on big integers.
func check(t *testing.T, a, b, c uint64) {
	t.Helper()
	product := new(big.Int).Mul(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
	floor, rest := new(big.Int).QuoRem(product, new(big.Int).SetUint64(c), new(big.Int))
	ceil := new(big.Int).Set(floor)
	if rest.Sign() > 0 {
		ceil.Add(ceil, big.NewInt(1))
	}
	f := func(name string, got uint64, ok bool, want *big.Int) {
		t.Helper()
		if ok != want.IsUint64() || ok && got != want.Uint64() {
			t.Errorf("%s(%d, %d, %d) = %d, %t; want %d, and false if this number does not fit in 64 bits", name, a, b, c, got, ok, want)
		}
	}
	got, ok := Floor(a, b, c)
	f("Floor", got, ok, floor)
	got, ok = Ceil(a, b, c)
	f("Ceil", got, ok, ceil)
}

func TestMulDiv(t *testing.T) {
	for _, tt := range [][3]uint64{
		{0, 0, 1},
		{7, 1, 2},
		{84, 45, 60},
		{1, math.MaxUint64, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{math.MaxInt64, math.MaxUint64, math.MaxInt64},
		{math.MaxUint64, math.MaxInt64, 1},
		{math.MaxUint64, 2, 2},
		{math.MaxInt64, 3, 2},
		{1 << 62, 8, 2},
	} {
		check(t, tt[0], tt[1], tt[2])
	}
}

// TestZeroDivisor checks that division by 0 reports false.
func TestZeroDivisor(t *testing.T) {
	if q, ok := Floor(1, 1, 0); ok {
		t.Errorf("Floor(1, 1, 0) = %d, true; want false", q)
	}
}

func FuzzMulDiv(f *testing.F) {
	f.Add(uint64(80), uint64(15), uint64(60))
	f.Add(uint64(math.MaxInt64), uint64(math.MaxInt64), uint64(1))
	f.Fuzz(func(t *testing.T, a, b, c uint64) {
		check(t, a>>1, b, max(c, 1))
	})
}
