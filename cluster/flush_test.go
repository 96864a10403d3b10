package cluster

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
)

// entrySink is an applier that passes entries on to a test.
type entrySink chan []byte

// pendingFuture is the future of an entry that is never committed by Raft.
type pendingFuture struct{ raft.ApplyFuture }

func (s entrySink) Apply(entry []byte, _ time.Duration) raft.ApplyFuture {
	s <- entry
	return pendingFuture{}
}

// flusherRig is a flusher without a node.
type flusherRig struct {
	*flusher
	t       *testing.T
	engine  *engine
	entries entrySink
}

func newFlusherRig(t *testing.T) *flusherRig {
	t.Helper()
	clock := &logClock{Clock: NewClock(), wall: Wall}
	table := buckets.New(buckets.Config{Clock: clock.Now, Replicated: true, Shards: 1})
	clock.run(uint64(time.Hour))
	l := newLeadership(3, 7)
	table.Lead(l.epoch)
	s := newLeaderships()
	s.set(l)
	r := &flusherRig{t: t, entries: make(entrySink, 8), engine: &engine{table: table, clock: clock, leaderships: s}}
	r.flusher = &flusher{
		leadership: l, table: table, clock: clock, raft: r.entries, counts: &s.submitted,
		futures: make(chan raft.ApplyFuture, 8),
	}
	return r
}

// decide charges a key, and makes the flusher submit the generation of the charge.
func (r *flusherRig) decide(key string) (generation uint64) {
	rule := rules['s']
	req := limiter.Request{Kind: rule.kind, Key: []byte(key), Limit: rule.limit, Quantity: 1}
	token := r.table.Decide([]limiter.Request{req}, make([]limiter.Decision, 1))
	r.leadership.demand(token.Generation)
	r.leadership.wakeFlusher()
	return token.Generation
}

// entry returns the next entry, and reports whether there is one.
func (r *flusherRig) entry() (c changes, submitted bool) {
	r.t.Helper()
	synctest.Wait()
	if len(r.entries) == 0 {
		return c, false
	}
	c, err := parseChanges(<-r.entries)
	if err != nil {
		r.t.Error(err)
	}
	return c, true
}

// TestFlusher checks that a flusher does not submit a second generation before the first one is committed: until then,
// the duration of a commit is unknown, and only one generation may be in flight. An idle flusher must submit an entry
// without changes to replicate the log time. A flusher must submit nothing after the end of the leadership.
func TestFlusher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlusherRig(t)
		go r.run()
		first := r.decide("a")
		c, submitted := r.entry()
		if !submitted || c.term != 7 || c.epoch != 3 || c.generation != first || c.time != r.clock.Now() || len(c.data) == 0 {
			t.Errorf("submitted %t, entry %+v; want generation %d", submitted, c, first)
		}
		second := r.decide("b")
		if _, submitted = r.entry(); submitted {
			t.Error("a second entry was submitted while the duration of a commit is unknown")
		}
		r.leadership.commit(first, r.clock.monotonic())
		if c, submitted = r.entry(); !submitted || c.generation != second {
			t.Errorf("submitted %t, entry %+v; want generation %d", submitted, c, second)
		}
		r.leadership.commit(second, r.clock.monotonic())
		pass(2 * tickEvery)
		if c, submitted = r.entry(); !submitted || len(c.data) > 0 || c.time != r.clock.Now()-uint64(tickEvery) {
			t.Errorf("submitted %t, entry %+v; want an entry with the log time only", submitted, c)
		}
		close(r.leadership.over)
		<-r.leadership.done
		r.decide("c")
		if _, submitted = r.entry(); submitted {
			t.Error("an entry was submitted after the end of the leadership")
		}
		n := uint64(0)
		for range r.futures {
			n++
		}
		if n != 3 || r.counts.entries.Load() != n {
			t.Errorf("%d futures and %d counted entries, want 3 of each", n, r.counts.entries.Load())
		}
	})
}

// TestFlush checks that decisions before a Flush call are not lost in async mode if the leader fails after the call.
func TestFlush(t *testing.T) {
	simulate(t, simConfig{size: 3, async: true, latency: 2 * time.Millisecond}, func(t *testing.T, s *sim) {
		granted := int64(0)
		for range 10 {
			leader := s.leader()
			for range 3 { // the flusher pauses for asyncPause before it submits the last charge
				s.grant(leader, "s")
				granted++
			}
			if err := leader.Flush(); err != nil {
				t.Fatal(err)
			}
			leader.crash(false)
			if left := s.remaining(s.newLeader(leader), "s"); left != 5000-granted {
				t.Fatalf("%d units of 5000 remain after %d charges that were flushed, want 5000 less one for each charge", left, granted)
			}
			s.converge()
		}
		if err := s.leader().Flush(); err != nil {
			t.Errorf("Flush without changes: %v, want nil", err)
		}
	})
}

// TestFlushFails checks that Flush fails on a node that is not the leader, and on a leader that loses leadership during
// the call.
func TestFlushFails(t *testing.T) {
	simulate(t, simConfig{size: 3, async: true}, func(t *testing.T, s *sim) {
		leader := s.leader()
		if err := s.followers(leader)[0].Flush(); !errors.Is(err, limiter.ErrNotLeading) {
			t.Errorf("Flush on a follower: %v, want ErrNotLeading", err)
		}
		s.isolate(leader.node.id)
		s.grant(leader, "s")
		if err := leader.Flush(); !errors.Is(err, limiter.ErrUncertain) {
			t.Errorf("Flush on an isolated leader: %v, want ErrUncertain", err)
		}
	})
}

// TestCommitStats checks that the decisions of each entry and the time to its commit are counted.
func TestCommitStats(t *testing.T) {
	t.Parallel()
	n := startSolo(t, soloConfig("n1"))
	defer closeSolo(t, n)
	rule := rules['s']
	for range 3 {
		reqs := []limiter.Request{{Kind: rule.kind, Key: []byte("k"), Limit: rule.limit, Quantity: 1}, {Kind: rule.kind, Key: []byte("l"), Limit: rule.limit, Quantity: 1}}
		if err := n.WaitCommitted(n.Decide(reqs, make([]limiter.Decision, 2))); err != nil {
			t.Fatal(err)
		}
	}
	s := n.CommitStats()
	for end := time.Now().Add(time.Minute); s.Latency.Total() < 3 && time.Now().Before(end); s = n.CommitStats() {
		time.Sleep(time.Millisecond) // the polling interval: the time to a commit is counted after its waiters are unblocked
	}
	if entries := s.Decisions.Total(); s.Decisions.Sum != 6 || entries < 1 || entries > 6 {
		t.Errorf("got %d decisions in %d entries, want 6 in at most 6", s.Decisions.Sum, entries)
	}
	if commits := s.Latency.Total(); commits < 3 || s.Latency.Sum <= 0 {
		t.Errorf("got %d commits in %d ns, want at least 3", commits, s.Latency.Sum)
	}
}
