package buckets

import (
	"encoding/binary"
	"math/bits"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/throttledhq/throttled/internal/race"
)

// Multipliers of XXH64.
const (
	prime1 uint64 = 0x9e3779b185ebca87
	prime2 uint64 = 0xc2b2ae3d27d4eb4f
	prime3 uint64 = 0x165667b19e3779f9
	prime4 uint64 = 0x85ebca77c2b2ae63
	prime5 uint64 = 0x27d4eb2f165667c5
)

// inverse returns the multiplicative inverse of p modulo 1<<64.
func inverse(p uint64) uint64 {
	x := p
	for range 6 {
		x *= 2 - p*x // doubles the number of correct bits
	}
	return x
}

// unround returns the 8 bytes of a key that the round function of XXH64 maps to v.
func unround(v uint64) uint64 {
	return bits.RotateLeft64(v*inverse(prime1), -31) * inverse(prime2)
}

// keyOfHash returns the 8-byte key whose XXH64 with seed 0 is h.
func keyOfHash(h uint64) []byte {
	h ^= h >> 32
	h *= inverse(prime3)
	h ^= h>>29 ^ h>>58
	h *= inverse(prime2)
	h ^= h >> 33
	h = (h - prime4) * inverse(prime1)
	h = bits.RotateLeft64(h, -27)
	return binary.LittleEndian.AppendUint64(nil, unround(h^(prime5+8)))
}

// everySeedKey returns one of 1<<20 keys of 16 bytes that XXH64 maps to only 1<<10 hashes under
// every seed. The first half of a key changes only the upper bits of the internal state of XXH64.
// Multiplications carry only from lower to upper bits, so the changes stay in the upper bits, and the
// second half of the key can cancel them.
func everySeedKey(i uint64) []byte {
	key := binary.LittleEndian.AppendUint64(nil, unround(i>>10<<(54-27)))
	return binary.LittleEndian.AppendUint64(key, unround(i<<54))
}

// The crafted keys have the collisions that the other tests assume.
func TestCraftedKeys(t *testing.T) {
	for _, h := range []uint64{0, 1, 1 << 63, 0xdead_beef_0000_0000} {
		if got := xxhash.Sum64(keyOfHash(h)); got != h {
			t.Errorf("the key returned by keyOfHash has hash %#x, want %#x", got, h)
		}
	}
	for _, seed := range []uint64{0, 1, 0x0123_4567_89ab_cdef} {
		hashes := map[uint64]int{}
		d := xxhash.New()
		for i := range uint64(million / race.Factor) {
			d.ResetWithSeed(seed)
			_, _ = d.Write(everySeedKey(i))
			hashes[d.Sum64()]++
		}
		if len(hashes) != 1024 {
			t.Errorf("seed %#x: the keys have %d hashes, want 1024", seed, len(hashes))
		}
	}
}

// Keys are distributed evenly over shards and homes, even if an attacker chooses them.
func TestSpread(t *testing.T) {
	sets := map[string]func(i uint64) []byte{
		"numbered":              func(i uint64) []byte { return numberedKey(nil, i) },
		"one shard by seed 0":   func(i uint64) []byte { return keyOfHash(i << 32) },
		"one tag by seed 0":     func(i uint64) []byte { return keyOfHash(i) },
		"collide by every seed": everySeedKey,
		"zeros":                 func(i uint64) []byte { return make([]byte, i>>6) },
	}
	for name, key := range sets {
		t.Run(name, func(t *testing.T) {
			n := uint64(million / race.Factor)
			if name == "zeros" {
				n = 1 << 17 / race.Factor
			}
			spread(t, n, key)
		})
	}
}

// spread checks the distribution of n keys, some of which may be equal, in a table.
func spread(t *testing.T, n uint64, key func(i uint64) []byte) {
	const shards = 64
	table := New(Config{Clock: newFakeClock().read, Shards: shards})
	for i := range n {
		ask(table, string(key(i)), slow, 1)
	}
	keys := table.Usage().Keys
	mean := float64(keys) / shards
	steps, fullest := 0, 0.0
	for i := range table.shards {
		s := &table.shards[i]
		for at, sl := range s.index {
			if sl != 0 {
				steps += s.distance(s.home(sl.tag()), at)
			}
		}
		fullest = max(fullest, float64(s.live)/mean)
	}
	if mean > 1000 {
		t.Logf("the fullest shard holds %.3f times the mean number of keys", fullest) // read by make abuse
		if fullest > 1.1 {
			t.Errorf("the fullest shard holds %.2f times the mean number of keys, want at most 1.1 times", fullest)
		}
	}
	if probes := float64(steps) / float64(keys); probes > 3 {
		t.Errorf("a lookup probes %.1f slots on average, want at most 3", probes)
	}
}

// Two tables give different tags to the same keys, so that an attacker cannot use tags known from one
// process to attack another.
func TestTablesHashDifferently(t *testing.T) {
	a, b := New(Config{}), New(Config{})
	same := 0
	for i := range uint64(1000) {
		_, x := a.locate(numberedKey(nil, i))
		_, y := b.locate(numberedKey(nil, i))
		if x == y {
			same++
		}
	}
	if same > 1 {
		t.Errorf("%d of 1000 keys have the same tag in two tables, want at most 1", same)
	}
}
