package check

import "fmt"

// Terms knows who has led in each term. The zero value knows of none.
type Terms struct {
	leaders map[uint64]string
	changes int
	first   uint64
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
	if t.first == 0 {
		t.first = term
	}
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

// Seen reports whether any leader was.
func (t *Terms) Seen() bool { return t.first > 0 }

// Span returns how many terms there have been since the first leader was seen: as many other
// leaders as that there may have been, seen or not.
func (t *Terms) Span() int { return int(t.last - t.first) }

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
