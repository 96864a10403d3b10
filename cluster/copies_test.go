package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/cluster/raftstore"
	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/topology"
)

func TestRemembered(t *testing.T) {
	r := remembered{Boot: 3, Process: "p", Held: 100}
	for _, tt := range []struct {
		name string
		a    Announcement
		last entryID
		term uint64 // of entry 100
		want string
	}{
		{"the next start", Announcement{Boot: 4, Process: "q"}, entryID{100, 5}, 5, ""},
		{"starts without an announcement", Announcement{Boot: 6, Process: "q", Line: raftstore.Line{Boot: 3, Process: "p", Since: "4 5 q"}}, entryID{120, 7}, 5, ""},
		{"starts before the announcement was noted", Announcement{Boot: 4, Process: "q", Line: raftstore.Line{Boot: 1, Process: "1", Since: "2 p q"}}, entryID{120, 7}, 5, ""},
		{"starts with a copy", Announcement{Boot: 5, Process: "q", Line: raftstore.Line{Boot: 2, Process: "2", Since: "3 4 q"}}, entryID{120, 7}, 5, "lacks that start"},
		{"starts of a version without lines", Announcement{Boot: 9, Process: "q"}, entryID{120, 7}, 5, ""},
		{"the first start with a line", Announcement{Boot: 4, Process: "q", Line: raftstore.Line{Boot: 3, Since: "q"}}, entryID{120, 7}, 5, ""},
		{"the same process", Announcement{Boot: 3, Process: "p"}, entryID{100, 5}, 5, ""},
		{"a second process", Announcement{Boot: 3, Process: "q"}, entryID{100, 5}, 5, "boot number 3"},
		{"an older start", Announcement{Boot: 2, Process: "q"}, entryID{100, 5}, 5, "boot number 2"},
		{"an entry is missing", Announcement{Boot: 4, Process: "q"}, entryID{99, 5}, 5, "had acknowledged entry 100"},
		{"the entry is another", Announcement{Boot: 4, Process: "q"}, entryID{110, 4}, 5, "had acknowledged entry 100"},
		{"its term is unknown", Announcement{Boot: 4, Process: "q"}, entryID{100, 4}, 0, ""},
	} {
		err := r.check(&tt.a, tt.last, tt.term)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, ErrStale) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestMemory holds against a node only what it has acknowledged of committed entries.
func TestMemory(t *testing.T) {
	m, stable := newMemory(), newDisk()
	held := func() uint64 { return m.of("n2").Held }
	m.acknowledged("n2", 3, 100)
	if held() != 0 {
		t.Errorf("%d of what is not committed", held())
	}
	m.committed(2, 200)
	m.committed(3, 90)
	if held() != 90 {
		t.Errorf("%d, and 90 are committed", held())
	}
	m.acknowledged("n2", 3, 95) // an answer that was overtaken
	m.committed(3, 300)
	if held() != 100 {
		t.Errorf("%d, and 100 were acknowledged", held())
	}
	m.acknowledged("n2", 4, 98) // of another log
	m.committed(4, 300)
	m.holds("n2", 50)
	if held() != 100 {
		t.Errorf("%d after 100", held())
	}
	m.announced(&Announcement{ID: "n2", Boot: 7, Process: "p"})
	m.announced(&Announcement{ID: "n2", Boot: 6, Process: "q"})
	if err := m.save(stable, false); err != nil {
		t.Fatal(err)
	}
	next := newMemory()
	if err := next.load(stable); err != nil || next.of("n2") != (remembered{7, "p", 7, 100}) {
		t.Errorf("loaded %+v, %v", next.of("n2"), err)
	}
	m.holds("n2", 150)
	for _, all := range []bool{false, true} {
		if err := m.save(stable, all); err != nil {
			t.Fatal(err)
		}
		if err := next.load(stable); err != nil || (next.of("n2").Held == 150) != all {
			t.Errorf("all %t: loaded %+v, %v", all, next.of("n2"), err)
		}
	}
	if err := stable.Set(rememberedKey, []byte("x")); err != nil || newMemory().load(stable) == nil {
		t.Errorf("what is no memory is loaded: %v", err)
	}
}

// failing is a stable store of which a call fails.
type failing struct {
	raft.StableStore
	err error
}

func (f failing) Get([]byte) ([]byte, error) { return nil, f.err }
func (f failing) Set([]byte, []byte) error   { return f.err }

// TestMemory_Failing keeps what could not be written, and does not begin without what cannot be read.
func TestMemory_Failing(t *testing.T) {
	broken := failing{err: errors.New("broken")}
	if err := newMemory().load(broken); !errors.Is(err, broken.err) {
		t.Errorf("a memory that cannot be read is loaded: %v", err)
	}
	m := newMemory()
	m.announced(&Announcement{ID: "n2", Boot: 7, Process: "p"})
	m.holds("n2", 5)
	for _, all := range []bool{false, true} {
		if err := m.save(broken, all); !errors.Is(err, broken.err) {
			t.Errorf("all %t: saved: %v", all, err)
		}
	}
	stable, next := newDisk(), newMemory()
	if err := errors.Join(m.save(stable, false), next.load(stable)); err != nil || next.of("n2") != (remembered{7, "p", 7, 5}) {
		t.Errorf("%+v is written later, %v", next.of("n2"), err)
	}
}

// staleSim expects a node to end because its data is an old copy.
func staleSim(t *testing.T, id string, test func(t *testing.T, s *sim, ended <-chan error)) {
	var why chan error // of the simulation, whose time stands still until it is heard
	c := simConfig{size: 3, unexpected: func(node string, err error) bool {
		if node == id && errors.Is(err, ErrStale) {
			why <- err
			return false
		}
		return true
	}}
	simulate(t, c, func(t *testing.T, s *sim) {
		why = make(chan error, 10)
		test(t, s, why)
	})
}

// endsStale waits until a node ends as an old copy.
func endsStale(t *testing.T, ended <-chan error, want string) {
	t.Helper()
	select {
	case err := <-ended:
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it ends by %v; want %q", err, want)
		}
	case <-time.After(20 * time.Second):
		t.Error("it goes on")
	}
}

