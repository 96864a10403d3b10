package buckets

import (
	"sync"
	"sync/atomic"

	"github.com/throttledhq/throttled/limiter"
)

// history is the state shared by the undo logs of all shards. It is unused if the table is not replicated.
//
// Each change belongs to a generation. One generation is open: new changes belong to it. Locks are
// acquired in the order roleMu, groups, epochMu, lock of a shard.
type history struct {
	roleMu  sync.Mutex // serializes role changes, Collect, Clear, Reset and Replay
	leader  uint64     // the epoch in which the shards decide, 0 on a follower; guarded by roleMu
	cleared bool       // the table was cleared in the open generation; guarded by roleMu

	// groups is read-locked while a group is decided, and write-locked while shards are collected
	// or cleared, so that no group is split between generations.
	groups sync.RWMutex

	epochMu         sync.Mutex // serializes Commit with the start and the end of an epoch
	first           uint64     // first generation of the epoch; guarded by epochMu
	imageGeneration uint64     // latest generation with images saved by Clear, or 0; guarded by epochMu

	epoch     atomic.Uint64 // 0 on a follower
	open      atomic.Uint64 // the open generation; starts at 1 and increases over all epochs
	committed atomic.Uint64 // the latest committed generation
	settled   atomic.Uint64 // log time up to which expired records may be dropped permanently
	changed   atomic.Uint64 // the latest generation with a change, or the next one if the change was made during Collect

	pending atomic.Bool     // a bit of dirty may be set
	dirty   []atomic.Uint64 // one bit per shard: changed in the open generation
}

// raise sets the counter a to n unless its value is already greater.
func raise(a *atomic.Uint64, n uint64) {
	for old := a.Load(); old < n && !a.CompareAndSwap(old, n); {
		old = a.Load()
	}
}

// mark marks a shard as changed in the open generation. The caller holds the lock of the shard.
func (h *history) mark(number uint32) {
	h.dirty[number/64].Or(1 << (number % 64))
	if !h.pending.Load() {
		h.pending.Store(true)
	}
	raise(&h.changed, h.open.Load())
}

// generationOf returns the number of the generation to which the pending changes of a shard belong,
// or a later number. The caller holds the lock of the shard.
func (h *history) generationOf(number uint32) uint64 {
	open := h.open.Load()
	if h.dirty[number/64].Load()&(1<<(number%64)) != 0 {
		return open // the changes may belong to open-1: Collect opens a generation before it clears dirty bits
	}
	return h.open.Load() - 1 // Collect has cleared the bit and waits for the lock of the shard
}

// Lead makes the table the leader of an epoch. The epoch must be at least 1 and greater than all previous epochs. The
// Clock must not return a time before the log times passed to Replay and Commit. Lead panics if the table already
// leads, if it is not replicated, or if the epoch is 0.
func (t *Table) Lead(epoch uint64) {
	t.roleMu.Lock()
	defer t.roleMu.Unlock()
	if t.undoLogs == nil || t.leader != 0 || epoch == 0 {
		panic("buckets: Lead on a table that is not a follower, or in epoch 0")
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.undoLog().epoch = epoch
		s.now, s.reclaimAt = t.settled.Load(), 0
		s.mu.Unlock()
	}
	t.reclaimAt.Store(0)
	t.leader = epoch
	t.epochMu.Lock()
	t.first = t.open.Load()
	t.epoch.Store(epoch)
	t.epochMu.Unlock()
}

// Follow makes the table a follower and rolls back all uncommitted generations. The rollback is
// complete when Follow returns. If the table is a follower, Follow has no effect.
func (t *Table) Follow() {
	t.epochMu.Lock()
	t.epoch.Store(0) // from now on, new batches fail
	committed := t.committed.Load()
	t.imageGeneration = 0
	t.epochMu.Unlock()

	t.roleMu.Lock()
	defer t.roleMu.Unlock()
	if t.leader == 0 {
		return
	}
	for i := range t.shards {
		t.shards[i].endEpoch(committed)
	}
	for i := range t.dirty {
		t.dirty[i].Store(0)
	}
	t.pending.Store(false)
	t.reclaimAt.Store(0)
	t.leader, t.cleared = 0, false
}

// endEpoch rolls back the uncommitted changes of the shard and ends its epoch. Later decisions of
// that epoch fail (see advance).
func (s *shard) endEpoch(committed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rollback(committed)
	s.undoLog().epoch = 0
	// The time is reset, because the log time of the next leader may be slightly before s.now.
	s.now, s.reclaimAt = 0, 0
}

