package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/topology"
)

const (
	shortBeat = 250 * time.Millisecond
	longBeat  = 2 * time.Second
)

// settled waits until the given heartbeat is settled, and all nodes run with it.
func (s *sim) settled(want time.Duration) {
	s.t.Helper()
	s.await(fmt.Sprintf("a heartbeat of %v is settled", want), 30*time.Second, func() bool {
		for _, l := range s.processes() {
			h := l.setting.replicated()
			if !h.settled() || h.Now != want || l.setting.heartbeat() != want {
				return false
			}
		}
		return s.leading() != nil
	})
}

// mixed returns a cluster in which n1 has a different raft-heartbeat than the other nodes.
func mixed(first, others time.Duration) simConfig {
	return simConfig{size: 3, heartbeats: map[string]time.Duration{"n1": first, "n2": others, "n3": others}}
}

// lead makes a node the leader.
func (s *sim) lead(id string) (l *process) {
	s.t.Helper()
	s.await(id+" leads", 30*time.Second, func() bool {
		l = s.alive(id)
		if now := s.leading(); now != nil && now != l {
			if err := now.Transfer(s.t.Context(), id); err != nil {
				s.t.Log(err)
			}
		}
		return l.View().Leading
	})
	return l
}

// TestMixedHeartbeats checks that an isolated leader whose option raft-heartbeat is longer than that of the other
// nodes does not base its lease on that option.
func TestMixedHeartbeats(t *testing.T) {
	for _, async := range []bool{false, true} {
		c := mixed(longBeat, shortBeat)
		c.async = async
		simulate(t, c, func(t *testing.T, s *sim) {
			pass(time.Second)
			old := s.lead("n1")
			s.grant(old, "s")
			s.converge()
			ops := s.cutAndAsk(old)
			if !async {
				checkOrder(s, ops, true)
			}
			checkOverlap(s, ops)
			s.converge()
		})
	}
}

// cutAndAsk isolates a leader. For 2*longBeat, it sends requests to that node and to the next leader. It returns the
// requests that were answered.
func (s *sim) cutAndAsk(old *process) (ops []op) {
	s.isolate(old.node.id)
	ask := func(l *process, quantity int64) {
		call := time.Since(s.begun)
		done := make(chan op, 1)
		go func() {
			d, err := charge(l.Node, "s", quantity)
			done <- op{key: "s", quantity: quantity, call: call, ret: time.Since(s.begun), outcome: judge(&d, err), remaining: d.Remaining}
		}()
		select {
		case o := <-done:
			if l == old && o.outcome == granted && quantity > 0 {
				o.key = "old"
			}
			ops = append(ops, o)
		case <-time.After(time.Millisecond):
		}
	}
	turn := int64(0)
	for end := time.Now().Add(2 * longBeat); time.Now().Before(end); pass(5 * time.Millisecond) {
		if old.config.Async {
			turn++ // peeks and charges in turn; in sync mode only peeks: a peek after a charge waits for its commit
		}
		ask(old, turn%2)
		for _, l := range s.followers(old) {
			if l.View().Leading {
				ask(l, 1)
			}
		}
	}
	return ops
}

// checkOverlap checks that the isolated node admitted nothing after the first charge on another node.
func checkOverlap(s *sim, ops []op) {
	first := time.Duration(-1)
	for _, o := range ops {
		switch {
		case o.key == "s" && o.outcome == granted && o.quantity > 0 && first < 0:
			first = o.ret
		case o.key == "old" && first >= 0 && o.ret > first:
			s.t.Errorf("the isolated node admitted a request at %v, after another node had admitted a charge at %v", o.ret, first)
			return
		}
	}
}