// leadsNot makes another node than n3 lead.
func (s *sim) leadsNot(t *testing.T, id string) *life {
	t.Helper()
	if s.leader().node.id == id {
		if err := s.leader().Transfer(t.Context(), "n1"); err != nil {
			t.Fatal(err)
		}
	}
	s.await("another than "+id+" leads", 5*time.Second, func() bool { return s.leading() != nil && s.leading().node.id != id })
	return s.leader()
}

// An old copy of a data directory, made while the node ran, lacks charges that the node had acknowledged. It is turned
// away before anything is granted twice, whichever node was it that led.
func TestOldCopy(t *testing.T) {
	for _, led := range []bool{false, true} {
		staleSim(t, "n3", func(t *testing.T, s *sim, ended <-chan error) {
			n3 := s.list()[2]
			if led && s.leader().node != n3 {
				if err := s.leader().Transfer(t.Context(), "n3"); err != nil {
					t.Fatal(err)
				}
				s.await("n3 leads", 5*time.Second, func() bool { return s.leading() != nil && s.leading().node == n3 })
			} else if !led {
				s.leadsNot(t, "n3")
			}
			leader := s.leader()
			lags := s.list()[1]
			if lags == leader.node {
				lags = s.list()[0]
			}
			copied := s.alive("n3").disk.copy()
			lags.down()
			left := s.left(leader, "s")
			for range 5 {
				left = s.grant(leader, "s")
			}
			n3.down()
			if led {
				lags.boot()
			}
			last := s.leadsNot(t, "n3")
			n3.disk = copied
			n3.boot()
			endsStale(t, ended, "had acknowledged entry")
			last.crash(false)
			if !led {
				lags.boot()
			}
			pass(5 * time.Second)
			if l := s.leading(); l != nil {
				t.Errorf("%s leads without a majority", l.node.id)
			}
			last.node.boot()
			s.await("the others lead", 10*time.Second, func() bool { return s.leading() != nil })
			if got := s.left(s.leader(), "s"); got != left {
				t.Errorf("%d left, %d were when the last charge was acknowledged", got, left)
			}
		})
	}
}

