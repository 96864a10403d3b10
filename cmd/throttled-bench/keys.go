package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// layout says what the key of each index looks like: the prefix, and the index, filled
// up with zeros to a fixed size.
type layout struct {
	keys   int64
	size   int // bytes of a key
	prefix string
}

// maxExhausted is the most keys that -denied uses up before a round.
const maxExhausted = 10_000

// exhausted returns how many keys behind the usual ones stand for callers that are
// denied.
func (l layout) exhausted() int64 { return min(l.keys, maxExhausted) }

func (l layout) check() error {
	digits := len(strconv.FormatInt(l.keys+l.exhausted()-1, 10))
	if least := len(l.prefix) + digits; l.size < least {
		return fmt.Errorf("-key-size %d: prefix %q and the numbers of %d keys need %d", l.size, l.prefix, l.keys, least)
	}
	return nil
}

// append appends the key of an index.
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

// dist is a way to choose keys.
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

// defaultExponent is what web traffic and the YCSB benchmark have.
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
			return dist{}, errors.New("the exponent must be over 0 and at most 10")
		}
		return dist{zipfDist, e}, nil
	case name == zipfDist:
		return dist{zipfDist, defaultExponent}, nil
	case !found && (name == uniformDist || name == sequentialDist || name == hotDist):
		return dist{name: name}, nil
	}
	return dist{}, errors.New("must be uniform, zipf[:exponent], sequential or hot")
}

// chooser returns the index of one key after the other, from 0 up to the number of keys.
type chooser interface{ next() int64 }

// chooser returns the chooser of connection conn of conns.
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

// uniform chooses every key equally often.
type uniform struct {
	rng  *rand.Rand
	keys int64
}

func (u *uniform) next() int64 { return u.rng.Int64N(u.keys) }

// sequential goes through the keys in order, of which each connection takes its part.
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

// zipf chooses the key of index i with a probability in proportion to 1/(i+1)^exponent,
// in constant time and memory, by rejection-inversion (Hörmann and Derflinger, 1996). The
// generator in math/rand/v2 takes only exponents over 1, which excludes the usual ones.
type zipf struct {
	rng      *rand.Rand
	exponent float64
	n        float64
	first    float64 // integral up to 1.5, less the first key's share
	last     float64 // integral up to n + 0.5
	sure     float64 // distance within which a candidate needs no check
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

// integral is that of the density from 1 to x. It is written so that it holds for an
// exponent of 1 and stays exact near it.
func (z *zipf) integral(x float64) float64 {
	log := math.Log(x)
	t := (1 - z.exponent) * log
	if math.Abs(t) < 1e-8 {
		return log * (1 + t/2)
	}
	return log * math.Expm1(t) / t
}

// inverse returns the x of an integral.
func (z *zipf) inverse(integral float64) float64 {
	t := max((1-z.exponent)*integral, -1)
	if math.Abs(t) < 1e-8 {
		return math.Exp(integral * (1 - t/2))
	}
	return math.Exp(integral * math.Log1p(t) / t)
}
