package server

import (
	"testing"

	"github.com/throttledhq/throttled/topology"
)

func TestCatchUp(t *testing.T) {
	steps := []struct {
		name                     string
		last, committed, applied uint64
		want                     bool
	}{
		{"a new node", 0, 0, 0, false},
		{"the log is not committed yet", 10, 0, 0, false},
		{"later entries do not raise the target", 20, 15, 9, false},
		{"caught up", 20, 20, 10, true},
		{"stays caught up", 90, 80, 10, true},
	}
	var c catchUp
	for _, s := range steps {
		status := topology.Status{Last: s.last, Committed: s.committed, Applied: s.applied}
		if got := c.reached(func() topology.Status { return status }); got != s.want {
			t.Errorf("%s: %v, want %v", s.name, got, s.want)
		}
	}
}

// If the leader removes entries that were not committed, the node need not wait for entries that do not exist.
func TestCatchUp_RemovedEntries(t *testing.T) {
	var c catchUp
	status := topology.Status{Last: 10, Applied: 5}
	if c.reached(func() topology.Status { return status }) {
		t.Error("caught up with 5 of 10 entries")
	}
	status.Last = 5
	if !c.reached(func() topology.Status { return status }) {
		t.Error("not caught up with all of 5 entries")
	}
}
