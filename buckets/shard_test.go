package buckets

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/limiter"
)

func TestShardLayout(t *testing.T) {
	if size := unsafe.Sizeof(shard{}); size != 128 {
		t.Errorf("a shard takes %d bytes, want two cache lines", size)
	}
}

func TestIndexSize(t *testing.T) {
	for n := range 100_000 {
		size := indexSize(n)
		if size < 8 || size&(size-1) != 0 || n*5 > size*4 {
			t.Fatalf("indexSize(%d) = %d; want a power of two from 8 on, with a load factor of at most 4/5", n, size)
		}
		if size > 8 && n*5 <= size/2*4-5 {
			t.Fatalf("indexSize(%d) = %d, but half of this size is sufficient", n, size)
		}
	}
}

// tape is a byte string that determines the operations of a test.
type tape struct{ rest []byte }

func (t *tape) more() bool { return len(t.rest) > 0 }

// number reads a number of n bytes. After the end of the tape it returns zeros.
func (t *tape) number(n int) uint64 {
	var b [8]byte
	t.rest = t.rest[copy(b[:n], t.rest):]
	return binary.LittleEndian.Uint64(b[:])
}

func randomTape(r *rand.Rand, n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// weakTag maps many keys to the same tag. In an index of any size, most of these tags have their
// home among the first or the last positions, so that slots wrap around the end.
func weakTag(key []byte) uint32 {
	tags := [...]uint32{
		math.MaxUint32, math.MaxUint32 - 1, 0xfc00_0000, 0xf800_0000, 0xe000_0000,
		0, 1, 0x0400_0000, 0x2000_0000, 0x8000_0000, 0x7fff_ffff,
	}
	if key[0] >= 0xf0 {
		return binary.BigEndian.Uint32(append(key[:1:1], 1, 2, 3))
	}
	return tags[int(key[0])%len(tags)]
}

// shardRun applies the operations of a tape to a shard and to a map.
type shardRun struct {
	testing.TB
	shard shard
	want  map[byte]uint64 // TATs by key; keys have one byte
	now   uint64
}

// runShard applies a tape to a shard whose keys have colliding tags (see weakTag).
func runShard(tb testing.TB, data []byte) {
	r := &shardRun{TB: tb, want: map[byte]uint64{}, now: 1000}
	r.shard.shared = &shared{hints: make([]hint, 1), leases: leaseCounters{records: make([]uint32, 1)}}
	for in := (tape{data}); in.more(); {
		r.step(in.number(1), in.number(1))
		checkShard(tb, &r.shard, weakTag)
		if used := r.shard.shared.memory.used.Load(); used != r.shard.bytes() {
			tb.Fatalf("the budget counts %d bytes, but the shard has %d", used, r.shard.bytes())
		}
		r.compare()
	}
}

func (r *shardRun) step(op, arg uint64) {
	key := []byte{byte(arg)}
	at, found := r.shard.find(key, weakTag(key))
	switch op % 16 {
	case 0:
		r.now += arg
	case 1:
		r.drop(op, arg)
	case 2:
		r.shard.shrink()
	case 3:
		r.scan(uint32(op<<24|arg<<20), int(arg))
	case 4:
		if arg == 0 {
			r.shard.clear()
			clear(r.want)
		}
	case 5, 6, 7, 8:
		if found {
			r.shard.remove(at)
			delete(r.want, key[0])
		}
	default:
		tat := r.now + op
		if found {
			r.shard.record(at).setExpires(tat)
		} else {
			rec := limiter.Record{Kind: limiter.Throttle, Key: key, Expires: tat}
			if err := r.shard.replace(&rec, weakTag(key), r.now); err != nil {
				r.Fatal(err)
			}
		}
		r.want[key[0]] = tat
	}
}

// drop drops expired records in a part of the index.
func (r *shardRun) drop(op, arg uint64) {
	from := min(int(op), len(r.shard.index))
	to := min(from+int(arg), len(r.shard.index))
	before := r.shard.live
	dropped := r.shard.dropExpired(from, to, r.now)
	if int(before-r.shard.live) != dropped {
		r.Fatalf("dropExpired reports %d dropped records of %d, but %d remain", dropped, before, r.shard.live)
	}
	for at := from; at < to; at++ {
		if r.shard.index[at] != 0 && r.shard.record(at).expires() <= r.now {
			r.Fatalf("an expired record remains at position %d within %d..%d", at, from, to)
		}
	}
	for key, tat := range r.want {
		if _, found := r.shard.find([]byte{key}, weakTag([]byte{key})); !found && tat <= r.now {
			delete(r.want, key)
			dropped--
		}
	}
	if dropped != 0 {
		r.Fatalf("the count of dropped records is off by %d", dropped)
	}
}

// compare checks that the shard holds the keys of the map with their TATs.
func (r *shardRun) compare() {
	if int(r.shard.live) != len(r.want) {
		r.Fatalf("the shard has %d keys, want %d", r.shard.live, len(r.want))
	}
	for key, tat := range r.want {
		at, found := r.shard.find([]byte{key}, weakTag([]byte{key}))
		if !found || r.shard.record(at).expires() != tat {
			r.Fatalf("key %#x: found %t, want TAT %d", key, found, tat)
		}
	}
}

// scan checks that a scan from a tag visits each live key with that tag or a higher one exactly
// once, and no other keys. The shard does not change during the scan.
func (r *shardRun) scan(tag uint32, count int) {
	var want, got []byte
	for key, tat := range r.want {
		if weakTag([]byte{key}) >= tag && tat > r.now {
			want = append(want, key)
		}
	}
	for more := true; more; {
		from := tag
		_, tag, more = r.shard.scan(tag, count+1, r.now, func(key []byte, kind limiter.Kind) {
			got = append(got, key...)
		})
		if more && tag <= from {
			r.Fatalf("a scan from tag %#x continues at tag %#x, want a higher tag", from, tag)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !bytes.Equal(got, want) {
		r.Fatalf("the scan visits keys %x, want %x", got, want)
	}
}

func TestShardOnCollidingTags(t *testing.T) {
	for seed := range uint64(30 / race.Factor) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			runShard(t, randomTape(rand.New(rand.NewPCG(seed, 1)), 4000))
		})
	}
}