// A copy that was made while the node was down has an old boot number. All remember that, also after they have
// been down themselves, and a copy is turned away that was started before they could be asked.
func TestOldCopy_Boot(t *testing.T) {
	staleSim(t, "n3", func(t *testing.T, s *sim, ended <-chan error) {
		n3 := s.list()[2]
		n3.down()
		copied, starts, line := n3.disk.copy(), n3.starts, n3.line
		n3.boot()
		s.await("n3 is announced", 5*time.Second, func() bool { return s.leader().memory.of("n3").Boot == starts+1 })
		pass(time.Second) // until it is noted
		for _, n := range s.list() {
			n.down()
		}
		n3.disk, n3.starts, n3.line = copied, starts, line
		s.isolate("n3")
		n3.boot()
		s.list()[0].boot()
		s.list()[1].boot()
		s.await("the others lead", 10*time.Second, func() bool { return s.leading() != nil })
		pass(5 * time.Second)
		if !s.alive("n3").begun() {
			t.Error("n3 does not take part while it reaches no other node")
		}
		s.heal()
		endsStale(t, ended, "boot number")
		s.grant(s.leader(), "s")
	})
}

// A copy that is started several times before it reaches another node has a higher boot number than the one that was
// announced. It is still turned away by a node that knows only that.
func TestOldCopy_StartedTwice(t *testing.T) {
	staleSim(t, "n3", func(t *testing.T, s *sim, ended <-chan error) {
		led := s.leadsNot(t, "n3").node
		n3, knows := s.list()[2], s.list()[0]
		if knows == led {
			knows = s.list()[1]
		}
		n3.down()
		copied, starts, line := n3.disk.copy(), n3.starts, n3.line
		n3.boot()
		announced := func() bool { return s.alive(knows.id).memory.of("n3").Boot == starts+1 }
		s.await("n3 is announced", 5*time.Second, announced)
		led.down()
		n3.down()
		n3.disk, n3.starts, n3.line = copied, starts, line
		s.isolate("n3")
		for range 3 {
			n3.down()
			n3.boot()
			pass(time.Second)
		}
		s.heal()
		endsStale(t, ended, "lacks that start")
		if s.leading() != nil {
			t.Error("a copy is part of a majority")
		}
	})
}

// A returning node may vote before it is announced. A copy that has the same boot number is turned away then, too,
// by nodes that have been down meanwhile.
func TestOldCopy_Unannounced(t *testing.T) {
	staleSim(t, "n3", func(t *testing.T, s *sim, ended <-chan error) {
		s.leadsNot(t, "n3")
		n3 := s.list()[2]
		n3.down()
		copied, starts, line := n3.disk.copy(), n3.starts, n3.line
		l := n3.boot()
		s.await("n3 has asked all", introduceEvery/2, func() bool { return l.begun() && len(l.returning.left(l.View().Members, "n3")) == 0 })
		n3.down()
		for _, n := range s.list()[:2] {
			n.down()
		}
		n3.disk, n3.starts, n3.line = copied, starts, line
		for _, n := range s.list() {
			n.boot()
		}
		endsStale(t, ended, "by another process")
		if a := s.leader().announcement("n3"); a.Boot > starts {
			t.Errorf("start %d was announced: nothing was shown", a.Boot)
		}
	})
}

// TestMemory_Returned notes starts that are not announced, and replaces one that belongs to a copy.
func TestMemory_Returned(t *testing.T) {
	m := newMemory()
	if err := m.returned(&Announcement{ID: "n2", Boot: 7, Process: "p"}); err != nil {
		t.Error(err)
	}
	for _, boot := range []uint64{6, 7} {
		if err := m.returned(&Announcement{ID: "n2", Boot: boot, Process: "q"}); !errors.Is(err, ErrStale) {
			t.Errorf("boot number %d of another process: %v", boot, err)
		}
	}
	m.announced(&Announcement{ID: "n2", Boot: 6, Process: "o"})
	if got := m.of("n2"); got != (remembered{Boot: 7, Process: "p", Announced: 6}) {
		t.Errorf("after an older announcement: %+v", got)
	}
	m.announced(&Announcement{ID: "n2", Boot: 7, Process: "q"})
	if got := m.of("n2"); got != (remembered{Boot: 7, Process: "q", Announced: 7}) {
		t.Errorf("after the announcement of another process: %+v", got)
	}
}

// announcement returns the announcement of a node in the log.
func (l *life) announcement(id string) Announcement {
	l.Node.mu.Lock()
	defer l.Node.mu.Unlock()
	return l.fsm.announced[id]
}

