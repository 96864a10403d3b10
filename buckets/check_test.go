package buckets

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/throttledhq/throttled/limiter"
)

// lastCounting is the last kind that counts units. The kinds before it do so, too.
const lastCounting = limiter.Calendar

// start is the initial time of the test clocks.
const start = uint64(1_700_000_000_000_000_000)

// fakeClock is a clock that advances only on request.
type fakeClock struct{ now atomic.Uint64 }

func newFakeClock() *fakeClock {
	c := new(fakeClock)
	c.now.Store(start)
	return c
}

func (c *fakeClock) read() uint64 { return c.now.Load() }

func (c *fakeClock) advance(d time.Duration) { c.now.Add(uint64(d)) }

// mustDelete deletes a key of a table that is not a follower.
func mustDelete(t *Table, key []byte) bool {
	found, err := t.Delete(key)
	if err != nil {
		panic(err)
	}
	return found
}

// mustClear clears a table that is not a follower.
func mustClear(t *Table) {
	if err := t.Clear(); err != nil {
		panic(err)
	}
}

// ask decides one request of kind Throttle.
func ask(t *Table, key string, l limiter.Limit, quantity int64) limiter.Decision {
	reqs := [1]limiter.Request{{Kind: limiter.Throttle, Key: []byte(key), Limit: l, Quantity: quantity}}
	var out [1]limiter.Decision
	t.Decide(reqs[:], out[:])
	return out[0]
}

// checkTable checks the invariants of an idle table.
func checkTable(tb testing.TB, t *Table) {
	tb.Helper()
	var bytes, live, dataset int64
	for i := range t.shards {
		s := &t.shards[i]
		checkShard(tb, s, func(key []byte) uint32 {
			at, tag := t.locate(key)
			if at != s {
				tb.Fatalf("shard %d holds key %.40q, which belongs to a different shard", i, key)
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
		tb.Fatalf("the shards hold %d bytes, but Bytes differs or Peak is lower: Usage returns %+v", bytes, u)
	}
	if u.Dataset != dataset {
		tb.Fatalf("the records and their slots take %d bytes, but Dataset differs: Usage returns %+v", dataset, u)
	}
	if u.Keys != live {
		tb.Fatalf("the shards hold %d keys, but Keys differs: Usage returns %+v", live, u)
	}
}

// checkShard checks the invariants of an idle shard. tagOf returns the expected tag of a key.
func checkShard(tb testing.TB, s *shard, tagOf func(key []byte) uint32) {
	tb.Helper()
	if n := len(s.index); n&(n-1) != 0 || n > 0 && n < indexSize(int(s.live)) {
		tb.Fatalf("the index has %d slots for %d keys: not a power of two, or too few", n, s.live)
	}
	var slots, dead, leased int
	starts := map[uint32]bool{} // offsets of live records
	for from := 0; from < len(s.arena); {
		rec := record(s.arena[from:])
		if rec.dead() {
			dead += rec.size()
		} else {
			starts[uint32(from)] = true
		}
		if from += rec.size(); from > len(s.arena) {
			tb.Fatalf("the last record ends at offset %d, but the arena ends at %d", from, len(s.arena))
		}
	}
	for at, sl := range s.index {
		if sl == 0 {
			continue
		}
		slots++
		if s.record(at).kind().Leased() {
			leased++
		}
		if !starts[sl.offset()] {
			tb.Fatalf("slot %d refers to offset %d: no live record starts there, or another slot refers to it too", at, sl.offset())
		}
		delete(starts, sl.offset())
		checkSlot(tb, s, at, tagOf)
	}
	if slots != int(s.live) || len(starts) > 0 || dead != int(s.dead) {
		tb.Fatalf("%d slots, but live is %d; %d records without a slot; %d dead bytes, but dead is %d", slots, s.live, len(starts), dead, s.dead)
	}
	if want := int(s.shared.leases.records[s.number]); leased != want {
		tb.Fatalf("%d records have leases, but %d are counted", leased, want)
	}
	if n := cap(s.arena); n > 0 && n != arenaSize(n) {
		tb.Fatalf("arena size %d is not a size class of the runtime", n)
	}
	if want := uintptr(unsafe.Pointer(unsafe.SliceData(s.index))); s.hint().base.Load() != want || s.hint().size.Load() != int64(len(s.index)) {
		tb.Fatalf("the hint does not match the index")
	}
}

// checkSlot checks the slot at an index position: its tag is correct, and find returns this position
// for the key of its record. find probes from the home of the tag, so no slot between the home and
// this position is empty or belongs to the same key.
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
		tb.Fatalf("key %.40q is at index position %d of %d and has home %d, but find returns %d, %t", rec.key(), at, len(s.index), s.home(tag), found, ok)
	}
}