func FuzzShard(f *testing.F) {
	f.Add([]byte{})
	f.Add(randomTape(rand.New(rand.NewPCG(1, 2)), 200))
	// Slots wrap around the end of the index, and then the first of them is removed.
	f.Add([]byte{9, 0, 9, 11, 9, 22, 9, 33, 9, 5, 5, 0, 3, 0, 5, 11, 3, 0})
	// A full index grows, empties and shrinks.
	var wave []byte
	for key := range byte(200) {
		wave = append(wave, 9, key)
	}
	for key := range byte(198) {
		wave = append(wave, 5, key)
	}
	f.Add(append(wave, 2, 0, 3, 0, 0, 255, 1, 255))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 4000 {
			runShard(t, data)
		}
	})
}

// A removal moves back each slot that can move, and moves no slot before its home. The last
// position of the index is the home of three keys, and the first position is the home of two more
// keys.
func TestRemoveAcrossTheEnd(t *testing.T) {
	keys := map[string]uint32{"a": math.MaxUint32, "b": math.MaxUint32, "c": math.MaxUint32, "d": 0, "e": 0}
	order := []string{"a", "b", "c", "d", "e"} // at positions 7, 0, 1, 2, 3 of 8
	for _, removed := range order {
		s := shard{shared: &shared{hints: make([]hint, 1), leases: leaseCounters{records: make([]uint32, 1)}}}
		for _, key := range order {
			rec := limiter.Record{Kind: limiter.Throttle, Key: []byte(key), Expires: 1}
			if err := s.put(&rec, keys[key], 0); err != nil {
				t.Fatal(err)
			}
		}
		at, _ := s.find([]byte(removed), keys[removed])
		s.remove(at)
		var got []string
		for _, at := range []int{7, 0, 1, 2, 3} {
			key := "-"
			if s.index[at] != 0 {
				key = string(s.record(at).key())
			}
			got = append(got, key)
		}
		want := append(slices.DeleteFunc(slices.Clone(order), func(k string) bool { return k == removed }), "-")
		if !slices.Equal(got, want) {
			t.Errorf("after the removal of %s, the positions hold %v, want %v", removed, got, want)
		}
	}
}
