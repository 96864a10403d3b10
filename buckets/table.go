package buckets

import (
	"hash/maphash"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/limiter"
)

// Config says how a Table is built. The zero value is ready for use.
type Config struct {
	Clock     Clock // nil: a clock that starts at the present wall time
	MaxMemory int64 // bytes that arenas and indexes may take; 0: no limit
	Shards    int   // a power of two; 0: 512, which keeps one shard's work short at 10 M keys. A shard's arena ends at 4 GiB
}

const defaultShards = 512

// Table is the sharded table of limiter state. It implements limiter.Engine.
type Table struct {
	clock  Clock
	seed   maphash.Seed
	shards []shard
	memory budget
}

var _ limiter.Engine = (*Table)(nil)

// New returns an empty Table. It panics if the number of shards is not a power of two.
func New(c Config) *Table {
	if c.Clock == nil {
		c.Clock = NewClock(time.Now())
	}
	if c.Shards == 0 {
		c.Shards = defaultShards
	}
	if c.Shards&(c.Shards-1) != 0 {
		panic("buckets: the number of shards is not a power of two")
	}
	t := &Table{clock: c.Clock, seed: maphash.MakeSeed(), shards: make([]shard, c.Shards)}
	t.memory.limit.Store(c.MaxMemory)
	for i := range t.shards {
		t.shards[i].memory = &t.memory
	}
	return t
}

// SetMaxMemory changes the memory limit in bytes; 0 lifts it. What is above a lowered
// limit stays: only keys that would need more are refused, until enough has expired.
func (t *Table) SetMaxMemory(bytes int64) { t.memory.limit.Store(bytes) }

// Decide answers reqs in out, in order, at one reading of the clock. It allocates nothing
// unless a new key needs more memory.
func (t *Table) Decide(reqs []limiter.Request, out []limiter.Decision) {
	now := t.clock()
	for i := range reqs {
		t.decide(&reqs[i], now, &out[i])
	}
}

// decide answers one request. A panic must not leave the shard locked: it is not the end
// of the program.
func (t *Table) decide(req *limiter.Request, now uint64, out *limiter.Decision) {
	s, tag := t.locate(req.Key)
	now = s.lock(now)
	defer s.mu.Unlock()
	s.decide(req, tag, now, out)
}

// Lookup describes key.
func (t *Table) Lookup(key []byte) (limiter.Entry, bool) {
	s, tag := t.locate(key)
	now := s.lock(t.clock())
	defer s.mu.Unlock()
	at, found := s.find(key, tag)
	if !found || s.record(at).tat() <= now {
		s.misses++
		return limiter.Entry{}, false
	}
	s.hits++
	rec := s.record(at)
	return limiter.Entry{
		Kind:  rec.kind(),
		TTL:   time.Duration(rec.tat() - now),
		Bytes: int64(rec.size()) + slotSize,
		State: rec.tat(),
	}, true
}

// Delete forgets key.
func (t *Table) Delete(key []byte) bool {
	s, tag := t.locate(key)
	now := s.lock(t.clock())
	defer s.mu.Unlock()
	at, found := s.find(key, tag)
	if !found {
		return false
	}
	live := s.record(at).tat() > now
	s.remove(at)
	if !live {
		s.expired++
	}
	return live
}

// Clear forgets all keys and returns their memory.
func (t *Table) Clear() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.clear()
		s.mu.Unlock()
	}
}

// Usage sums what the shards have counted.
func (t *Table) Usage() limiter.Usage {
	u := limiter.Usage{Bytes: t.memory.used.Load(), Peak: t.memory.peak.Load()}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		u.Keys += int64(s.live)
		u.Hits += s.hits
		u.Misses += s.misses
		u.Expired += s.expired
		s.mu.Unlock()
	}
	return u
}

// locate returns the shard of a key and the key's tag within it. The two take
// different bits of one hash.
//
// A seed does not make xxhash safe from keys that are made to collide: there are sets of
// keys that collide under every seed. So a hash that is safe is mixed in, and the sum is
// as hard to aim at as the harder of the two.
func (t *Table) locate(key []byte) (*shard, uint32) {
	h := xxhash.Sum64(key) ^ maphash.Bytes(t.seed, key)
	return &t.shards[h&uint64(len(t.shards)-1)], uint32(h >> 32)
}

// decide carries out one request under the shard's lock.
func (s *shard) decide(req *limiter.Request, tag uint32, now uint64, out *limiter.Decision) {
	at, found := s.find(req.Key, tag)
	var rec record
	var tat uint64
	if found {
		rec = s.record(at)
		tat = rec.tat()
	}
	if tat > now {
		s.hits++
		if rec.kind() != req.Kind {
			*out = limiter.Decision{Err: limiter.ErrWrongKind}
			return
		}
	} else {
		s.misses++
	}
	newTAT, d := gcra.Decide(req.Limit, tat, now, req.Quantity)
	switch {
	case newTAT > now && newTAT == tat:
		// Refused, or only asked.
	case newTAT <= now && found:
		s.remove(at)
	case newTAT <= now:
		// A key at rest is an absent key.
	case found:
		rec.set(req.Kind, newTAT)
	default:
		if err := s.insert(req.Key, tag, req.Kind, newTAT, now); err != nil {
			d = limiter.Decision{Err: err}
		}
	}
	if found && tat <= now {
		s.expired++
	}
	*out = d
}
