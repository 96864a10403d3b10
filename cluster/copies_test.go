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

func TestNodeRecord(t *testing.T) {
	r := nodeRecord{Boot: 3, Process: "p", Held: 100}
	for _, tt := range []struct {
		name string
		a    Announcement
		last entryID
		term uint64 // term of entry 100; 0 if unknown
		want string
	}{
		{"the next start", Announcement{Boot: 4, Process: "q"}, entryID{100, 5}, 5, ""},
		{"starts without an announcement", Announcement{Boot: 6, Process: "q", Lineage: raftstore.Lineage{Boot: 3, Process: "p", Since: "4 5 q"}}, entryID{120, 7}, 5, ""},
		{"started again before the announcement was recorded", Announcement{Boot: 4, Process: "q", Lineage: raftstore.Lineage{Boot: 1, Process: "1", Since: "2 p q"}}, entryID{120, 7}, 5, ""},
		{"starts with a copy", Announcement{Boot: 5, Process: "q", Lineage: raftstore.Lineage{Boot: 2, Process: "2", Since: "3 4 q"}}, entryID{120, 7}, 5, "lacks that start"},
		{"started by a version without lineages", Announcement{Boot: 9, Process: "q"}, entryID{120, 7}, 5, ""},
		{"the first start with a lineage", Announcement{Boot: 4, Process: "q", Lineage: raftstore.Lineage{Boot: 3, Since: "q"}}, entryID{120, 7}, 5, ""},
		{"the same process", Announcement{Boot: 3, Process: "p"}, entryID{100, 5}, 5, ""},
		{"a second process", Announcement{Boot: 3, Process: "q"}, entryID{100, 5}, 5, "boot number 3"},
		{"an older start", Announcement{Boot: 2, Process: "q"}, entryID{100, 5}, 5, "boot number 2"},
		{"an entry is missing", Announcement{Boot: 4, Process: "q"}, entryID{99, 5}, 5, "had acknowledged entry 100"},
		{"the log ends with an older term", Announcement{Boot: 4, Process: "q"}, entryID{110, 4}, 5, "had acknowledged entry 100"},
		{"the term of entry 100 is unknown", Announcement{Boot: 4, Process: "q"}, entryID{100, 4}, 0, ""},
	} {
		err := r.check(&tt.a, tt.last, tt.term)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, ErrStale) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: check returned %v; want ErrStale with the text in the field want, or nil if that text is empty", tt.name, err)
		}
	}
}

// TestNodeRecords checks that only entries that are both acknowledged and committed count as held, and that records are
// saved and loaded.
func TestNodeRecords(t *testing.T) {
	m, stable := newNodeRecords(), newDisk()
	held := func() uint64 { return m.of("n2").Held }
	m.acknowledged("n2", 3, 100)
	if held() != 0 {
		t.Errorf("Held is %d before a commit, want 0", held())
	}
	m.committed(2, 200)
	m.committed(3, 90)
	if held() != 90 {
		t.Errorf("Held is %d, want 90, the newest committed entry", held())
	}
	m.acknowledged("n2", 3, 95) // a late response
	m.committed(3, 300)
	if held() != 100 {
		t.Errorf("Held is %d, want 100, the newest acknowledged entry", held())
	}
	m.acknowledged("n2", 4, 98) // in a later term, in which the log may differ
	m.committed(4, 300)
	m.holds("n2", 50)
	if held() != 100 {
		t.Errorf("Held is %d, want 100 as before", held())
	}
	m.announced(&Announcement{ID: "n2", Boot: 7, Process: "p"})
	m.announced(&Announcement{ID: "n2", Boot: 6, Process: "q"})
	if err := m.save(stable, false); err != nil {
		t.Fatal(err)
	}
	next := newNodeRecords()
	if err := next.load(stable); err != nil || next.of("n2") != (nodeRecord{7, "p", 7, 100}) {
		t.Errorf("loaded %+v, error %v; want boot number 7 of process p, and 100 as Held", next.of("n2"), err)
	}
	m.holds("n2", 150)
	for _, all := range []bool{false, true} {
		if err := m.save(stable, all); err != nil {
			t.Fatal(err)
		}
		if err := next.load(stable); err != nil || (next.of("n2").Held == 150) != all {
			t.Errorf("after save with all=%t: loaded %+v, error %v; want 150 as Held only with all=true", all, next.of("n2"), err)
		}
	}
	if err := stable.Set(recordsKey, []byte("x")); err != nil || newNodeRecords().load(stable) == nil {
		t.Errorf("invalid records could not be written, or load of these records returned no error: %v", err)
	}
}