// TestHeartbeatOfCluster checks that the heartbeat of the first leader becomes the heartbeat of the cluster, and does
// not change when nodes are restarted with a different option raft-heartbeat.
func TestHeartbeatOfCluster(t *testing.T) {
	log := &lockedLog{}
	c := mixed(longBeat, shortBeat)
	c.logger = log.logger()
	simulate(t, c, func(t *testing.T, s *sim) {
		s.await("the heartbeat is settled", 30*time.Second, func() bool { return s.leader().setting.replicated().settled() })
		want := s.leader().setting.replicated().Now
		s.settled(want)
		for _, n := range s.list() {
			s.c.heartbeats[n.id] = 700 * time.Millisecond
			s.alive(n.id).crash(false)
			pass(longBeat)
			n.boot()
			<-s.alive(n.id).started
			if got := s.alive(n.id).raft.ReloadableConfig().HeartbeatTimeout; got < want-1 {
				t.Errorf("%s starts with a heartbeat of %v, shorter than that of the cluster", n.id, got)
			}
			s.converge()
			pass(agreeEvery)
			if line := fmt.Sprintf("node=%s cluster=%v raft-heartbeat=700ms", n.id, want); log.count(line) != 1 {
				t.Errorf("%d log lines contain %q, want 1", log.count(line), line)
			}
		}
		s.settled(want)
		if l := s.leader(); l.setting.leaseTime() != leaseOf(want) || l.Status().Heartbeat != want {
			t.Errorf("the lease is %v, or the status shows a wrong heartbeat; want the heartbeat %v, and 4/5 of it as the lease", l.setting.leaseTime(), want)
		}
	})
}

// TestSetHeartbeat raises and lowers the heartbeat under load, and checks that the leader does not change.
func TestSetHeartbeat(t *testing.T) {
	simulate(t, simConfig{size: 3, latency: 2 * time.Millisecond}, func(t *testing.T, s *sim) {
		l := s.leader()
		s.settled(testHeartbeat)
		term := l.View().Term
		clients := runClients(s, 4)
		defer clients.end()
		for _, to := range []time.Duration{longBeat, 100 * time.Millisecond, 5 * time.Second, shortBeat} {
			if err := l.SetHeartbeat(t.Context(), to); err != nil {
				t.Fatal(err)
			}
			s.settled(to)
			if l.setting.leaseTime() != leaseOf(to) {
				t.Errorf("the lease is %v, want 4/5 of the heartbeat %v", l.setting.leaseTime(), to)
			}
			for _, l := range s.processes() {
				settings := l.raft.ReloadableConfig()
				if settings.HeartbeatTimeout < to-1 || settings.ElectionTimeout != to {
					t.Errorf("%s runs with the Raft settings %+v, whose timeouts are not the new heartbeat", l.node.id, settings)
				}
			}
			pass(time.Second)
		}
		clients.end()
		if now := s.leader(); now != l || now.View().Term != term {
			t.Errorf("the leader is %s in term %d, but was %s in term %d before the changes", now.node.id, now.View().Term, l.node.id, term)
		}
		s.converge()
		checkOrder(s, clients.ops, true)
		checkUsed(s, clients.ops)
	})
}

// TestHeartbeatWaitsForAll checks that a longer heartbeat does not extend the lease while a voter is down, no matter
// which node is the leader. Once the voter is up again, the lease must be extended.
func TestHeartbeatWaitsForAll(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		s.settled(testHeartbeat)
		down := s.followers(s.leader())[0]
		down.crash(false)
		if err := s.leader().SetHeartbeat(t.Context(), longBeat); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			pass(3 * time.Second)
			l := s.leader()
			if h := l.setting.replicated(); h.Now != longBeat || h.settled() || l.setting.leaseTime() != leaseOf(testHeartbeat) || l.setting.heartbeat() != testHeartbeat {
				t.Errorf("while a voter is down: replicated heartbeat %+v, lease %v, heartbeat of Raft %v; want the old lease and heartbeat", h, l.setting.leaseTime(), l.setting.heartbeat())
			}
			if err := l.Transfer(t.Context(), ""); err != nil {
				t.Error(err)
			}
		}
		down.node.boot()
		s.settled(longBeat)
		if l := s.leader(); l.setting.leaseTime() != leaseOf(longBeat) {
			t.Errorf("all voters run with the longer heartbeat, but the lease is %v, want 4/5 of that heartbeat", l.setting.leaseTime())
		}
	})
}

