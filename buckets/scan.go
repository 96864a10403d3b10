package buckets

import (
	"bytes"

	"github.com/throttledhq/throttled/limiter"
)

// Scan implements limiter.Keyspace. It visits keys in the order of their shards and, within a shard,
// of their tags. A cursor holds the number of the shard in its upper half and the next tag in its
// lower half. Growing an index and moving slots do not change the order of tags, so a cursor stays
// valid.
func (t *Table) Scan(cursor uint64, count int, visit func(key []byte, kind limiter.Kind)) uint64 {
	now := t.clock()
	count = max(count, 1) // each call makes progress
	number, tag := cursor>>32, uint32(cursor)
	for left := count; number < uint64(len(t.shards)); number, tag = number+1, 0 {
		s := &t.shards[number]
		work, next, more := s.scanLocking(tag, left, now, visit)
		left -= work
		if more {
			return number<<32 | uint64(next)
		}
		if left <= 0 && number+1 < uint64(len(t.shards)) {
			return (number + 1) << 32
		}
	}
	return 0
}

// sampled is the number of keys from which RandomKey chooses. If RandomKey took the first key after
// a random position, the probability of a key would be proportional to the gap before it.
const sampled = 16

// RandomKey returns a copy of a live key, and reports whether there is one. It scans from a position,
// wraps around at the end of the table, and chooses one of the keys found. The position and the
// choice depend on the argument random.
func (t *Table) RandomKey(random uint64) (key []byte, found bool) {
	first := random >> 32 % uint64(len(t.shards)) << 32
	var keys [][]byte
	collect := func(key []byte, _ limiter.Kind) { keys = append(keys, bytes.Clone(key)) }
	cursor := first | random&(1<<32-1)
	for len(keys) == 0 && cursor != 0 {
		cursor = t.Scan(cursor, sampled, collect)
	}
	// The keys of the first shard before the position have not been visited yet.
	for again := true; again && len(keys) == 0; again = cursor != 0 && cursor>>32 <= first>>32 {
		cursor = t.Scan(cursor, sampled, collect)
	}
	if len(keys) == 0 {
		return nil, false
	}
	return keys[random%uint64(len(keys))], true
}

// scanLocking calls scan with the lock of the shard held. It also unlocks the shard if visit
// panics.
func (s *shard) scanLocking(tag uint32, count int, now uint64, visit func([]byte, limiter.Kind)) (work int, next uint32, more bool) {
	now = s.lock(now)
	defer s.mu.Unlock()
	return s.scan(tag, count, now, visit)
}

// homesPerKey is the number of visited homes (index positions where probing starts) that count as
// much as one visited key, so that a call stays short if most of the index is empty or expired.
const homesPerKey = 10

// scan visits the live keys with the given tag or a higher one, home by home, until the work is as
// much as a visit of count keys. It returns the work done, in keys. If it stops before the end of
// the index, more is true and next is the tag from which to continue.
func (s *shard) scan(tag uint32, count int, now uint64, visit func([]byte, limiter.Kind)) (work int, next uint32, more bool) {
	if len(s.index) == 0 {
		return 0, 0, false
	}
	first := s.home(tag)
	visited := 0
	for home := first; home < len(s.index); home++ {
		work = visited + (home-first)/homesPerKey
		if work >= count {
			return work, s.firstTag(home), true
		}
		visited += s.visitHome(home, tag, now, visit)
	}
	return visited + (len(s.index)-first)/homesPerKey, 0, false
}

// visitHome visits the live keys that have the given home and at least the given tag. Their slots are
// between the home and the next empty slot. If the index has shrunk since the cursor was returned, the
// home may also have keys with lower tags, which earlier calls have visited.
func (s *shard) visitHome(home int, tag uint32, now uint64, visit func([]byte, limiter.Kind)) (visited int) {
	for at := home; s.index[at] != 0; at = s.next(at) {
		sl := s.index[at]
		if s.home(sl.tag()) != home || sl.tag() < tag {
			continue
		}
		if rec := s.record(at); rec.expires() > now {
			visit(rec.key(), rec.kind().Base())
			visited++
		}
	}
	return visited
}

// firstTag returns the lowest tag with the given home.
func (s *shard) firstTag(home int) uint32 {
	return uint32(uint64(home) << 32 / uint64(len(s.index)))
}
