package cluster

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/limiter"
)

// TestSnapshotOfReplacedState checks that a snapshot is discarded if the state was replaced before the snapshot was
// complete.
func TestSnapshotOfReplacedState(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		s.grant(leader, "s")
		s.converge()
		follower := s.followers(leader)[0]
		save := func(between func()) error {
			snap, err := follower.fsm.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			between()
			sink, err := follower.disk.Create(1, 1<<40, 1, firstConfiguration(nil), 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			return snap.Persist(sink)
		}
		if err := save(func() {}); err != nil {
			t.Error(err)
		}
		list, err := follower.disk.List()
		if err != nil || len(list) == 0 {
			t.Fatalf("%d snapshots, error %v; want at least one", len(list), err)
		}
		restore := func() {
			_, content, err := follower.disk.Open(list[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			if err := follower.fsm.Restore(io.NopCloser(content)); err != nil {
				t.Fatal(err)
			}
		}
		if err := save(restore); !errors.Is(err, errReplaced) {
			t.Errorf("Persist after the state was replaced: %v, want errReplaced", err)
		}
		if after, _ := follower.disk.List(); len(after) != len(list) {
			t.Errorf("%d snapshots exist, want as many as before", len(after))
		}
	})
}

// TestEntryOfPreviousLeaderIsFresh checks isFresh, which reports whether an entry was decided while this process was
// running. It must return true if the term of the entry began after the start of the process, even if a later leader
// commits the entry.
func TestEntryOfPreviousLeaderIsFresh(t *testing.T) {
	clock := &logClock{bootIndex: 10, bootTerm: 4}
	for _, c := range []struct {
		index, term uint64
		want        bool
	}{{11, 5, true}, {11, 4, false}, {10, 5, false}, {11, 3, false}, {11, 0, true}} {
		if got := clock.isFresh(&raft.Log{Index: c.index, Term: c.term}, 0); got != c.want {
			t.Errorf("entry %d of term %d: isFresh returned %t, want the opposite", c.index, c.term, got)
		}
	}
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		s.grant(s.leader(), "s")
		s.converge()
		for _, l := range s.processes() {
			term := l.raft.CurrentTerm()
			l.crash(false)
			pass(downFor)
			back := l.node.boot()
			s.converge()
			if back.clock.bootTerm < term {
				t.Errorf("%s was restarted with stored term %d, but had term %d before", l.node.id, back.clock.bootTerm, term)
			}
		}
	})
}

// TestSkippedGeneration checks that the process exits if an entry is committed and Raft has rejected the entry of an
// earlier generation. Otherwise the later commit would also acknowledge the earlier generation.
func TestSkippedGeneration(t *testing.T) {
	var why chan error // created in the simulation: fake time stops during a wait for a channel created outside
	c := simConfig{size: 3, unexpected: func(_ string, err error) bool {
		why <- err
		return false
	}}
	simulate(t, c, func(t *testing.T, s *sim) {
		why = make(chan error, 1)
		leader := s.leader()
		s.grant(leader, "s")
		pass(time.Second)
		r := leader.leaderships.current()
		refused := decide(leader.Node, "t", 7)
		generation, _ := leader.table.Collect(nil)
		r.flights.add(generation, leader.clock.monotonic(), 1)
		r.flights.mu.Lock()
		r.flights.took = 2 * secondFlightAfter // allows a second generation in flight
		r.flights.mu.Unlock()
		next := decide(leader.Node, "s", 1)
		if err := leader.WaitCommitted(next); err != limiter.ErrUncertain {
			t.Errorf("WaitCommitted for the next generation: %v, want ErrUncertain", err)
		}
		if err := leader.WaitCommitted(refused); err == nil {
			t.Error("WaitCommitted returned nil for a generation whose entry was never submitted")
		}
		if err := <-why; !errors.Is(err, errSkipped) {
			t.Errorf("the process exited with %v, want errSkipped", err)
		}
		s.converge()
		if got := s.remaining(s.leader(), "t"); got != 100 {
			t.Errorf("%d units remain after the charge was rolled back, want 100", got)
		}
	})
}
