package cluster

import (
	"errors"
	"io"
	"testing"
)

// A snapshot during which the state was replaced is not kept: it may have been seen half empty.
func TestSnapshotOfReplacedState(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		s.grant(leader, "s")
		s.converge()
		follower := s.followers(leader)[0]
		save := func(between func()) error {
			snap, err := machine{follower.Node}.Snapshot()
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
			t.Fatalf("%d snapshots: %v", len(list), err)
		}
		restore := func() {
			_, content, err := follower.disk.Open(list[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			if err := (machine{follower.Node}).Restore(io.NopCloser(content)); err != nil {
				t.Fatal(err)
			}
		}
		if err := save(restore); !errors.Is(err, errReplaced) {
			t.Errorf("a snapshot of a state that was replaced: %v", err)
		}
		if after, _ := follower.disk.List(); len(after) != len(list) {
			t.Errorf("%d snapshots are kept", len(after))
		}
	})
}
