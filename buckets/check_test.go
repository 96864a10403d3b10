package buckets

import (
	"bytes"
	"cmp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

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
	var bytes, live int64
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
	}
	u := t.Usage()
	if u.Bytes != bytes || u.Peak < bytes {
		tb.Fatalf("the shards hold %d bytes, Usage tells %+v", bytes, u)
	}
	if u.Keys != live {
		tb.Fatalf("the shards hold %d keys, Usage tells %+v", live, u)
	}
}

// checkShard holds a shard to what is always true of one. tagOf tells the tag that a key
// must have.
func checkShard(tb testing.TB, s *shard, tagOf func(key []byte) uint32) {
	tb.Helper()
	if n := len(s.index); n&(n-1) != 0 || n > 0 && n < indexSize(s.live) {
		tb.Fatalf("index of %d places for %d keys", n, s.live)
	}
	type span struct{ from, to int }
	var spans []span
	for at, sl := range s.index {
		if sl == 0 {
			continue
		}
		rec := s.record(at)
		spans = append(spans, span{int(sl.offset()), int(sl.offset()) + rec.size()})
		checkSlot(tb, s, at, tagOf)
	}
	if len(spans) != s.live {
		tb.Fatalf("%d slots in use, live is %d", len(spans), s.live)
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	end, used := 0, 0
	for _, sp := range spans {
		if sp.from < end || sp.to > len(s.arena) {
			tb.Fatalf("record at %d..%d overlaps one that ends at %d, or the end at %d", sp.from, sp.to, end, len(s.arena))
		}
		end, used = sp.to, used+sp.to-sp.from
	}
	if used+s.dead != len(s.arena) {
		tb.Fatalf("%d bytes live and %d dead in an arena of %d", used, s.dead, len(s.arena))
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