// Of two processes that run with copies of one directory the second is turned away, and the first if it was not
// there when the second began.
func TestOldCopy_Twice(t *testing.T) {
	staleSim(t, "n3", func(t *testing.T, s *sim, ended <-chan error) {
		s.leadsNot(t, "n3")
		n3 := s.list()[2]
		first := s.alive("n3")
		s.await("n3 is announced", 5*time.Second, func() bool { return s.leader().memory.of("n3").Boot == n3.starts })
		a := first.config.Self
		a.Boot, a.Process, a.Line = a.Boot+1, "of a copy", raftstore.Line{}
		if err := s.leader().propose(t.Context(), &a); err != nil {
			t.Fatal(err)
		}
		endsStale(t, ended, "started with boot number")
		if s.leader().Current("n3", a.Boot-1) || !s.leader().Current("n3", a.Boot) {
			t.Error("its streams are not told from those of the second")
		}
		second := a
		second.Process = "of another copy"
		if err := s.leader().propose(t.Context(), &second); !errors.Is(err, ErrStale) {
			t.Errorf("a second process of the same boot number: %v", err)
		}
	})
}

// A node may be started any number of times, and be killed whenever that is: its data is still the newest.
func TestManyStarts(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		n3 := s.list()[2]
		n3.down()
		for _, n := range s.list()[:2] {
			n.down()
		}
		for range 5 {
			n3.boot()
			pass(100 * time.Millisecond)
			n3.down()
		}
		for range 3 {
			for _, n := range s.list() {
				n.boot()
			}
			s.await("they lead", 10*time.Second, func() bool { return s.leading() != nil })
			s.grant(s.leader(), "s")
			s.converge()
			for _, n := range s.list() {
				n.down()
			}
		}
		begin := time.Now()
		for _, n := range s.list() {
			n.boot()
		}
		s.await("they lead", 10*time.Second, func() bool { return s.leading() != nil })
		if took := time.Since(begin); took > 10*testHeartbeat {
			t.Errorf("nodes that begin together lead after %v", took)
		}
		s.grant(s.leader(), "s")
	})
}

// An end of the log that was acknowledged and never committed may be given up.
func TestMemory_Conflict(t *testing.T) {
	n := New(Config{Self: Announcement{ID: "n1"}, Clock: NewClock(), Logs: newDisk(), Snapshots: newDisk(), Stable: newDisk()})
	n.memory.acknowledged("n2", 3, 10)
	n.memory.committed(3, 8)
	n.memory.committed(4, 20) // other entries, of another leader
	if err := n.memory.of("n2").check(&Announcement{ID: "n2", Boot: 1}, entryID{8, 3}, 3); err != nil {
		t.Error(err)
	}
	for _, l := range []raft.Log{{Index: 1, Term: 1}, {Index: 2, Term: 2}} {
		if err := n.config.Logs.StoreLog(&l); err != nil {
			t.Fatal(err)
		}
	}
	if last, err := n.lastEntry(); err != nil || last != (entryID{2, 2}) {
		t.Errorf("the newest entry is %+v, %v", last, err)
	}
}

// TestAdopt takes over the recovery of a cluster once, and nothing that is none.
func TestAdopt(t *testing.T) {
	var adopted []topology.Recovery
	n := New(Config{Clock: NewClock(), Adopted: func(r topology.Recovery) error {
		adopted = append(adopted, r)
		return nil
	}})
	good := topology.Recovery("").Next("c", nil)
	for r, want := range map[topology.Recovery]bool{good: true, "?": false, "1-x": false} {
		if err := n.adoptRecovery(r); (err == nil) != want {
			t.Errorf("%q: %v", r, err)
		}
	}
	if n.config.Recovery != good || !slices.Equal(adopted, []topology.Recovery{good}) {
		t.Errorf("adopted %q; the node has %q", adopted, n.config.Recovery)
	}
}

// TestIsFenced ends a node only because of a recovery that is not older than its own.
func TestIsFenced(t *testing.T) {
	first := topology.Recovery("").Next("c", nil)
	second := first.Next("c", nil)
	other := topology.Recovery("").Next("d", nil)
	for _, tt := range []struct {
		ours, theirs topology.Recovery
		want         bool
	}{{"", first, true}, {first, second, true}, {first, other, true}, {second, first, false}, {first, "", false}} {
		err := fmt.Errorf("dial: %w", &transport.RecoveryError{Node: "n2", Ours: tt.ours, Theirs: tt.theirs})
		if got := isFenced(err); (got != nil) != tt.want || got != nil && !errors.Is(got, transport.ErrOtherRecovery) {
			t.Errorf("%q to %q: %v", tt.ours, tt.theirs, got)
		}
	}
	if isFenced(nil) != nil || isFenced(errors.New("x")) != nil {
		t.Error("other errors fence")
	}
}
