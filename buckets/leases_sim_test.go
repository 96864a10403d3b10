package buckets

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/lease/leasetest"
	"github.com/throttledhq/throttled/limiter"
)

// replicas is a leasetest.Target: a leader and a follower, which change their roles.
type replicas struct {
	tb     testing.TB
	rng    *rand.Rand
	clock  *fakeClock
	tables [2]*Table // the first one leads
	epoch  uint64
	other  int // counts other keys
}

func newReplicas(tb testing.TB, rng *rand.Rand) *replicas {
	tb.Helper()
	r := &replicas{tb: tb, rng: rng, clock: newFakeClock()}
	for i := range r.tables {
		r.tables[i] = New(Config{Clock: r.clock.read, Replicated: true, Shards: 2, Eviction: EvictSmallestDebt})
	}
	r.lead()
	return r
}

func (r *replicas) lead() {
	r.epoch++
	r.tables[0].Lead(r.epoch)
}

// commit replicates the changes of the leader.
func (r *replicas) commit() {
	if changes := commitAll(r.tb, r.tables[0]); len(changes) > 0 {
		if err := r.tables[1].Replay(changes, r.clock.read()); err != nil {
			r.tb.Fatal(err)
		}
	}
}

func (r *replicas) Now() uint64           { return r.clock.read() }
func (r *replicas) Sleep(d time.Duration) { r.clock.advance(d) }

// Decide decides a request, sometimes in a group with another key.
func (r *replicas) Decide(req limiter.Request) limiter.Decision {
	defer r.commit()
	reqs := []limiter.Request{req}
	if req.Draw == nil && r.rng.IntN(2) == 0 {
		r.other++
		reqs[0].Linked = true
		reqs = append(reqs, limiter.Request{Kind: limiter.Throttle, Key: fmt.Append(nil, "other", r.other), Limit: slow, Quantity: 1})
	}
	out := make([]limiter.Decision, len(reqs))
	r.tables[0].Decide(reqs, out)
	if out[0].Err != nil {
		r.tb.Fatal(out[0].Err)
	}
	return out[0]
}

// Delete deletes the key, or all keys.
func (r *replicas) Delete() {
	if r.rng.IntN(3) == 0 {
		mustClear(r.tables[0])
	} else {
		mustDelete(r.tables[0], []byte("key"))
	}
	r.commit()
}

// Disturb changes the leader, rolls back uncommitted changes, copies the follower from a snapshot, or evicts keys.
func (r *replicas) Disturb(rng *rand.Rand) {
	switch rng.IntN(4) {
	case 0:
		r.tables[0].Follow()
		r.tables[0], r.tables[1] = r.tables[1], r.tables[0]
		r.lead()
	case 1:
		r.rollBack(rng)
	case 2:
		r.copySnapshot()
	case 3:
		r.evict()
	}
	for _, t := range r.tables {
		checkTable(r.tb, t)
		checkUndoLogs(r.tb, t)
	}
}

// rollBack makes uncommitted changes of the key, and then loses the leadership.
func (r *replicas) rollBack(rng *rand.Rand) {
	t := r.tables[0]
	r.commit()
	before := contentOf(t)
	if rng.IntN(2) == 0 {
		mustClear(t)
	}
	var units int64
	for l := range t.Leases {
		units = l.Units
		t.Decide([]limiter.Request{{Key: []byte("key"), Quantity: 1 + rng.Int64N(l.Units), Draw: &limiter.Draw{ID: l.ID, User: l.User, Return: true}}}, make([]limiter.Decision, 1))
		break
	}
	if rng.IntN(2) == 0 {
		t.Collect(nil)
	}
	mustDelete(t, []byte("key"))
	t.Follow()
	sameContent(r.tb, fmt.Sprintf("after the rollback of a return of a lease of %d units", units), contentOf(t), before)
	r.lead()
}

// copySnapshot replaces the follower by a copy of the committed state of the leader.
func (r *replicas) copySnapshot() {
	r.tables[1].Reset()
	for rec := range r.tables[0].CommittedRecords() {
		if err := r.tables[1].Restore(rec, r.clock.read()); err != nil {
			r.tb.Fatal(err)
		}
	}
	sameContent(r.tb, "after a copy of a snapshot", contentOf(r.tables[1]).after(r.clock.read()), contentOf(r.tables[0]).after(r.clock.read()))
}

// evict fills the memory with keys that have used more of their limit. A key with leases must not be evicted.
func (r *replicas) evict() {
	t := r.tables[0]
	if t.LeaseUsage().Leases == 0 {
		return
	}
	t.SetMaxMemory(8 << 10)
	r.other++
	flood(r.tb, t, fmt.Sprint("flood", r.other), 300, limiter.Limit{Max: 1, Interval: time.Hour})
	t.SetMaxMemory(0)
	r.commit()
}

// TestLeaseHistories checks random histories of each kind on a leader and a follower that change their roles, with
// rollbacks, snapshots and eviction: no interval admits more than the algorithm.
func TestLeaseHistories(t *testing.T) {
	for i := range leasetest.Subjects(rand.New(rand.NewPCG(0, 0))) {
		for seed := range uint64(240 / race.Factor) {
			rng := rand.New(rand.NewPCG(seed, 2))
			s := leasetest.Subjects(rng)[i]
			if _, err := leasetest.Simulate(s, newReplicas(t, rng), rng); err != nil {
				t.Fatalf("%s, seed %d, limit %+v: %v", s.Name, seed, s.Limit(start), err)
			}
		}
	}
}
