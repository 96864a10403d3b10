package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// failingLogs is a log store whose writes fail.
type failingLogs struct{ raft.LogStore }

func (failingLogs) StoreLogs([]*raft.Log) error { return errors.New("the disk is full") }

func TestArrivals(t *testing.T) {
	now := time.Duration(0)
	a := &arrivals{LogStore: newDisk(), now: func() time.Duration { return now }}
	store := func(at time.Duration, term uint64, indices ...uint64) {
		now = at
		var logs []*raft.Log
		for _, i := range indices {
			logs = append(logs, &raft.Log{Index: i, Term: term})
		}
		if err := a.StoreLogs(logs); err != nil {
			t.Fatal(err)
		}
	}
	store(10, 1, 1, 2, 3)
	store(20, 1, 4, 5, 6)
	store(30, 2, 5) // 5 and 6 of term 1 are overwritten
	if err := a.StoreLog(&raft.Log{Index: 6, Term: 2}); err != nil {
		t.Fatal(err)
	}
	now = 100
	for _, test := range []struct {
		index, term uint64
		want        time.Duration
	}{
		{2, 1, 10},
		{2, 1, 100}, // each arrival is returned once, and then the current time
		{1, 1, 100},
		{4, 1, 20},
		{5, 1, 100}, // entry 5 of term 2 has replaced this entry
		{6, 2, 30},
		{7, 2, 100},
	} {
		if got := a.take(test.index, test.term); got != test.want {
			t.Errorf("take of entry %d of term %d returned %d, want %d", test.index, test.term, got, test.want)
		}
	}
	if len(a.waiting) > 0 {
		t.Errorf("arrivals that were not dropped: %+v, want none", a.waiting)
	}
	a.LogStore = failingLogs{}
	if err := a.StoreLogs([]*raft.Log{{Index: 8, Term: 2}}); err == nil || len(a.waiting) > 0 {
		t.Errorf("StoreLogs on a failing disk: error %v, arrivals %+v; want an error and no arrivals", err, a.waiting)
	}
}

// TestArrivalsAreBounded checks that arrivals are dropped when their entries are applied.
func TestArrivalsAreBounded(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		for range 50 {
			if _, err := charge(s.leader().Node, "s", 1); err != nil {
				t.Fatal(err)
			}
		}
		s.converge()
		for _, l := range s.processes() {
			l.clock.arrivals.mu.Lock()
			n := len(l.clock.arrivals.waiting)
			l.clock.arrivals.mu.Unlock()
			if n > 3 {
				t.Errorf("%s holds the arrival times of %d entries, want at most 3", l.node.id, n)
			}
		}
	})
}
