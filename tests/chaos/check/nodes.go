package check

import "fmt"

// Terms records the leader of each term. The zero value is empty.
type Terms struct {
	leaders map[uint64]string
	changes int
	first   uint64
	last    uint64
}

// Observe records that a node claims to be the leader of a term. It returns an error if a
// different node has claimed the same term.
func (t *Terms) Observe(term uint64, node string) error {
	if t.leaders == nil {
		t.leaders = map[uint64]string{}
	}
	if before, known := t.leaders[term]; known {
		if before != node {
			return fmt.Errorf("%s and %s both lead in term %d", before, node, term)
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

// Changes returns the number of times that a leader with a newer term was observed.
func (t *Terms) Changes() int { return t.changes }

// Seen reports whether any leader was observed.
func (t *Terms) Seen() bool { return t.first > 0 }

// Span returns the number of terms since the term of the first observed leader. It is an
// upper bound for the number of later leaders, observed or not.
func (t *Terms) Span() int { return int(t.last - t.first) }

// Fingerprint is a node's report of its state.
type Fingerprint struct {
	Node    string
	Index   uint64 // index of the newest log entry that the table of the node includes
	LogTime uint64
	Keys    int64
	Sum     string
}

// Agreement compares the fingerprints of nodes. It reports whether all nodes are at the same index,
// and returns an error if two nodes at the same index differ.
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
