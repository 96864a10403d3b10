package cluster

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/lease/leasetest"
	"github.com/throttledhq/throttled/limiter"
)

// sharedKey is a key whose limit is charged directly and by leases, with the history of its admissions in real time.
type sharedKey struct {
	kind    limiter.Kind
	limit   limiter.Limit
	rule    leasetest.Rule
	history leasetest.History
	leased  int64 // units granted
	direct  int64 // units admitted directly
}

// sharedKeys returns a key of each kind that counts units differently. Log time and real time begin with a full hour, the
// length of the windows, so that none of their units is restored during a test. The limits of the others restore all units
// in 10 s. Since log time may fall behind, the refills of the bucket are not known: in each interval, it may admit a refill
// in addition to those of an even rate.
func sharedKeys() map[string]*sharedKey {
	const period = 10 * time.Second
	throttle := limiter.Limit{Max: 1000, Interval: period / 1000}
	hourly := limiter.Limit{Max: 1000, Interval: time.Hour, Amount: 1}
	bucket := limiter.Limit{Max: 1000, Interval: 3 * period / 20, Amount: 150}
	log := limiter.Limit{Max: 1000, Interval: period, Amount: 1000}
	return map[string]*sharedKey{
		"throttle": {kind: limiter.Throttle, limit: throttle, rule: leasetest.GCRA{Interval: uint64(throttle.Interval), Limit: throttle.Max}},
		"window":   {kind: limiter.FixedWindow, limit: hourly, rule: leasetest.Windows{Width: uint64(hourly.Interval), Parts: 1, Limit: hourly.Max}},
		"sliding":  {kind: limiter.SlidingWindow, limit: hourly, rule: leasetest.Sliding{Width: uint64(hourly.Interval), Limit: hourly.Max}},
		"bucket":   {kind: limiter.TokenBucket, limit: bucket, rule: leasetest.GCRA{Interval: uint64(period) / uint64(bucket.Max), Limit: bucket.Max + bucket.Amount}},
		"log":      {kind: limiter.WindowLog, limit: log, rule: leasetest.ChangedWindows{Kind: limiter.WindowLog}},
	}
}

func unixNow() uint64 { return uint64(time.Now().UnixNano()) }

// use draws a lease and charges units directly. Requests whose outcome is unknown admit nothing.
func (k *sharedKey) use(l *process, key string, id uint64) {
	for quantity := int64(1); quantity <= 3; quantity++ {
		k.charge(l, limiter.Request{Kind: k.kind, Key: []byte(key), Limit: k.limit, Quantity: quantity})
	}
	k.charge(l, limiter.Request{Kind: k.kind, Key: []byte(key), Limit: k.limit, Quantity: 20, Draw: &limiter.Draw{
		ID: id, User: "app", Lessee: "lessee", Hold: limiter.MaxHold,
	}})
}

// charge sends a request, and records the units that it admits. The units of a lease may be spent from the time at which
// its draw is sent until the lease ends at the lessee.
func (k *sharedKey) charge(l *process, req limiter.Request) {
	sent, out := unixNow(), make([]limiter.Decision, 1)
	token := l.Decide([]limiter.Request{req}, out)
	if out[0].Err != nil || l.WaitCommitted(token) != nil {
		return
	}
	k.history.Charge(sent, k.limit)
	switch d := req.Draw; {
	case d != nil && d.Granted > 0:
		k.history.Lease(sent, sent+uint64(d.Valid-d.Valid/500)-1, d.Granted)
		k.leased += d.Granted
	case d == nil && !out[0].Limited:
		k.history.Spend(sent, req.Quantity)
		k.direct += req.Quantity
	}
}

// useAll uses all keys every 20 ms for a time, on the leader.
func (s *sim) useAll(keys map[string]*sharedKey, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); pass(20 * time.Millisecond) {
		l := s.leader()
		for key, k := range keys {
			s.drawn++
			k.use(l, key, s.drawn)
		}
	}
}

// TestMajorityLossLeases loses the majority of a cluster with leases outstanding, for longer and for less than a lease, so
// that the leader or a follower is left, and restores it. All units that leases and direct requests admit, before and
// after, must obey the rule of the algorithm, no matter when the units of the leases are spent.
func TestMajorityLossLeases(t *testing.T) {
	for _, tt := range []struct {
		name   string
		down   time.Duration
		leader bool // the leader is left
	}{
		{"leader, short", downFor, true},
		{"leader, long", 8 * time.Second, true},
		{"follower, short", downFor, false},
		{"follower, long", 8 * time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			simulate(t, simConfig{size: 3}, func(t *testing.T, s *sim) {
				s.await("leases are permitted", time.Minute, func() bool { return s.leader().setting.leases() == buckets.LatestLeases })
				s.loseMajority(tt.leader, tt.down)
			})
		})
	}
}

// loseMajority uses keys with leases, crashes all nodes but the leader or a follower for a time, uses the keys again, and
// checks them.
func (s *sim) loseMajority(leader bool, down time.Duration) {
	s.t.Helper()
	keys := sharedKeys()
	s.useAll(keys, 2*time.Second)
	s.converge()
	left := s.leader()
	if !leader {
		left = s.followers(left)[0]
	}
	outstanding := map[string]int64{}
	for l := range left.Leases {
		outstanding[string(l.Key)] += l.Units
	}
	if len(outstanding) < len(keys) {
		s.t.Errorf("the outstanding units are %v when the majority is lost, want some of each of the %d keys", outstanding, len(keys))
	}
	for _, l := range s.followers(left) {
		l.crash(false)
		l.node.skew.Store(int64(time.Hour)) // must not be used, since the node that is left has measured the time
	}
	pass(down)
	bootAll(s)
	before := map[string]int64{}
	for key, k := range keys {
		before[key] = k.leased + k.direct
	}
	s.useAll(keys, 3*time.Second)
	for key, k := range keys {
		restores := key == "throttle" || key == "bucket" || key == "log" && down > limiter.MaxHold
		if k.leased == 0 || k.direct == 0 || restores && k.leased+k.direct == before[key] {
			s.t.Errorf("key %s: %d units are admitted by leases, %d directly, and %d before the loss: too few to prove anything", key, k.leased, k.direct, before[key])
		}
		k.check(s.t, key)
	}
}

// check checks the admitted units of a key for random times at which the units of its leases are spent.
func (k *sharedKey) check(t testing.TB, key string) {
	t.Helper()
	for seed := range uint64(10) {
		if err := k.history.Check(k.rule, rand.New(rand.NewPCG(seed, 0))); err != nil {
			t.Fatalf("key %s: %v", key, err)
		}
	}
}
