package cluster

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestCompactedLog deletes entries from a log with entries 1 to 9, and checks which entries remain.
func TestCompactedLog(t *testing.T) {
	for _, tt := range []struct{ lo, hi, first, last uint64 }{
		{1, 5, 5, 9}, // compaction
		{1, 1, 1, 9},
		{6, 9, 1, 5}, // deletion of conflicting entries
		{9, 9, 1, 8},
		{1, 9, 0, 0}, // all entries
	} {
		l := compactedLog{newDisk()}
		for i := range uint64(9) {
			if err := l.StoreLog(&raft.Log{Index: i + 1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.DeleteRange(tt.lo, tt.hi); err != nil {
			t.Fatal(err)
		}
		first, _ := l.FirstIndex()
		last, _ := l.LastIndex()
		if first != tt.first || last != tt.last {
			t.Errorf("after deletion of entries %d to %d the log holds entries %d to %d, want %d to %d", tt.lo, tt.hi, first, last, tt.first, tt.last)
		}
	}
}

// TestConflictAfterSnapshot isolates a leader. The leader then stores an entry that is never committed, takes a
// snapshot, and compacts its log. The node must still be able to follow the next leader.
func TestConflictAfterSnapshot(t *testing.T) {
	c := simConfig{size: 3, tune: func(s *raft.Config) { s.TrailingLogs = 1 }}
	simulate(t, c, func(t *testing.T, s *sim) {
		old := s.leader()
		s.grant(old, "s")
		s.converge()
		s.isolate(old.node.id)
		uncertain := make(chan error, 1)
		go func() {
			_, err := charge(old.Node, "s", 1)
			uncertain <- err
		}()
		s.await("an entry is stored", time.Second, func() bool { return old.raft.LastIndex() > old.raft.CommitIndex() })
		if err := old.Snapshot(); err != nil {
			t.Fatal(err)
		}
		s.grant(s.newLeader(old), "s")
		s.converge()
		if err := <-uncertain; err == nil {
			t.Error("the charge on the isolated leader succeeded, although its entry was not committed")
		}
	})
}