// failing is a stable store whose methods Get and Set fail.
type failing struct {
	raft.StableStore
	err error
}

func (f failing) Get([]byte) ([]byte, error) { return nil, f.err }
func (f failing) Set([]byte, []byte) error   { return f.err }

// TestNodeRecords_Failing checks that records that could not be written are written by a later save, and that load
// fails if the records cannot be read.
func TestNodeRecords_Failing(t *testing.T) {
	broken := failing{err: errors.New("broken")}
	if err := newNodeRecords().load(broken); !errors.Is(err, broken.err) {
		t.Errorf("load of unreadable records returned %v, want broken", err)
	}
	m := newNodeRecords()
	m.announced(&Announcement{ID: "n2", Boot: 7, Process: "p"})
	m.holds("n2", 5)
	for _, all := range []bool{false, true} {
		if err := m.save(broken, all); !errors.Is(err, broken.err) {
			t.Errorf("save to a failing disk with all=%t returned %v, want broken", all, err)
		}
	}
	stable, next := newDisk(), newNodeRecords()
	if err := errors.Join(m.save(stable, false), next.load(stable)); err != nil || next.of("n2") != (nodeRecord{7, "p", 7, 5}) {
		t.Errorf("after the failed writes, the records are %+v, error %v; want boot number 7 of process p, and 5 as Held", next.of("n2"), err)
	}
}

// staleSim runs a test in which a node exits because its data is an old copy.
func staleSim(t *testing.T, id string, test func(t *testing.T, s *sim, ended <-chan error)) {
	var why chan error // created in the simulation: fake time stops during a wait for a channel created outside
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

// endsStale waits until a node exits because its data is an old copy. The error must contain the text want.
func endsStale(t *testing.T, ended <-chan error, want string) {
	t.Helper()
	select {
	case err := <-ended:
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the node exited with %v, want an error that contains %q", err, want)
		}
	case <-time.After(20 * time.Second):
		t.Error("the node that must be rejected did not exit within 20s")
	}
}

// leadsNot makes a node other than the given one the leader, and returns its process.
func (s *sim) leadsNot(t *testing.T, id string) *process {
	t.Helper()
	if s.leader().node.id == id {
		if err := s.leader().Transfer(t.Context(), "n1"); err != nil {
			t.Fatal(err)
		}
	}
	s.await("a node other than "+id+" leads", 5*time.Second, func() bool { return s.leading() != nil && s.leading().node.id != id })
	return s.leader()
}

// TestOldCopy starts n3 with a copy of its data directory that was made while n3 was running. The copy lacks charges
// that n3 acknowledged later. n3 must be rejected before any unit is admitted twice. The test runs once with n3 as a
// follower during these charges, and once with n3 as the leader.
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
			left := s.remaining(leader, "s")
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
				t.Errorf("%s is the leader without a majority", l.node.id)
			}
			last.node.boot()
			s.await("one of the other nodes leads", 10*time.Second, func() bool { return s.leading() != nil })
			if got := s.remaining(s.leader(), "s"); got != left {
				t.Errorf("%d units remain, want %d as after the last charge", got, left)
			}
		})
	}
}

// TestOldCopy_Boot copies the data of n3 while n3 is down, and then starts n3, so that the boot number in the copy is
// outdated. All nodes are then stopped and started again. n3 now has the copy and is isolated. When n3 is reachable
// again, it must be rejected, because the other nodes have stored the newer boot number.
func TestOldCopy_Boot(t *testing.T) {
	staleSim(t, "n3", func(t *testing.T, s *sim, ended <-chan error) {
		n3 := s.list()[2]
		n3.down()
		copied, starts, lineage := n3.disk.copy(), n3.starts, n3.lineage
		n3.boot()
		s.await("n3 is announced", 5*time.Second, func() bool { return s.leader().access.records.of("n3").Boot == starts+1 })
		pass(time.Second) // until the other nodes have stored the boot number
		for _, n := range s.list() {
			n.down()
		}
		n3.disk, n3.starts, n3.lineage = copied, starts, lineage
		s.isolate("n3")
		n3.boot()
		s.list()[0].boot()
		s.list()[1].boot()
		s.await("one of the other nodes leads", 10*time.Second, func() bool { return s.leading() != nil })
		pass(5 * time.Second)
		if !s.alive("n3").raft.started() {
			t.Error("Raft was not started on n3 while n3 was isolated")
		}
		s.heal()
		endsStale(t, ended, "boot number")
		s.grant(s.leader(), "s")
	})
}

