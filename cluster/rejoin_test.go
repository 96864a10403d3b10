package cluster

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// rejoinRig answers the questions of a node that was started with data, and records which nodes were asked the second
// question.
type rejoinRig struct {
	takes map[string]time.Duration // time until each node answers the first question
	stale string                   // node that rejects the data

	mu       sync.Mutex
	notes    []string // nodes that were asked to record the start
	failedAt time.Time
}

func (a *rejoinRig) ask(m topology.Member, record bool) ([]topology.Member, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if record {
		if !a.failedAt.IsZero() {
			return nil, errUnchecked
		}
		a.notes = append(a.notes, m.ID)
		return nil, nil
	}
	a.mu.Unlock()
	<-time.After(a.takes[m.ID])
	a.mu.Lock()
	if m.ID == a.stale {
		a.failedAt = time.Now()
		return nil, ErrStale
	}
	return nil, nil
}

// checkAll asks all nodes, and returns the time this took.
func (a *rejoinRig) checkAll() time.Duration {
	find := func(id string) *topology.Member { return &topology.Member{ID: id} }
	r := newRejoinCheck(nil, false, find)
	r.ask = a.ask
	begun := time.Now()
	var all sync.WaitGroup
	for id := range a.takes {
		all.Go(func() { _ = r.check(id) })
	}
	all.Wait()
	return time.Since(begun)
}

// TestRejoin_Rounds checks that nodes are asked to record a start only after all nodes have answered, or after a
// timeout.
func TestRejoin_Rounds(t *testing.T) {
	const soon, late = 10 * time.Millisecond, 4 * roundWithin
	for _, test := range []struct {
		name     string
		n1, n2   time.Duration
		stale    string
		notes    []string
		expected time.Duration
	}{
		{"all answer", soon, 2 * soon, "", []string{"n1", "n2"}, 2 * soon},
		{"one is slow", soon, late, "", []string{"n1", "n2"}, late},
		{"one node rejects the data", soon, 2 * soon, "n2", nil, 2 * soon},
		{"one rejects it late", soon, late, "n2", []string{"n1"}, late},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &rejoinRig{takes: map[string]time.Duration{"n1": test.n1, "n2": test.n2}, stale: test.stale}
				took := a.checkAll()
				if slices.Sort(a.notes); !slices.Equal(a.notes, test.notes) || took != test.expected {
					t.Errorf("asked to record the start: %v, finished after %v; want %v, finished after %v", a.notes, took, test.notes, test.expected)
				}
			})
		})
	}
}

// TestRejoin_Recorded checks that only the second question records a start. A start that is recorded but not announced
// must not make the previous process of the node, which was announced, out of date. The reason is that another node may
// still reject the data of the recorded process.
func TestRejoin_Recorded(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		other := s.followers(leader)[0]
		a := other.config.Self
		s.await("it is announced", 5*time.Second, func() bool { return leader.access.records.of(a.ID).Announced == a.Boot })
		a.Boot, a.Process, a.Lineage = a.Boot+1, "copy", a.Lineage.WithStart(a.Boot+1, "copy")
		q := Question{About: topicReturn, Node: &a, Last: entryID{Index: 1 << 40, Term: 1 << 40}}
		if err := leader.fsm.keeper.checkReturn(&q); err != nil || leader.access.records.of(a.ID).Boot == a.Boot {
			t.Errorf("after the first question: error %v, record %+v; want no new start", err, leader.access.records.of(a.ID))
		}
		q.RecordStart = true
		if err := leader.fsm.keeper.checkReturn(&q); err != nil || leader.access.records.of(a.ID).Boot != a.Boot {
			t.Errorf("after the second question: error %v, record %+v; want the new start", err, leader.access.records.of(a.ID))
		}
		if !leader.Current(a.ID, a.Boot-1) {
			t.Error("a start that was not announced makes the announced process out of date")
		}
		q.Node = &Announcement{ID: a.ID, Boot: a.Boot, Process: "another"}
		if err := leader.fsm.keeper.checkReturn(&q); !errors.Is(err, ErrStale) {
			t.Errorf("check of another process with the same boot number: %v, want ErrStale", err)
		}
	})
}