// Pending reports whether anything has changed in the open generation. A CommitToken may name the open
// generation even if nothing has changed in it. Collect closes such a generation too.
func (t *Table) Pending() bool { return t.pending.Load() }

// OpenGeneration returns the CommitToken of the open generation, or the zero CommitToken if the table is a
// follower or not replicated.
func (t *Table) OpenGeneration() limiter.CommitToken {
	epoch := t.epoch.Load()
	if epoch == 0 {
		return limiter.CommitToken{}
	}
	return limiter.CommitToken{Epoch: epoch, Generation: t.open.Load()}
}

// LastWrite returns the CommitToken of the latest change. Once its generation is committed, all changes made before the
// call are committed. The generation is 0 if they are committed already.
func (t *Table) LastWrite() limiter.CommitToken {
	mark := t.OpenGeneration()
	if mark.Epoch == 0 {
		return mark
	}
	if mark.Generation = t.changed.Load(); mark.Generation <= t.committed.Load() {
		mark.Generation = 0
	}
	return mark
}

// WaitCommitted returns nil immediately. It implements limiter.Engine; the replication layer waits for
// commits itself.
func (t *Table) WaitCommitted(limiter.CommitToken) error { return nil }

// Commit marks a generation and all generations before it as committed: they will not be rolled back. The caller
// guarantees that no node will decide at a time before now, a log time in nanoseconds. Records that expire at or before
// now may therefore be dropped permanently.
//
// Commit returns false without effect if the generation is not a closed generation of the current epoch. This occurs
// after a concurrent Follow, which has rolled back the changes of the generation. The caller must then apply these
// changes with Replay.
func (t *Table) Commit(generation, now uint64) bool {
	t.epochMu.Lock()
	defer t.epochMu.Unlock()
	if t.epoch.Load() == 0 || generation < t.first || generation >= t.open.Load() {
		return false
	}
	raise(&t.committed, generation)
	raise(&t.settled, now)
	if t.imageGeneration > 0 && t.imageGeneration <= generation {
		t.imageGeneration = 0
		for i := range t.shards { // images are too large to keep until the next change of the shard
			s := &t.shards[i]
			s.mu.Lock()
			s.undoLog().trim(generation)
			s.mu.Unlock()
		}
	}
	return true
}

// Clear deletes all keys and releases their memory. The units of outstanding leases stay charged. On the leader, Clear can
// be rolled back, so the memory is released only when the generation of the Clear is committed. On a follower, Clear
// returns limiter.ErrNotLeading.
func (t *Table) Clear() error {
	if t.undoLogs == nil {
		t.deleteAll()
		return nil
	}
	t.roleMu.Lock()
	defer t.roleMu.Unlock()
	if t.leader == 0 {
		return limiter.ErrNotLeading
	}
	t.clearReplicated()
	return nil
}

// Reset deletes all keys before the table is filled again. It cannot be rolled back. It panics if the table is the
// leader.
func (t *Table) Reset() {
	if t.undoLogs == nil {
		t.clear()
		return
	}
	t.roleMu.Lock()
	defer t.roleMu.Unlock()
	if t.leader != 0 {
		panic("buckets: Reset on a leader")
	}
	t.groups.Lock()
	defer t.groups.Unlock()
	t.settled.Store(0) // the next records may be from a log time before the settled one
	t.clear()
}

func (t *Table) clearReplicated() {
	t.groups.Lock()
	defer t.groups.Unlock()
	t.deleteAll()
	t.cleared = true
	t.epochMu.Lock()
	t.imageGeneration = t.open.Load()
	t.epochMu.Unlock()
}

// clear deletes all keys, even those with outstanding leases.
func (t *Table) clear() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.deleteAll()
		s.mu.Unlock()
	}
}

// deleteAll deletes all keys, except for the units of outstanding leases.
func (t *Table) deleteAll() {
	for i := range t.shards {
		s := &t.shards[i]
		now := s.lock(t.clock())
		kept := s.resets(now)
		s.deleteAll()
		for i := range kept {
			s.keep(&kept[i], tagOf(t.hash(kept[i].Key)))
		}
		s.mu.Unlock()
	}
}

// deleteAll deletes all keys of the shard.
func (s *shard) deleteAll() {
	s.changes += int64(s.live)
	s.saveAll()
	s.clear()
}