// TestOldCopy_StartedTwice starts n3 several times with a copy of its data before n3 reaches another node, so that the
// boot number of n3 is higher than the announced one. A node that knows only the announced boot number must reject n3,
// too.
func TestOldCopy_StartedTwice(t *testing.T) {
	staleSim(t, "n3", func(t *testing.T, s *sim, ended <-chan error) {
		led := s.leadsNot(t, "n3").node
		n3, knows := s.list()[2], s.list()[0]
		if knows == led {
			knows = s.list()[1]
		}
		n3.down()
		copied, starts, lineage := n3.disk.copy(), n3.starts, n3.lineage
		n3.boot()
		announced := func() bool { return s.alive(knows.id).access.records.of("n3").Boot == starts+1 }
		s.await("n3 is announced", 5*time.Second, announced)
		led.down()
		n3.down()
		n3.disk, n3.starts, n3.lineage = copied, starts, lineage
		s.isolate("n3")
		for range 3 {
			n3.down()
			n3.boot()
			pass(time.Second)
		}
		s.heal()
		endsStale(t, ended, "lacks that start")
		if s.leading() != nil {
			t.Error("a leader was elected with the vote of n3, which runs with a copy")
		}
	})
}

// TestOldCopy_Unannounced stops n3 after the other nodes have recorded its start, but before it is announced. All nodes
// are then restarted, n3 with an older copy that gets the same boot number. The copy must be rejected, because n3 may
// have voted before it was stopped.
func TestOldCopy_Unannounced(t *testing.T) {
	staleSim(t, "n3", func(t *testing.T, s *sim, ended <-chan error) {
		s.leadsNot(t, "n3")
		n3 := s.list()[2]
		n3.down()
		copied, starts, lineage := n3.disk.copy(), n3.starts, n3.lineage
		l := n3.boot()
		s.await("n3 has asked all nodes", announceEvery/2, func() bool { return l.raft.started() && len(l.access.rejoin.remaining(l.View())) == 0 })
		n3.down()
		for _, n := range s.list()[:2] {
			n.down()
		}
		n3.disk, n3.starts, n3.lineage = copied, starts, lineage
		for _, n := range s.list() {
			n.boot()
		}
		endsStale(t, ended, "by another process")
		if a := s.leader().announcement("n3"); a.Boot > starts {
			t.Errorf("boot number %d of n3 was announced, so nothing was tested", a.Boot)
		}
	})
}

// TestNodeRecords_Returned checks the records of starts that are not announced. If another process with the same boot
// number is announced later, it replaces the recorded process, because the recorded process runs with a copy.
func TestNodeRecords_Returned(t *testing.T) {
	m := newNodeRecords()
	if err := m.recordReturn(&Announcement{ID: "n2", Boot: 7, Process: "p"}); err != nil {
		t.Error(err)
	}
	for _, boot := range []uint64{6, 7} {
		if err := m.recordReturn(&Announcement{ID: "n2", Boot: boot, Process: "q"}); !errors.Is(err, ErrStale) {
			t.Errorf("recordReturn of another process with boot number %d: %v, want ErrStale", boot, err)
		}
	}
	m.announced(&Announcement{ID: "n2", Boot: 6, Process: "o"})
	if got := m.of("n2"); got != (nodeRecord{Boot: 7, Process: "p", Announced: 6}) {
		t.Errorf("after an older announcement: %+v, want boot number 7 of process p, and 6 announced", got)
	}
	m.announced(&Announcement{ID: "n2", Boot: 7, Process: "q"})
	if got := m.of("n2"); got != (nodeRecord{Boot: 7, Process: "q", Announced: 7}) {
		t.Errorf("after the announcement of another process: %+v, want that process", got)
	}
}

// announcement returns the newest announcement of a node that this process has applied.
func (p *process) announcement(id string) Announcement {
	return p.fsm.announced.of(id)
}

