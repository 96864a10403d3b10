package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// layout defines the key for each index: the prefix followed by the index, padded with
// zeros so that all keys have the same size.
type layout struct {
	keys   int64
	size   int // bytes of a key
	prefix string
}

// maxExhausted is the maximum number of keys that -denied exhausts before a round.
const maxExhausted = 10_000

// exhausted returns the number of exhausted keys. Their indices follow those of the
// other keys.
func (l layout) exhausted() int64 { return min(l.keys, maxExhausted) }

func (l layout) check() error {
	digits := len(strconv.FormatInt(l.keys+l.exhausted()-1, 10))
	if least := len(l.prefix) + digits; l.size < least {
		return fmt.Errorf("-key-size %d: prefix %q and the numbers of %d keys require %d", l.size, l.prefix, l.keys, least)
	}
	return nil
}

// append appends the key of an index to dst.
func (l layout) append(dst []byte, index int64) []byte {
	dst = append(dst, l.prefix...)
	start := len(dst)
	for range l.size - len(l.prefix) {
		dst = append(dst, '0')
	}
	for i := len(dst) - 1; i >= start && index > 0; i-- {
		dst[i] = byte('0' + index%10)
		index /= 10
	}
	return dst
}

// dist is a distribution of keys.
type dist struct {
	name     string
	exponent float64 // of zipf
}

const (
	uniformDist    = "uniform"
	zipfDist       = "zipf"
	sequentialDist = "sequential"
	hotDist        = "hot"
)

// defaultExponent is the exponent used by the YCSB benchmark. It is typical of web
// traffic.
const defaultExponent = 0.99

func (d dist) String() string {
	if d.name == zipfDist {
		return fmt.Sprintf("zipf with exponent %v", d.exponent)
	}
	return d.name
}

func parseDist(s string) (dist, error) {
	name, exponent, found := strings.Cut(s, ":")
	switch {
	case name == zipfDist && found:
		e, err := strconv.ParseFloat(exponent, 64)
		if err != nil || !(e > 0 && e <= 10) {
			return dist{}, errors.New("the exponent must be greater than 0 and at most 10")
		}
		return dist{zipfDist, e}, nil
	case name == zipfDist:
		return dist{zipfDist, defaultExponent}, nil
	case !found && (name == uniformDist || name == sequentialDist || name == hotDist):
		return dist{name: name}, nil
	}
	return dist{}, errors.New("must be uniform, zipf[:exponent], sequential or hot")
}

// chooser generates indices of keys: next returns the next index, which is at least
// 0 and less than the number of keys.
type chooser interface{ next() int64 }

// chooser returns the chooser of connection conn, from 0 to conns-1.
func (d dist) chooser(keys int64, conn, conns int, rng *rand.Rand) chooser {
	switch d.name {
	case uniformDist:
		return &uniform{rng, keys}
	case zipfDist:
		return newZipf(rng, d.exponent, keys)
	case sequentialDist:
		return &sequential{at: int64(conn) % keys, step: int64(conns) % keys, keys: keys}
	}
	return hot{}
}

// uniform chooses all keys with equal probability.
type uniform struct {
	rng  *rand.Rand
	keys int64
}

func (u *uniform) next() int64 { return u.rng.Int64N(u.keys) }

// sequential chooses every step-th key. The step is the number of connections, so that all connections
// together choose the keys in order.
type sequential struct{ at, step, keys int64 }

func (s *sequential) next() int64 {
	index := s.at
	s.at += s.step
	if s.at >= s.keys {
		s.at -= s.keys
	}
	return index
}

// hot always chooses the same key.
type hot struct{}

func (hot) next() int64 { return 0 }

// zipf chooses the key of index i with a probability proportional to 1/(i+1)^exponent, in
// constant time and memory, by rejection-inversion (Hörmann and Derflinger, 1996). The
// generator in math/rand/v2 requires exponents above 1, but the usual exponents are lower.
type zipf struct {
	rng      *rand.Rand
	exponent float64
	n        float64
	first    float64 // integral(1.5) - 1; 1 is the weight of the first key
	last     float64 // integral(n + 0.5)
	sure     float64 // if rounding has increased a candidate by at most this amount, next accepts it without a check
}

func newZipf(rng *rand.Rand, exponent float64, n int64) *zipf {
	z := &zipf{rng: rng, exponent: exponent, n: float64(n)}
	z.first = z.integral(1.5) - 1
	z.last = z.integral(z.n + 0.5)
	z.sure = 2 - z.inverse(z.integral(2.5)-z.density(2))
	return z
}

func (z *zipf) next() int64 {
	for {
		u := z.last + z.rng.Float64()*(z.first-z.last)
		x := z.inverse(u)
		k := min(max(math.Floor(x+0.5), 1), z.n)
		if k-x <= z.sure || u >= z.integral(k+0.5)-z.density(k) {
			return int64(k) - 1
		}
	}
}

func (z *zipf) density(x float64) float64 { return math.Exp(-z.exponent * math.Log(x)) }

// integral returns the integral of the density from 1 to x. The formula is also accurate
// for exponents at and near 1.
func (z *zipf) integral(x float64) float64 {
	log := math.Log(x)
	t := (1 - z.exponent) * log
	if math.Abs(t) < 1e-8 {
		return log * (1 + t/2)
	}
	return log * math.Expm1(t) / t
}

// inverse is the inverse function of integral.
func (z *zipf) inverse(integral float64) float64 {
	t := max((1-z.exponent)*integral, -1)
	if math.Abs(t) < 1e-8 {
		return math.Exp(integral * (1 - t/2))
	}
	return math.Exp(integral * math.Log1p(t) / t)
}
