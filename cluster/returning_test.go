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

// comeback is a node that comes back, and the questions that it asks.
type comeback struct {
	takes map[string]time.Duration // until a node answers the first question
	stale string                   // node that knows the data to be old

	mu       sync.Mutex
	notes    []string // nodes that were asked to note the start
	failedAt time.Time
}

func (a *comeback) ask(m topology.Member, note bool) ([]topology.Member, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if note {
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

// checkAll asks all nodes, and returns how long that takes.
func (a *comeback) checkAll() time.Duration {
	find := func(id string) *topology.Member { return &topology.Member{ID: id} }
	r := &returning{
		ask: a.ask, find: find, checked: map[string]bool{}, others: map[string]topology.Member{},
		asking: map[string]chan struct{}{}, wake: make(chan struct{}, 1),
	}
	begun := time.Now()
	var all sync.WaitGroup
	for id := range a.takes {
		all.Go(func() { _ = r.check(id) })
	}
	all.Wait()
	return time.Since(begun)
}

// TestReturn_Rounds has nodes note a start only after all have answered, unless one of them takes too long.
func TestReturn_Rounds(t *testing.T) {
	const soon, late = 10 * time.Millisecond, 4 * othersTake
	for _, test := range []struct {
		name     string
		n1, n2   time.Duration
		stale    string
		notes    []string
		expected time.Duration
	}{
		{"all answer", soon, 2 * soon, "", []string{"n1", "n2"}, 2 * soon},
		{"one is slow", soon, late, "", []string{"n1", "n2"}, late},
		{"one turns it away", soon, 2 * soon, "n2", nil, 2 * soon},
		{"one turns it away late", soon, late, "n2", []string{"n1"}, late},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &comeback{takes: map[string]time.Duration{"n1": test.n1, "n2": test.n2}, stale: test.stale}
				took := a.checkAll()
				if slices.Sort(a.notes); !slices.Equal(a.notes, test.notes) || took != test.expected {
					t.Errorf("noted by %v after %v; want %v after %v", a.notes, took, test.notes, test.expected)
				}
			})
		})
	}
}

// TestReturn_Turned asks a node whether the data is old, and only then to note the start: a start that another node has
// turned away must not make the running process of that node one that is out of date.
func TestReturn_Turned(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		leader := s.leader()
		other := s.followers(leader)[0]
		a := other.config.Self
		s.await("it is announced", 5*time.Second, func() bool { return leader.memory.of(a.ID).Announced == a.Boot })
		a.Boot, a.Process, a.Line = a.Boot+1, "copy", a.Line.Raised(a.Boot+1, "copy")
		q := Question{About: aboutReturn, Node: &a, Last: entryID{Index: 1 << 40, Term: 1 << 40}}
		if err := leader.checkReturn(&q); err != nil || leader.memory.of(a.ID).Boot == a.Boot {
			t.Errorf("the first question: %v; remembered is %+v", err, leader.memory.of(a.ID))
		}
		q.Note = true
		if err := leader.checkReturn(&q); err != nil || leader.memory.of(a.ID).Boot != a.Boot {
			t.Errorf("the second question: %v; remembered is %+v", err, leader.memory.of(a.ID))
		}
		if !leader.Current(a.ID, a.Boot-1) {
			t.Error("a start that was not announced makes the announced process out of date")
		}
		q.Node = &Announcement{ID: a.ID, Boot: a.Boot, Process: "another"}
		if err := leader.checkReturn(&q); !errors.Is(err, ErrStale) {
			t.Errorf("another process of that number: %v", err)
		}
	})
}
