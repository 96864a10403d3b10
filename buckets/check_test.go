package buckets

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/throttledhq/throttled/limiter"
)

// start is where the clocks of the tests begin.
const start = uint64(1_700_000_000_000_000_000)

// fakeClock is a clock that stands still until it is moved.
type fakeClock struct{ now atomic.Uint64 }

func newFakeClock() *fakeClock {
	c := new(fakeClock)
	c.now.Store(start)
	return c
}

func (c *fakeClock) tell() uint64 { return c.now.Load() }

func (c *fakeClock) advance(d time.Duration) { c.now.Add(uint64(d)) }

// ask has one request decided.
func ask(t *Table, key string, l limiter.Limit, quantity int64) limiter.Decision {
	reqs := [1]limiter.Request{{Kind: limiter.Throttle, Key: []byte(key), Limit: l, Quantity: quantity}}
	var out [1]limiter.Decision
	t.Decide(reqs[:], out[:])
	return out[0]
}

// checkTable holds a table that nobody uses to what is always true of one.
func checkTable(tb testing.TB, t *Table) {
	tb.Helper()
	var bytes, live, dataset int64
	for i := range t.shards {
		s := &t.shards[i]
		checkShard(tb, s, func(key []byte) uint32 {
			at, tag := t.locate(key)
			if at != s {
				tb.Fatalf("shard %d holds key %.40q of another shard", i, key)
			}
			return tag
		})
		bytes += s.bytes()
		live += int64(s.live)
		for at, sl := range s.index {
			if sl != 0 {
				dataset += int64(s.record(at).size()) + slotSize
			}
		}
	}
	u := t.Usage()
	if u.Bytes != bytes || u.Peak < bytes {
		tb.Fatalf("the shards hold %d bytes, Usage tells %+v", bytes, u)
	}
	if u.Dataset != dataset {
		tb.Fatalf("the records and their slots take %d bytes, Usage tells %+v", dataset, u)
	}
	if u.Keys != live {
		tb.Fatalf("the shards hold %d keys, Usage tells %+v", live, u)
	}
}

// checkShard holds a shard to what is always true of one. tagOf tells the tag that a key
// must have.
func checkShard(tb testing.TB, s *shard, tagOf func(key []byte) uint32) {
	tb.Helper()
	if n := len(s.index); n&(n-1) != 0 || n > 0 && n < indexSize(int(s.live)) {
		tb.Fatalf("index of %d places for %d keys", n, s.live)
	}
	var slots, dead int
	starts := map[uint32]bool{} // of live records
	for from := 0; from < len(s.arena); {
		rec := record(s.arena[from:])
		if rec.dead() {
			dead += rec.size()
		} else {
			starts[uint32(from)] = true
		}
		if from += rec.size(); from > len(s.arena) {
			tb.Fatalf("a record ends at %d, the arena at %d", from, len(s.arena))
		}
	}
	for at, sl := range s.index {
		if sl == 0 {
			continue
		}
		slots++
		if !starts[sl.offset()] {
			tb.Fatalf("slot %d points at %d, where no live record begins, or that of another slot", at, sl.offset())
		}
		delete(starts, sl.offset())
		checkSlot(tb, s, at, tagOf)
	}
	if slots != int(s.live) || len(starts) > 0 || dead != int(s.dead) {
		tb.Fatalf("%d slots and live is %d; %d records without slot; %d bytes dead, and counted %d", slots, s.live, len(starts), dead, s.dead)
	}
	if n := cap(s.arena); n > 0 && n != arenaSize(n) {
		tb.Fatalf("the arena's size is %d, which the runtime rounds up", n)
	}
	if want := uintptr(unsafe.Pointer(unsafe.SliceData(s.index))); s.hint().base.Load() != want || s.hint().size.Load() != int64(len(s.index)) {
		tb.Fatalf("the hint does not tell where the index is")
	}
}

// checkSlot checks that a key is found where it is: its tag is right, there is no gap
// between its home and it, and no other slot of the same key before it.
func checkSlot(tb testing.TB, s *shard, at int, tagOf func(key []byte) uint32) {
	tb.Helper()
	rec, tag := s.record(at), s.index[at].tag()
	if want := tagOf(rec.key()); tag != want {
		tb.Fatalf("key %.40q has tag %#x, want %#x", rec.key(), tag, want)
	}
	if rec.kind() == 0 {
		tb.Fatalf("key %.40q has no kind", rec.key())
	}
	if found, ok := s.find(bytes.Clone(rec.key()), tag); !ok || found != at {
		tb.Fatalf("key %.40q lies at %d of %d with home %d, find tells %d %t", rec.key(), at, len(s.index), s.home(tag), found, ok)
	}
}