// TestOldCopy_Twice announces a process of n3 with a higher boot number than that of the running process, as if the
// announced process had been started with a copy of the directory. The running process must exit. Another process
// with the same higher boot number must be rejected.
func TestOldCopy_Twice(t *testing.T) {
	staleSim(t, "n3", func(t *testing.T, s *sim, ended <-chan error) {
		s.leadsNot(t, "n3")
		n3 := s.list()[2]
		first := s.alive("n3")
		s.await("n3 is announced", 5*time.Second, func() bool { return s.leader().access.records.of("n3").Boot == n3.starts })
		a := first.config.Self
		a.Boot, a.Process, a.Lineage = a.Boot+1, "of a copy", raftstore.Lineage{}
		if err := s.leader().members.announce(t.Context(), &a); err != nil {
			t.Fatal(err)
		}
		endsStale(t, ended, fmt.Sprint("boot number ", a.Boot))
		if s.leader().Current("n3", a.Boot-1) || !s.leader().Current("n3", a.Boot) {
			t.Error("Current accepts the boot number of the running process, or rejects the announced one")
		}
		second := a
		second.Process = "of another copy"
		if err := s.leader().members.announce(t.Context(), &second); !errors.Is(err, ErrStale) {
			t.Errorf("announcement of another process with the same boot number: %v, want ErrStale", err)
		}
	})
}

// TestManyStarts starts and kills nodes many times. No node may be rejected, because each node is started with its
// newest data.
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
			s.await("a node leads", 10*time.Second, func() bool { return s.leading() != nil })
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
		s.await("a node leads", 10*time.Second, func() bool { return s.leading() != nil })
		if took := time.Since(begin); took > 10*testHeartbeat {
			t.Errorf("it took %v to elect a leader after all nodes were started together, want at most 10 heartbeats", took)
		}
		s.grant(s.leader(), "s")
	})
}

// TestNodeRecords_Conflict checks that a node is not rejected if it has discarded entries that it had acknowledged but
// that were not committed.
func TestNodeRecords_Conflict(t *testing.T) {
	n := New(Config{Self: Announcement{ID: "n1"}, Clock: NewClock(), Logs: newDisk(), Snapshots: newDisk(), Stable: newDisk()})
	n.access.records.acknowledged("n2", 3, 10)
	n.access.records.committed(3, 8)
	n.access.records.committed(4, 20) // n2 has acknowledged no entries in term 4
	if err := n.access.records.of("n2").check(&Announcement{ID: "n2", Boot: 1}, entryID{8, 3}, 3); err != nil {
		t.Error(err)
	}
	for _, l := range []raft.Log{{Index: 1, Term: 1}, {Index: 2, Term: 2}} {
		if err := n.config.Logs.StoreLog(&l); err != nil {
			t.Fatal(err)
		}
	}
	if last, err := lastEntry(n.config.Logs, n.config.Snapshots); err != nil || last != (entryID{2, 2}) {
		t.Errorf("the newest entry is %+v, error %v; want entry 2 of term 2", last, err)
	}
}

// TestSetRecovery checks that a node stores a valid recovery, and rejects invalid ones.
func TestSetRecovery(t *testing.T) {
	var stored []topology.Recovery
	n := New(Config{Clock: NewClock(), StoreRecovery: func(r topology.Recovery) error {
		stored = append(stored, r)
		return nil
	}})
	good := topology.Recovery("").Next("c", nil)
	for r, want := range map[topology.Recovery]bool{good: true, "?": false, "1-x": false} {
		if err := n.bootstrap.setRecovery(r); (err == nil) != want {
			t.Errorf("setRecovery of %q returned %v; want an error only for an invalid recovery", r, err)
		}
	}
	if n.bootstrap.recovery != good || !slices.Equal(stored, []topology.Recovery{good}) {
		t.Errorf("stored %q, and the recovery of the node is %q; want the valid recovery in both places", stored, n.bootstrap.recovery)
	}
}

// TestIsFenced checks that isFenced returns an error only if the recovery of the other node is not older than the
// recovery of this node.
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
			t.Errorf("recovery of this node %q, of the other node %q: isFenced returned %v; want an error only if the recovery of the other node is not older", tt.ours, tt.theirs, got)
		}
	}
	if isFenced(nil) != nil || isFenced(errors.New("x")) != nil {
		t.Error("isFenced returned an error for nil or for an unrelated error")
	}
}
