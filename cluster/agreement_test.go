package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// TestSetHeartbeatWaits checks that a change of the heartbeat and a promotion wait while another change is in progress,
// and fail when their context is done.
func TestSetHeartbeatWaits(t *testing.T) {
	simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
		s.settled(testHeartbeat)
		l := s.leader()
		l.setting.proposing.Lock()
		defer l.setting.proposing.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.SetHeartbeat(ctx, longBeat); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("SetHeartbeat during another change: %v, want DeadlineExceeded", err)
		}
		vote := Question{About: topicVote, Node: &Announcement{ID: "n2", Incarnation: "of n2"}}
		if err := l.members.promote(ctx, &vote); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("promote during a change of the heartbeat: %v, want DeadlineExceeded", err)
		}
	})
}

// TestAdoptedHeartbeat checks that a restarted node that applies old entries again keeps the newer heartbeat that it
// has acknowledged.
func TestAdoptedHeartbeat(t *testing.T) {
	disk := newDisk()
	p := newHeartbeatSetting(shortBeat)
	step := func(h heartbeats, applied uint64, want adopted) {
		t.Helper()
		if err := p.adopt(h, applied, disk); err != nil || p.adopted != want {
			t.Errorf("adopt %+v with entry %d applied: adopted %+v, error %v; want %+v", h, applied, p.adopted, err, want)
		}
	}
	old, now := heartbeats{}.set(10, time.Second), heartbeats{}.set(20, longBeat)
	step(heartbeats{}, 5, adopted{})
	step(old, 10, adopted{10, time.Second})
	step(now, 20, adopted{20, longBeat})
	step(old, 15, adopted{20, longBeat})
	again := newHeartbeatSetting(shortBeat)
	if err := again.load(disk); err != nil || again.adopted != (adopted{20, longBeat}) || time.Duration(again.running.Load()) != longBeat {
		t.Errorf("loaded %+v, error %v; want the heartbeat that was stored last", again.adopted, err)
	}
	step(old, 20, adopted{10, time.Second}) // entry 20 is applied, but the heartbeat is that of entry 10: the log was replaced
	other := heartbeats{}.set(10, longBeat)
	step(other, 20, adopted{10, longBeat}) // entry 10 has set a different heartbeat than before: the log was replaced again
	for _, bad := range []string{"{", `{"version":0,"now":1}`, `{"version":1,"now":1}`, `{"version":1,"now":6000000000}`} {
		if err := disk.Set(adoptedKey, []byte(bad)); err != nil {
			t.Fatal(err)
		}
		if newHeartbeatSetting(shortBeat).load(disk) == nil {
			t.Errorf("load of the invalid heartbeat %s returned no error", bad)
		}
	}
}

// failingStable is a stable store whose writes fail.
type failingStable struct{ raft.StableStore }

func (failingStable) Set([]byte, []byte) error { return errors.New("the disk is full") }

// TestAdoptFails checks that a node that cannot store a heartbeat retries, and logs the error once a minute.
func TestAdoptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lockedLog{}
		n := New(Config{Clock: NewClock(), Self: Announcement{ID: "n1"}, Heartbeat: shortBeat, Stable: failingStable{}, Logger: log.logger()})
		n.setting.restore(heartbeats{}.set(1, longBeat))
		n.life.run(n.agreement.keepAdopted)
		pass(2*reportEvery + reportEvery/2)
		n.life.end()
		n.life.wait()
		if lines := log.count("the disk is full"); lines != 3 {
			t.Errorf("the error of the disk was logged %d times in 2.5 minutes, want 3", lines)
		}
	})
}

// TestLeaseWhileHeartbeatChanges reads the lease while shorter heartbeats are set. As soon as a shorter heartbeat is
// proposed, the lease must not be longer than that heartbeat permits.
func TestLeaseWhileHeartbeatChanges(t *testing.T) {
	n := New(Config{Clock: NewClock(), Self: Announcement{ID: "n1"}, Heartbeat: longBeat})
	var steps atomic.Uint64 // odd while the lease must not be longer than shortBeat permits
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300_000 {
			n.setting.lease.Store(int64(leaseOf(longBeat)))
			n.setting.ceiling.lower(shortBeat)
			steps.Add(1)
			n.setting.lease.Store(int64(leaseOf(shortBeat)))
			n.setting.ceiling.lift(0)
			steps.Add(1)
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		before, lease := steps.Load(), n.setting.leaseTime()
		if steps.Load() == before && before%2 == 1 && lease > leaseOf(shortBeat) {
			t.Errorf("the lease is %v, longer than a heartbeat of %v permits", lease, shortBeat)
			<-done
			return
		}
	}
}

// TestGaugesWaitForAllVoters checks that a leader stores gauges (see package buckets) only after all voters have
// answered the question about their heartbeat: a version of the program that cannot answer the question cannot read
// gauges. A restarted node must store gauges immediately if its snapshot or log has a heartbeat.
func TestGaugesWaitForAllVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, simConfig{size: 3})
		defer s.close()
		s.start()
		s.isolate("n3")
		s.wantGauge("s1", false)
		pass(3 * agreeAgain)
		s.wantGauge("s2", false)
		s.heal()
		s.settled(testHeartbeat)
		s.wantGauge("s3", true)
		s.wantGauge("s1", true)
		for _, l := range s.processes() {
			if err := l.Snapshot(); err != nil {
				t.Fatal(err)
			}
			l.crash(false)
		}
		for _, n := range s.list() {
			n.boot()
		}
		s.wantGauge("s4", true)
	})
}

// wantGauge charges a key. If want is true, it checks that all connected nodes store a gauge with the key, and
// otherwise that none does.
func (s *sim) wantGauge(key string, want bool) {
	s.t.Helper()
	leader := s.leader()
	s.grant(leader, key)
	for _, l := range s.processes() {
		if s.isCut(leader.node.id, l.node.id) {
			continue
		}
		s.await("the node has the charged key", 10*time.Second, func() bool { return l.Fingerprint().Index >= leader.Fingerprint().Index })
		for rec := range l.table.CommittedRecords() {
			if string(rec.Key) == key && (rec.Gauge != 0) != want {
				s.t.Errorf("node %s, key %s: gauge %d; want a nonzero gauge if and only if all voters have answered the question about their heartbeat", l.node.id, key, rec.Gauge)
			}
		}
	}
}
