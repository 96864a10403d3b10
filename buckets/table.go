package buckets

import (
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/throttledhq/throttled/limiter"
)

// Config configures a Table. The zero value is ready for use.
type Config struct {
	Clock      Clock    // default: a clock that starts at the current wall time
	MaxMemory  int64    // limit in bytes of arenas and indexes; 0 means no limit
	Eviction   Eviction // policy at the memory limit
	Replicated bool     // the table is a replica: a follower, which refuses decisions, until Lead is called
	Shards     int      // a power of two; default 2048. The arena of a shard is limited to 4 GiB
}

// defaultShards is large enough that operations on a whole shard are short with 10 million keys.
const defaultShards = 2048

// Table is a sharded table of limiter state. It implements limiter.Engine.
type Table struct {
	clock  Clock
	seed   maphash.Seed
	shards []shard
	shared
}

// shared is the state shared by all shards of a table.
type shared struct {
	memory   budget
	pauses   pauses
	hints    []hint    // one per shard
	undoLogs []undoLog // one per shard, or nil
	leases   leaseCounters
	history

	reclaimPause uint64        // minimum interval between searches of full shards for expired records that find few
	reclaimAt    atomic.Uint64 // earliest time of the next search
}

var (
	_ limiter.Engine = (*Table)(nil)
	_ limiter.Leases = (*Table)(nil)
)

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
	t.reclaimPause = reclaimQuiet / uint64(c.Shards)
	t.hints = make([]hint, c.Shards)
	t.leases.records = make([]uint32, c.Shards)
	if c.Replicated {
		t.undoLogs = make([]undoLog, c.Shards)
		t.dirty = make([]atomic.Uint64, (c.Shards+63)/64)
		t.open.Store(1)
	}
	t.SetMaxMemory(c.MaxMemory)
	t.SetEviction(c.Eviction)
	for i := range t.shards {
		t.shards[i].shared, t.shards[i].number, t.shards[i].replicated = &t.shared, uint32(i), c.Replicated
		t.shards[i].leases = LatestLeases
	}
	return t
}

// SetMaxMemory sets the memory limit in bytes; 0 means no limit. If the limit is lowered below the
// memory in use, new keys and growing states are refused until enough records have expired or, with
// EvictSmallestDebt, until RunRelief has evicted enough keys.
func (t *Table) SetMaxMemory(bytes int64) { t.memory.limit.Store(bytes) }

// Memory returns the bytes allocated for keys, which count against the memory limit.
func (t *Table) Memory() int64 { return t.memory.used.Load() }

// SetEviction sets the eviction policy.
func (t *Table) SetEviction(e Eviction) { t.memory.eviction.Store(int32(e)) }

// Now returns the limiter time in nanoseconds.
func (t *Table) Now() uint64 { return t.clock() }

// Lookup returns the Entry of key, and reports whether the key is live.
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
		Kind:  rec.kind().Base(),
		TTL:   time.Duration(min(rec.expires()-now, math.MaxInt64)),
		Bytes: int64(rec.size()) + slotSize,
		State: rec.expires() ^ xxhash.Sum64(rec.state()),
	}, true
}

// Put stores a record in place of any existing record of its key, even one of another kind. An expired record deletes
// its key. The error is limiter.ErrOutOfMemory, in which case the key is unchanged.
func (t *Table) Put(rec limiter.Record) error {
	s, tag := t.locate(rec.Key)
	now := s.lock(t.clock())
	defer s.mu.Unlock()
	return s.put(&rec, tag, now)
}

// Delete deletes key and reports whether it existed. If it has outstanding leases, their units stay charged. On a follower
// Delete returns limiter.ErrNotLeading.
func (t *Table) Delete(key []byte) (found bool, err error) {
	s, tag := t.locate(key)
	epoch := t.epoch.Load()
	now := s.lock(t.clock())
	defer s.mu.Unlock()
	if s.replicated && !s.advance(epoch, now) {
		return false, limiter.ErrNotLeading
	}
	at, found := s.find(key, tag)
	if !found {
		return false, nil
	}
	live := s.record(at).expires() > now
	if !s.reset(at, tag, now) {
		s.removeKey(at, now)
	}
	return live, nil
}

// Usage returns the sum of the counters of all shards.
func (t *Table) Usage() limiter.Usage {
	u := limiter.Usage{
		Bytes:   t.memory.used.Load(),
		Peak:    t.memory.peak.Load(),
		Evicted: t.memory.evicted.Load(),
		Pauses:  t.pauses.report(),

		GrantedUnits:  t.leases.granted.Load(),
		ReturnedUnits: t.leases.returned.Load(),
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

// shardAndTag returns the shard and the tag of a key with the given hash.
func (t *Table) shardAndTag(hash uint64) (*shard, uint32) {
	return &t.shards[t.shardOf(hash)], tagOf(hash)
}

// shardOf and tagOf use different bits of a hash.
func (t *Table) shardOf(hash uint64) int { return int(hash & uint64(len(t.shards)-1)) }

func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

// hash returns the hash that distributes keys over shards and index positions. A seed does not protect
// xxhash against crafted collisions: some sets of keys collide under every seed. Therefore hash
// combines xxhash with maphash, which resists such attacks. The result is as hard to attack as the
// stronger of the two hashes.
func (t *Table) hash(key []byte) uint64 {
	return xxhash.Sum64(key) ^ maphash.Bytes(t.seed, key)
}
