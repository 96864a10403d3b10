package buckets

import (
	"sync"
	"sync/atomic"

	"github.com/throttledhq/throttled/limiter"
)

// history is what the journals of all shards have in common. Without journals it is not used.
//
// What happens is counted in generations, of which one is open. Locks are taken in the order
// turn, groups, shard; and flip before shard.
type history struct {
	turn    sync.Mutex // held by whoever changes role, closes a generation, clears or replays
	leader  uint64     // the term of the shards, 0 while they follow; guarded by turn
	cleared bool       // the open generation has begun with everything going; guarded by turn

	// groups is held for reading while a group is decided, and for writing while shards are
	// collected or cleared, so that no group is split.
	groups sync.RWMutex

	flip  sync.Mutex // orders Commit and Follow
	first uint64     // the first generation of the term; guarded by flip
	image uint64     // a generation that keeps what Clear has taken away, or 0; guarded by flip

	term      atomic.Uint64 // 0 while the table follows
	open      atomic.Uint64 // the open generation, from 1 on, over all terms
	committed atomic.Uint64 // the newest generation that is
	settled   atomic.Uint64 // log time up to which expired records may be dropped for good
	changed   atomic.Uint64 // the newest generation in which something has; a later one if that was being closed

	pending atomic.Bool     // there may be a bit in dirty
	dirty   []atomic.Uint64 // a bit for each shard that has changed in the open generation
}

// raise stores n unless there is more.
func raise(a *atomic.Uint64, n uint64) {
	for old := a.Load(); old < n && !a.CompareAndSwap(old, n); {
		old = a.Load()
	}
}

// mark notes that a shard, whose lock is held, has changed in the open generation.
func (h *history) mark(number uint32) {
	h.dirty[number/64].Or(1 << (number % 64))
	if !h.pending.Load() {
		h.pending.Store(true)
	}
	raise(&h.changed, h.open.Load())
}

// generationOf returns the generation in which the changes of a shard will be collected that
// has been marked and not collected since, or a later one. The shard's lock is held.
func (h *history) generationOf(number uint32) uint64 {
	open := h.open.Load()
	if h.dirty[number/64].Load()&(1<<(number%64)) != 0 {
		return open // at the latest, as the bit is taken after a generation has been opened
	}
	return h.open.Load() - 1 // its mark has been taken, and it is waited for
}

// Lead makes the table decide. The term is above all before, and at least 1. The Clock must not
// tell a time before those that Replay and Commit were told. It panics if the table decides
// already, or has no journal.
func (t *Table) Lead(term uint64) {
	t.turn.Lock()
	defer t.turn.Unlock()
	if t.journals == nil || t.leader != 0 || term == 0 {
		panic("buckets: Lead on a table that does not follow, or in term 0")
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.journal().term = term
		s.now, s.reclaimAt = t.settled.Load(), 0
		s.mu.Unlock()
	}
	t.leader = term
	t.flip.Lock()
	t.first = t.open.Load()
	t.term.Store(term)
	t.flip.Unlock()
}

// Follow makes the table stop deciding, and takes back all generations that have not been
// committed. When it returns nothing is left of them. A table that follows is left as it is.
func (t *Table) Follow() {
	t.flip.Lock()
	t.term.Store(0) // from here on no batch begins
	committed := t.committed.Load()
	t.image = 0
	t.flip.Unlock()

	t.turn.Lock()
	defer t.turn.Unlock()
	if t.leader == 0 {
		return
	}
	for i := range t.shards {
		t.shards[i].follow(committed)
	}
	for i := range t.dirty {
		t.dirty[i].Store(0)
	}
	t.pending.Store(false)
	t.leader, t.cleared = 0, false
}

// follow makes a shard follow. A decision of the term that comes later finds that it is over.
func (s *shard) follow(committed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rollback(committed)
	s.journal().term = 0
	// The log time of the next leader may be a little behind the time of this one.
	s.now, s.reclaimAt = 0, 0
}

// Pending reports whether something has changed in the open generation. A Ticket may stand for
// the open generation although nothing has: for whoever waits for it Collect closes it all
// the same.
func (t *Table) Pending() bool { return t.pending.Load() }

// Mark returns the Ticket of the open generation, or the zero Ticket if the table follows or
// has no journal.
func (t *Table) Mark() limiter.Ticket {
	term := t.term.Load()
	if term == 0 {
		return limiter.Ticket{}
	}
	return limiter.Ticket{Term: term, Generation: t.open.Load()}
}

// Seen returns the Ticket of all that was done before. Its generation is 0 if that is committed.
func (t *Table) Seen() limiter.Ticket {
	mark := t.Mark()
	if mark.Term == 0 {
		return mark
	}
	if mark.Generation = t.changed.Load(); mark.Generation <= t.committed.Load() {
		mark.Generation = 0
	}
	return mark
}

// Await has nothing to wait for: who replicates a table knows what is.
func (t *Table) Await(limiter.Ticket) error { return nil }

// Commit says that a generation, and with it all before, will not be taken back any more, and
// that now, in nanoseconds, is a log time that no node will decide before: records that expire
// until then may be dropped for good.
//
// It reports false, and does nothing, if the generation is not a closed one of the term in
// which the table decides, as when Follow has been called meanwhile. What was in it has then
// been taken back, and has to be put with Replay.
func (t *Table) Commit(generation, now uint64) bool {
	t.flip.Lock()
	defer t.flip.Unlock()
	if t.term.Load() == 0 || generation < t.first || generation >= t.open.Load() {
		return false
	}
	raise(&t.committed, generation)
	raise(&t.settled, now)
	if t.image > 0 && t.image <= generation {
		t.image = 0
		for i := range t.shards { // what Clear has taken away is too large to wait until it is in the way
			s := &t.shards[i]
			s.mu.Lock()
			s.journal().trim(generation)
			s.mu.Unlock()
		}
	}
	return true
}

// Clear forgets all keys and returns their memory. While a table with a journal decides, it can
// be taken back, and the memory stays until it is committed; while it follows, the table is
// emptied for good, to be filled again.
func (t *Table) Clear() {
	if t.journals == nil {
		t.clear()
		return
	}
	t.turn.Lock()
	defer t.turn.Unlock()
	t.clearJournaled()
}

// ClearIn is Clear if the table decides in a term, and otherwise does nothing and reports
// false. Clear would empty a table that has just been told to follow.
func (t *Table) ClearIn(term uint64) bool {
	if t.journals == nil {
		return false
	}
	t.turn.Lock()
	defer t.turn.Unlock()
	if term == 0 || t.leader != term {
		return false
	}
	t.clearJournaled()
	return true
}

func (t *Table) clearJournaled() {
	t.groups.Lock()
	defer t.groups.Unlock()
	if t.leader == 0 {
		t.settled.Store(0) // what comes may be older than what was
	}
	t.clear()
	if t.leader != 0 {
		t.cleared = true
		t.flip.Lock()
		t.image = t.open.Load()
		t.flip.Unlock()
	}
}

func (t *Table) clear() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.changes += int64(s.live)
		s.rememberAll()
		s.clear()
		s.mu.Unlock()
	}
}
