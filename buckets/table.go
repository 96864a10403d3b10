package buckets

import (
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/throttledhq/throttled/limiter"
)

// Config says how a Table is built. The zero value is ready for use.
type Config struct {
	Clock     Clock    // nil: a clock that starts at the present wall time
	MaxMemory int64    // bytes that arenas and indexes may take; 0: no limit
	Eviction  Eviction // what to do when that is not enough
	Journal   bool     // the table is one node's copy of a state that is replicated: it follows, and decides nothing until Lead
	Shards    int      // a power of two; 0: 2048, which keeps the work on one of them short at 10 M keys. A shard's arena ends at 4 GiB
}

const defaultShards = 2048

// Table is the sharded table of limiter state. It implements limiter.Engine.
type Table struct {
	clock  Clock
	seed   maphash.Seed
	shards []shard
	shared
}

// shared is what all shards of a table account to.
type shared struct {
	memory   budget
	pauses   pauses
	hints    []hint    // one for each shard
	journals []journal // one for each shard, or none
	history
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
	t := &Table{
		clock:  c.Clock,
		seed:   maphash.MakeSeed(),
		shards: make([]shard, c.Shards),
	}
	t.hints = make([]hint, c.Shards)
	if c.Journal {
		t.journals = make([]journal, c.Shards)
		t.dirty = make([]atomic.Uint64, (c.Shards+63)/64)
		t.open.Store(1)
	}
	t.SetMaxMemory(c.MaxMemory)
	t.SetEviction(c.Eviction)
	for i := range t.shards {
		t.shards[i].shared, t.shards[i].number, t.shards[i].journaled = &t.shared, uint32(i), c.Journal
	}
	return t
}

// SetMaxMemory changes the memory limit in bytes; 0 lifts it. While more is used than a lowered
// limit, new keys and states that have to grow are refused: until enough has expired, or with
// EvictSmallestDebt until RunRelief has evicted enough.
func (t *Table) SetMaxMemory(bytes int64) { t.memory.limit.Store(bytes) }

// Memory returns the bytes that are held for keys, which count against the memory limit.
func (t *Table) Memory() int64 { return t.memory.used.Load() }

// SetEviction changes what gives way at the memory limit.
func (t *Table) SetEviction(e Eviction) { t.memory.eviction.Store(int32(e)) }

// Now returns the limiter time in nanoseconds.
func (t *Table) Now() uint64 { return t.clock() }

// Lookup describes key.
func (t *Table) Lookup(key []byte) (limiter.Entry, bool) {
	s, tag := t.locate(key)
	now := s.lock(t.clock())
	defer s.mu.Unlock()
	at, found := s.find(key, tag)
	if !found || s.record(at).expires() <= now {
		s.misses++
		return limiter.Entry{}, false
	}
	s.hits++
	rec := s.record(at)
	return limiter.Entry{
		Kind:  rec.kind(),
		TTL:   time.Duration(min(rec.expires()-now, math.MaxInt64)),
		Bytes: int64(rec.size()) + slotSize,
		State: rec.expires() ^ xxhash.Sum64(rec.state()),
	}, true
}

// Put stores a record over what there is under its key, whatever its kind. A record whose
// time has passed takes its key away. The error is limiter.ErrOutOfMemory, and then the
// key is as it was.
func (t *Table) Put(rec limiter.Record) error {
	s, tag := t.locate(rec.Key)
	now := s.lock(t.clock())
	defer s.mu.Unlock()
	return s.put(&rec, tag, now)
}

// Delete forgets key. A table that follows forgets nothing.
func (t *Table) Delete(key []byte) bool {
	s, tag := t.locate(key)
	term := t.term.Load()
	now := s.lock(t.clock())
	defer s.mu.Unlock()
	if s.journaled && !s.enter(term, now) {
		return false
	}
	at, found := s.find(key, tag)
	if !found {
		return false
	}
	live := s.record(at).expires() > now
	s.forget(at, now)
	return live
}

// Usage sums what the shards have counted.
func (t *Table) Usage() limiter.Usage {
	u := limiter.Usage{
		Bytes:   t.memory.used.Load(),
		Peak:    t.memory.peak.Load(),
		Evicted: t.memory.evicted.Load(),
		Pauses:  t.pauses.report(),
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		u.Keys += int64(s.live)
		u.Dataset += int64(s.liveBytes()) + int64(s.live)*slotSize
		u.Hits += s.hits
		u.Misses += s.misses
		u.Expired += s.expired
		u.Changes += s.changes
		s.mu.Unlock()
	}
	return u
}

// locate returns the shard of a key and the key's tag within it.
func (t *Table) locate(key []byte) (*shard, uint32) { return t.shardAndTag(t.hash(key)) }

// shardAndTag returns the shard of the key that has a hash, and its tag within it.
func (t *Table) shardAndTag(hash uint64) (*shard, uint32) {
	return &t.shards[t.shardOf(hash)], tagOf(hash)
}

// shardOf and tagOf take different bits of a hash.
func (t *Table) shardOf(hash uint64) int { return int(hash & uint64(len(t.shards)-1)) }

func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

// hash spreads keys over shards and homes. A seed does not make xxhash safe from keys
// that are made to collide: there are sets of keys that collide under every seed. So a
// hash that is safe is mixed in, and the sum is as hard to aim at as the harder of the two.
func (t *Table) hash(key []byte) uint64 {
	return xxhash.Sum64(key) ^ maphash.Bytes(t.seed, key)
}