// TestHeartbeatOfNewVoter checks that a node runs with the heartbeat of the cluster before it is promoted to a voter.
// The test changes the heartbeat while a node joins.
func TestHeartbeatOfNewVoter(t *testing.T) {
	simulate(t, simConfig{size: 3, heartbeats: map[string]time.Duration{"n4": 100 * time.Millisecond}}, func(t *testing.T, s *sim) {
		s.settled(testHeartbeat)
		n := s.add("n4")
		n.join = []string{"n1", "n2", "n3"}
		n.boot()
		if err := s.leader().SetHeartbeat(t.Context(), longBeat); err != nil {
			t.Fatal(err)
		}
		s.await("the new node has a vote", 20*time.Second, func() bool {
			l := s.leader()
			m := l.observer.find("n4")
			if m == nil || !m.Voter {
				return false
			}
			if got := s.alive("n4").agreement.runsWith(); got.Version == 0 {
				t.Errorf("n4 is a voter, but has not adopted a heartbeat: %+v", got)
			}
			return true
		})
		s.settled(longBeat)
		s.converge()
		leader := s.leader()
		stale := Question{About: topicVote, Node: &Announcement{ID: "n4", Incarnation: "of n4"}, Applied: 1 << 40}
		if err := leader.life.submit(t.Context(), func(within time.Duration) raft.Future { return leader.raft.DemoteVoter("n4", 0, within) }); err != nil {
			t.Fatal(err)
		}
		leader.observer.refresh()
		if a := leader.Reply(t.Context(), stale); a.Error != "" || leader.observer.find("n4").Voter {
			t.Errorf("question for the promotion of a node that does not run with the heartbeat of the cluster: answer %+v, want no error and no promotion", a)
		}
	})
}

func TestSetHeartbeatRefuses(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		s.settled(testHeartbeat)
		l := s.leader()
		for _, d := range []time.Duration{0, -1, minHeartbeat - 1, maxHeartbeat + 1, minHeartbeat + 1} {
			if err := l.SetHeartbeat(t.Context(), d); !errors.Is(err, topology.ErrHeartbeat) {
				t.Errorf("SetHeartbeat to %v: %v, want ErrHeartbeat", d, err)
			}
		}
		if err := l.SetHeartbeat(t.Context(), testHeartbeat); err != nil {
			t.Error(err)
		}
		for _, f := range s.followers(l) {
			if err := f.SetHeartbeat(t.Context(), longBeat); !errors.Is(err, topology.ErrNoLeader) {
				t.Error(err)
			}
		}
		s.followers(l)[0].crash(false)
		l.setting.restore(heartbeats{})
		if err := l.SetHeartbeat(t.Context(), longBeat); !errors.Is(err, topology.ErrNoHeartbeat) {
			t.Error(err)
		}
		if got := l.setting.leaseTime(); got != leaseOf(minHeartbeat) {
			t.Errorf("the lease is %v before a heartbeat is replicated, want 4/5 of minHeartbeat", got)
		}
	})
}

func TestHeartbeatsState(t *testing.T) {
	p := newHeartbeatSetting(shortBeat)
	step := func(what string, s settings, now, least time.Duration, lease time.Duration) {
		t.Helper()
		if s != (settings{}) {
			p.apply(p.replicated().Version+1, s)
		}
		h := p.replicated()
		if h.Now != now || h.least() != least || time.Duration(p.lease.Load()) != lease || h.check() != nil {
			t.Errorf("%s: state %+v, lease %v and error %v of check; at least one of them is wrong", what, h, time.Duration(p.lease.Load()), h.check())
		}
	}
	const ms = time.Millisecond
	step("initial", settings{}, 0, 100*ms, 80*ms)
	step("nothing to settle", settings{Settled: 7}, 0, 100*ms, 80*ms)
	step("first heartbeat", settings{Heartbeat: 500}, 500*ms, 100*ms, 80*ms)
	step("settled with another version", settings{Settled: 7}, 500*ms, 100*ms, 80*ms)
	step("settled", settings{Settled: 1}, 500*ms, 500*ms, 400*ms)
	step("longer", settings{Heartbeat: 2000}, 2000*ms, 500*ms, 400*ms)
	step("longer still", settings{Heartbeat: 3000}, 3000*ms, 500*ms, 400*ms)
	step("the previous one is settled", settings{Settled: 2}, 3000*ms, 500*ms, 400*ms)
	step("shorter", settings{Heartbeat: 250}, 250*ms, 250*ms, 200*ms)
	step("longer, while the shorter one is not settled", settings{Heartbeat: 1000}, 1000*ms, 250*ms, 200*ms)
	step("settled again", settings{Settled: 5}, 1000*ms, 1000*ms, 800*ms)
	for _, bad := range []heartbeats{{Now: 1}, {Version: 1}, {Version: 1, Now: 100 * ms, Least: 200 * ms}, {Version: 1, Now: 6000 * ms, Least: 200 * ms}, {Version: 1, Now: 200 * ms, Least: 20 * ms}} {
		if bad.check() == nil {
			t.Errorf("check of the invalid state %+v returned nil", bad)
		}
	}
}

