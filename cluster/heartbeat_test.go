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

// settled waits until all nodes run with a heartbeat, and the leader knows that.
func (s *sim) settled(want time.Duration) {
	s.t.Helper()
	s.await(fmt.Sprintf("a heartbeat of %v is settled", want), 30*time.Second, func() bool {
		for _, l := range s.lives() {
			h := l.pulse.known()
			if !h.settled() || h.Now != want || l.heartbeat() != want {
				return false
			}
		}
		return s.leading() != nil
	})
}

// mixed are nodes of which the one that is to lead is started with a heartbeat of its own.
func mixed(first, others time.Duration) simConfig {
	return simConfig{size: 3, heartbeats: map[string]time.Duration{"n1": first, "n2": others, "n3": others}}
}

// lead makes a node lead.
func (s *sim) lead(id string) (l *life) {
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

// A leader that was started with a longer heartbeat than the others does not answer by it once it is cut off.
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

// cutAndAsk cuts a leader off and asks it and the others, until another one has decided for a while.
func (s *sim) cutAndAsk(old *life) (ops []op) {
	s.isolate(old.node.id)
	ask := func(l *life, quantity int64) {
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
			turn++ // what is charged in sync mode waits, and then so do answers that charge nothing
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

// checkOverlap demands that the node which was cut off charged nothing after another had begun to.
func checkOverlap(s *sim, ops []op) {
	first := time.Duration(-1)
	for _, o := range ops {
		switch {
		case o.key == "s" && o.outcome == granted && o.quantity > 0 && first < 0:
			first = o.ret
		case o.key == "old" && first >= 0 && o.ret > first:
			s.t.Errorf("the node that was cut off admits at %v, another has since %v", o.ret, first)
			return
		}
	}
}

// The first leader's heartbeat is that of the cluster, and stays so over restarts with other options.
func TestHeartbeatIsTheClusters(t *testing.T) {
	log := &lockedLog{}
	c := mixed(longBeat, shortBeat)
	c.logger = log.logger()
	simulate(t, c, func(t *testing.T, s *sim) {
		s.await("it is settled", 30*time.Second, func() bool { return s.leader().pulse.known().settled() })
		want := s.leader().pulse.known().Now
		s.settled(want)
		for _, n := range s.list() {
			s.c.heartbeats[n.id] = 700 * time.Millisecond
			s.alive(n.id).crash(false)
			pass(longBeat)
			n.boot()
			<-s.alive(n.id).started
			if got := s.alive(n.id).raft.ReloadableConfig().HeartbeatTimeout; got < want-1 {
				t.Errorf("%s starts with %v", n.id, got)
			}
			s.converge()
			pass(agreeEvery)
			if line := fmt.Sprintf("node=%s cluster=%v raft-heartbeat=700ms", n.id, want); log.count(line) != 1 {
				t.Errorf("%d lines have %q, want 1", log.count(line), line)
			}
		}
		s.settled(want)
		if l := s.leader(); l.lease() != leaseOf(want) || l.Status().Heartbeat != want {
			t.Errorf("a lease of %v at a heartbeat of %v", l.lease(), want)
		}
	})
}

// A heartbeat is raised and lowered while the cluster decides, without another leader.
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
			if l.lease() != leaseOf(to) {
				t.Errorf("a lease of %v at a heartbeat of %v", l.lease(), to)
			}
			for _, l := range s.lives() {
				settings := l.raft.ReloadableConfig()
				if settings.HeartbeatTimeout < to-1 || settings.ElectionTimeout != to {
					t.Errorf("%s runs with %+v", l.node.id, settings)
				}
			}
			pass(time.Second)
		}
		clients.end()
		if now := s.leader(); now != l || now.View().Term != term {
			t.Errorf("%s leads in term %d, before %s in term %d", now.node.id, now.View().Term, l.node.id, term)
		}
		s.converge()
		checkOrder(s, clients.ops, true)
		checkUsed(s, clients.ops)
	})
}

// While a voter is down, a longer heartbeat gives no longer lease, whichever node leads. Once it is back, it does.
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
			if h := l.pulse.known(); h.Now != longBeat || h.settled() || l.lease() != leaseOf(testHeartbeat) || l.heartbeat() != testHeartbeat {
				t.Errorf("%+v, a lease of %v, and it runs with %v", h, l.lease(), l.heartbeat())
			}
			if err := l.Transfer(t.Context(), ""); err != nil {
				t.Error(err)
			}
		}
		down.node.boot()
		s.settled(longBeat)
		if l := s.leader(); l.lease() != leaseOf(longBeat) {
			t.Errorf("a lease of %v", l.lease())
		}
	})
}

// A node that is to vote has to run with the heartbeat of the cluster first, and a cluster that changes
// both comes to an end of it.
func TestHeartbeatOfNewVoter(t *testing.T) {
	simulate(t, simConfig{size: 3, heartbeats: map[string]time.Duration{"n4": 100 * time.Millisecond}}, func(t *testing.T, s *sim) {
		s.settled(testHeartbeat)
		n := s.add("n4")
		n.join = []string{"n1", "n2", "n3"}
		n.boot()
		if err := s.leader().SetHeartbeat(t.Context(), longBeat); err != nil {
			t.Fatal(err)
		}
		s.await("the new node votes", 20*time.Second, func() bool {
			l := s.leader()
			m := l.find("n4")
			if m == nil || !m.Voter {
				return false
			}
			if got := s.alive("n4").runsWith(); got.Version == 0 {
				t.Errorf("it votes and runs with %+v", got)
			}
			return true
		})
		s.settled(longBeat)
		s.converge()
		leader := s.leader()
		stale := Question{About: aboutVoting, Node: &Announcement{ID: "n4", Incarnation: "of n4"}, Applied: 1 << 40}
		if err := leader.put(t.Context(), func(within time.Duration) raft.Future { return leader.raft.DemoteVoter("n4", 0, within) }); err != nil {
			t.Fatal(err)
		}
		leader.refresh()
		if a := leader.Reply(t.Context(), stale); a.Error != "" || leader.find("n4").Voter {
			t.Errorf("a node that runs with no heartbeat of the cluster gets a vote: %+v", a)
		}
	})
}

