package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
)

// leased is a limit of 100 units, of which one is restored in a second.
var leased = limiter.Limit{Max: 100, Interval: time.Second}

// draw draws a lease of up to units of a key, and returns the units granted after the commit.
func (s *sim) draw(l *process, key string, units int64) (granted int64) {
	s.t.Helper()
	return s.drawFrom(l, limiter.Request{Kind: limiter.Throttle, Key: []byte(key), Limit: leased, Quantity: units})
}

// drawLog draws a lease of a unit of a log, and returns the units granted after the commit.
func (s *sim) drawLog(l *process, key string) (granted int64) {
	s.t.Helper()
	entries := limiter.Limit{Max: 10, Interval: time.Minute, Amount: 10}
	return s.drawFrom(l, limiter.Request{Kind: limiter.WindowLog, Key: []byte(key), Limit: entries, Quantity: 1})
}

func (s *sim) drawFrom(l *process, req limiter.Request) (granted int64) {
	s.t.Helper()
	s.drawn++
	req.Draw = &limiter.Draw{ID: s.drawn, User: "app", Lessee: "lessee", Hold: limiter.MaxHold}
	out := make([]limiter.Decision, 1)
	token := l.Decide([]limiter.Request{req}, out)
	if out[0].Err != nil {
		s.t.Fatal(out[0].Err)
	}
	if err := l.WaitCommitted(token); err != nil {
		s.t.Fatal(err)
	}
	return req.Draw.Granted
}

// TestLeasesWaitForAllVoters checks that a leader grants leases only after all voters have answered that they can read
// them, and that a restarted node grants leases immediately if its snapshot or log states this.
func TestLeasesWaitForAllVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, simConfig{size: 3})
		defer s.close()
		s.start()
		s.isolate("n3")
		if n := s.draw(s.leader(), "l1", 10); n != 0 {
			t.Errorf("%d units are granted before all voters have answered, want 0", n)
		}
		s.heal()
		s.await("leases are permitted", time.Minute, func() bool { l := s.leader(); return l.setting.leases() == buckets.LatestLeases })
		if n := s.draw(s.leader(), "l2", 10); n != 10 {
			t.Errorf("%d units are granted after all voters have answered, want 10", n)
		}
		s.converge()
		for _, l := range s.processes() {
			if u := l.LeaseUsage(); u.Leases != 1 || u.Units != 10 {
				t.Errorf("node %s has the leases %+v, want 1 of 10 units", l.node.id, u)
			}
			if err := l.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		for _, l := range s.processes() {
			l.crash(false)
		}
		for _, n := range s.list()[:2] {
			n.boot()
		}
		if n := s.draw(s.leader(), "l3", 10); n != 10 {
			t.Errorf("%d units are granted after a restart without a voter, want 10", n)
		}
	})
}

// TestLeaseFormat checks that a leader grants leases of logs only after all voters have answered that they can read them, and
// other leases before.
func TestLeaseFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, simConfig{size: 3})
		defer s.close()
		s.start()
		setting := s.alive("n3").setting
		read := func(f buckets.LeaseFormat) {
			setting.reloading.Lock()
			defer setting.reloading.Unlock()
			setting.readable = f
		}
		read(buckets.CountLeases)
		s.await("leases are permitted", time.Minute, func() bool { return s.leader().setting.leases() > buckets.NoLeases })
		if f := s.leader().setting.leases(); f != buckets.CountLeases {
			t.Errorf("with a voter of an earlier version, the format of leases is %d, want %d", f, buckets.CountLeases)
		}
		if n := s.drawLog(s.leader(), "g1"); n != 0 {
			t.Errorf("%d units of a log are granted with a voter that cannot read them, want 0", n)
		}
		if n := s.draw(s.leader(), "l1", 10); n != 10 {
			t.Errorf("%d units are granted, want 10", n)
		}
		read(buckets.LogLeases)
		s.await("leases of logs are permitted", time.Minute, func() bool { return s.leader().setting.leases() == buckets.LogLeases })
		if n := s.drawLog(s.leader(), "g2"); n != 1 {
			t.Errorf("%d units of a log are granted, want 1", n)
		}
		s.converge()
	})
}

// TestFormatOfEarlierVersions checks the format in messages of versions that do not state one.
func TestFormatOfEarlierVersions(t *testing.T) {
	for _, tt := range []struct {
		entry string
		want  buckets.LeaseFormat
	}{
		{`{"term":1,"settled":2}`, buckets.NoLeases},
		{`{"term":1,"leases":true}`, buckets.CountLeases},
		{`{"term":1,"leases":true,"lease_format":2}`, buckets.LogLeases},
	} {
		e, err := parseSettings(append([]byte{settingsEntry}, tt.entry...))
		if err != nil {
			t.Fatal(err)
		}
		s := newHeartbeatSetting(time.Second)
		if s.apply(1, e); s.leases() != tt.want {
			t.Errorf("%s: the format is %d, want %d", tt.entry, s.leases(), tt.want)
		}
	}
}

// TestLogTimeStepWaitsForLeases checks that the step of log time after a restart of all nodes, whose wall clocks are an
// hour ahead, does not restore the units of a lease while its lessee may still spend them.
func TestLogTimeStepWaitsForLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, simConfig{size: 3})
		defer s.close()
		s.start()
		s.await("leases are permitted", time.Minute, func() bool { l := s.leader(); return l.setting.leases() == buckets.LatestLeases })
		s.converge()
		begin := time.Now()
		if n := s.draw(s.leader(), "l", 100); n != 99 {
			t.Fatalf("%d units are granted, want 99", n)
		}
		for _, l := range s.processes() {
			l.crash(false)
			l.node.skew.Store(int64(time.Hour))
		}
		for _, n := range s.list() {
			n.boot()
		}
		leader := s.leader()
		if n := s.draw(leader, "l", 100); n < 99 {
			t.Errorf("%d units are granted after the step, want 99", n)
		}
		if passed := time.Since(begin); passed < limiter.MaxHold {
			t.Errorf("the units of the lease are restored %v after its draw, want at least %v", passed, limiter.MaxHold)
		}
	})
}
