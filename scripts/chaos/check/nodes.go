package check

import (
	"fmt"
	"time"
)

// Terms knows who has led in each term. The zero value knows of none.
type Terms struct {
	leaders map[uint64]string
	changes int
	last    uint64
}

// Observe notes that a node says that it leads in a term. The error says that another one has
// said so of the same term.
func (t *Terms) Observe(term uint64, node string) error {
	if t.leaders == nil {
		t.leaders = map[uint64]string{}
	}
	if before, known := t.leaders[term]; known {
		if before != node {
			return fmt.Errorf("%s and %s both say that they lead in term %d", before, node, term)
		}
		return nil
	}
	t.leaders[term] = node
	if term > t.last {
		if t.last > 0 {
			t.changes++
		}
		t.last = term
	}
	return nil
}

// Changes returns how often a newer term was seen to have a leader.
func (t *Terms) Changes() int { return t.changes }

// Fingerprint is what a node says about its state.
type Fingerprint struct {
	Node    string
	Index   uint64 // of the newest entry of the log that is in its table
	LogTime uint64
	Keys    int64
	Sum     string
}

// Agreement compares nodes. It reports whether all are at the same index; the error says that two
// of them are and differ all the same.
func Agreement(nodes []Fingerprint) (same bool, err error) {
	same = true
	at := map[uint64]Fingerprint{}
	for _, n := range nodes {
		first, known := at[n.Index]
		if !known {
			at[n.Index] = n
			continue
		}
		if first.Sum != n.Sum || first.Keys != n.Keys || first.LogTime != n.LogTime {
			return false, fmt.Errorf("at index %d %s and %s differ: %+v, %+v", n.Index, first.Node, n.Node, first, n)
		}
	}
	return len(at) <= 1 && same, nil
}

// Pressure says how much a run has tried: one in which hardly anything happened proves nothing.
type Pressure struct {
	Lasted  time.Duration
	Decided int     // requests
	Least   float64 // decisions a second, below which the run does not count
	Limited int     // decisions that refused; some are due
	Kills   int     // leaders that were killed or cut off; as many changes of leader are due, or at least one
	Changes int     // of leader
}

// Check returns what the run lacks to prove anything, or nil.
func (p Pressure) Check() error {
	rate := float64(p.Decided) / p.Lasted.Seconds()
	switch {
	case rate < p.Least:
		return fmt.Errorf("only %.0f decisions a second, which proves nothing: %.0f are due", rate, p.Least)
	case p.Limited == 0:
		return fmt.Errorf("no request was refused by a limit, which proves nothing")
	case p.Kills > 0 && p.Changes == 0:
		return fmt.Errorf("%d leaders were taken away, and no other one came: the faults did not work", p.Kills)
	}
	return nil
}