func TestSetHeartbeatRefuses(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		s.settled(testHeartbeat)
		l := s.leader()
		for _, d := range []time.Duration{0, -1, leastHeartbeat - 1, mostHeartbeat + 1, leastHeartbeat + 1} {
			if err := l.SetHeartbeat(t.Context(), d); !errors.Is(err, topology.ErrHeartbeat) {
				t.Errorf("%v: %v", d, err)
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
		l.pulse.restore(heartbeats{})
		if err := l.SetHeartbeat(t.Context(), longBeat); !errors.Is(err, topology.ErrNoHeartbeat) {
			t.Error(err)
		}
		if got := l.lease(); got != leaseOf(leastHeartbeat) {
			t.Errorf("a lease of %v where no heartbeat is known", got)
		}
	})
}

func TestHeartbeatsState(t *testing.T) {
	p := newPulse(shortBeat)
	step := func(what string, s settings, now, least time.Duration, lease time.Duration) {
		t.Helper()
		if s != (settings{}) {
			p.apply(p.known().Version+1, s)
		}
		h := p.known()
		if h.Now != now || h.least() != least || time.Duration(p.lease.Load()) != lease || h.check() != nil {
			t.Errorf("%s: %+v, a lease of %v, %v", what, h, time.Duration(p.lease.Load()), h.check())
		}
	}
	const ms = time.Millisecond
	step("at first", settings{}, 0, 100*ms, 80*ms)
	step("nothing to settle", settings{Settled: 7}, 0, 100*ms, 80*ms)
	step("the first", settings{Heartbeat: 500}, 500*ms, 100*ms, 80*ms)
	step("of another version", settings{Settled: 7}, 500*ms, 100*ms, 80*ms)
	step("settled", settings{Settled: 1}, 500*ms, 500*ms, 400*ms)
	step("longer", settings{Heartbeat: 2000}, 2000*ms, 500*ms, 400*ms)
	step("longer still", settings{Heartbeat: 3000}, 3000*ms, 500*ms, 400*ms)
	step("the one before is settled", settings{Settled: 2}, 3000*ms, 500*ms, 400*ms)
	step("shorter", settings{Heartbeat: 250}, 250*ms, 250*ms, 200*ms)
	step("longer before all know of that", settings{Heartbeat: 1000}, 1000*ms, 250*ms, 200*ms)
	step("settled again", settings{Settled: 5}, 1000*ms, 1000*ms, 800*ms)
	for _, bad := range []heartbeats{{Now: 1}, {Version: 1}, {Version: 1, Now: 100 * ms, Least: 200 * ms}, {Version: 1, Now: 6000 * ms, Least: 200 * ms}, {Version: 1, Now: 200 * ms, Least: 20 * ms}} {
		if bad.check() == nil {
			t.Errorf("%+v is a state", bad)
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
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "{", "[]", `{"heartbeat_ms":99}`, `{"heartbeat_ms":5001}`, `{"heartbeat_ms":-250}`, `{"heartbeat_ms":9223372036854775807}`, `{"heartbeat_ms":1.5}`} {
		if got, err := parseSettings([]byte("\x03" + bad)); !errors.Is(err, errEntry) {
			t.Errorf("%s: %+v, %v", bad, got, err)
		}
	}
}

// Changes that are on their way bound the lease, and one that nothing is known of does so until the term is over.
func TestCeiling(t *testing.T) {
	var c ceiling
	step := func(what string, want time.Duration) {
		t.Helper()
		if got := time.Duration(c.lease.Load()); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	c.enter(1)
	c.lower(time.Second)
	step("one", 800*time.Millisecond)
	c.lower(longBeat)
	step("a longer one", 800*time.Millisecond)
	c.lift(1)
	step("one is applied", 800*time.Millisecond)
	c.enter(1)
	step("the same term", 800*time.Millisecond)
	c.enter(2)
	step("another term", 0)
	c.lift(1)
	c.lower(shortBeat)
	step("after one of the term before", leaseOf(shortBeat))
	c.lift(2)
	step("applied", 0)
}

// An entry of another term is void.
func TestSettingsOfAnotherTerm(t *testing.T) {
	clock := NewClock()
	n := New(Config{Clock: clock, Table: buckets.New(buckets.Config{Clock: clock.Now, Journal: true}), Self: Announcement{ID: "n1"}, Heartbeat: shortBeat})
	for _, term := range []uint64{4, 5} {
		b, err := settings{Term: term, Heartbeat: 1000}.entry()
		if err != nil {
			t.Fatal(err)
		}
		if err := n.fsm.apply(&raft.Log{Index: 7, Term: 5, Data: b}, 0); err != nil {
			t.Error(err)
		}
		if got := n.pulse.known().Version; got != map[uint64]uint64{4: 0, 5: 7}[term] {
			t.Errorf("an entry of term %d: version %d", term, got)
		}
	}
}

// The heartbeat is in a snapshot, and a damaged one is not taken in.
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
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func bytesOf(parts ...[]byte) *bytes.Reader { return bytes.NewReader(bytes.Join(parts, nil)) }