func TestParseSettings(t *testing.T) {
	want := settings{Term: 3, Heartbeat: 500}
	b, err := want.entry()
	if err != nil || b[0] != settingsEntry {
		t.Fatal(b, err)
	}
	if got, err := parseSettings(b); err != nil || got != want {
		t.Errorf("parsed %+v, error %v; want the settings that were written", got, err)
	}
	for _, bad := range []string{"", "{", "[]", `{"heartbeat_ms":99}`, `{"heartbeat_ms":5001}`, `{"heartbeat_ms":-250}`, `{"heartbeat_ms":9223372036854775807}`, `{"heartbeat_ms":1.5}`} {
		if got, err := parseSettings([]byte("\x03" + bad)); !errors.Is(err, errEntry) {
			t.Errorf("%s: parsed %+v, error %v; want errEntry", bad, got, err)
		}
	}
}

// TestCeiling checks that proposed heartbeats limit the lease. A proposal with an unknown outcome must limit the lease
// until the end of the term.
func TestCeiling(t *testing.T) {
	var c ceiling
	step := func(what string, want time.Duration) {
		t.Helper()
		if got := time.Duration(c.lease.Load()); got != want {
			t.Errorf("%s: the limit of the lease is %v, want %v", what, got, want)
		}
	}
	c.begin(1)
	c.lower(time.Second)
	step("one proposal", 800*time.Millisecond)
	c.lower(longBeat)
	step("a longer one", 800*time.Millisecond)
	c.lift(1)
	step("one is applied", 800*time.Millisecond)
	c.begin(1)
	step("the same term", 800*time.Millisecond)
	c.begin(2)
	step("another term", 0)
	c.lift(1)
	c.lower(shortBeat)
	step("after a proposal of the previous term", leaseOf(shortBeat))
	c.lift(2)
	step("applied", 0)
}

// TestSettingsOfAnotherTerm checks that settings that were proposed in a different term are void.
func TestSettingsOfAnotherTerm(t *testing.T) {
	clock := NewClock()
	n := New(Config{Clock: clock, Table: buckets.New(buckets.Config{Clock: clock.Now, Replicated: true}), Self: Announcement{ID: "n1"}, Heartbeat: shortBeat})
	for _, term := range []uint64{4, 5} {
		b, err := settings{Term: term, Heartbeat: 1000}.entry()
		if err != nil {
			t.Fatal(err)
		}
		if err := n.fsm.apply(&raft.Log{Index: 7, Term: 5, Data: b}, 0); err != nil {
			t.Error(err)
		}
		if got := n.setting.replicated().Version; got != map[uint64]uint64{4: 0, 5: 7}[term] {
			t.Errorf("settings of term %d in an entry of term 5: the version is %d, want 0 for term 4 and 7 for term 5", term, got)
		}
	}
}

// TestHeartbeatInHead checks that the head of a snapshot contains the heartbeat, and that a snapshot with an invalid
// heartbeat is rejected.
func TestHeartbeatInHead(t *testing.T) {
	h := head{Version: snapshotVersion, Heartbeat: heartbeats{Version: 3, Now: longBeat, Least: shortBeat}}
	for _, bad := range []bool{false, true} {
		if bad {
			h.Heartbeat.Least = 0
		}
		b, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readHead(bytesOf(lengthOf(len(b)), b))
		if bad != errors.Is(err, errHead) || !bad && got.Heartbeat != h.Heartbeat {
			t.Errorf("head %+v, error %v; want errHead only for the invalid heartbeat", got, err)
		}
	}
}

func bytesOf(parts ...[]byte) *bytes.Reader { return bytes.NewReader(bytes.Join(parts, nil)) }
