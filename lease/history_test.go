package lease

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/lease/leasetest"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

var algorithms = map[limiter.Kind]Algorithm{
	limiter.Throttle:       gcra.DecideState,
	limiter.ScaledThrottle: gcra.DecideScaled,
	limiter.SlidingWindow:  window.Slide,
	limiter.FixedWindow:    window.Count,
	limiter.WindowBuckets:  window.Count,
	limiter.WindowLog:      windowlog.Decide,
	limiter.Calendar:       window.Calendar,
	limiter.TokenBucket:    tokenbucket.Decide,
	limiter.ScaledBucket:   tokenbucket.DecideScaled,
}

// key is a table with one key, without a table: it passes its state to the functions of this package.
type key struct {
	now   uint64
	base  limiter.Kind
	kind  limiter.Kind // of the record; 0 if the key is absent
	state limiter.State
	buf   Buffer
}

func (k *key) Now() uint64           { return k.now }
func (k *key) Sleep(d time.Duration) { k.now += uint64(d) }
func (k *key) Disturb(*rand.Rand)    {}

// current returns the kind and the state at the present time.
func (k *key) current() (limiter.Kind, limiter.State) {
	if k.state.Expires <= k.now {
		return k.base, limiter.State{}
	}
	return k.kind, k.state
}

func (k *key) store(c limiter.Change, kind limiter.Kind) {
	if !c.Set {
		return
	}
	data := append([]byte(nil), k.state.Data[:c.Keep]...)
	k.kind, k.state = kind, limiter.State{Expires: c.Expires, Data: append(data, c.Tail...)}
}

func (k *key) Decide(req limiter.Request) (d limiter.Decision) {
	decide := algorithms[k.base]
	kind, old := k.current()
	var c limiter.Change
	switch {
	case req.Draw != nil && req.Draw.Return:
		if !kind.Leased() {
			return d
		}
		c, kind = Return(decide, &req, kind, old, k.now)
	case req.Draw != nil:
		c, kind, d = Draw(decide, &req, kind, old, k.now)
	case kind.Leased():
		c, kind, d = Plain(decide, &req, old, k.now, false, make([]byte, 0, 4096), &k.buf)
	default:
		c, d = decide(&req.Limit, old, k.now, req.Quantity, nil)
	}
	k.store(c, kind)
	return d
}

func (k *key) Delete() {
	kind, old := k.current()
	if kind.Leased() {
		c, kind := Reset(algorithms[k.base], kind, old, k.now)
		if c.Set {
			k.store(c, kind)
			return
		}
	}
	k.state = limiter.State{}
}

// simulate runs a random history of the subject with an index.
func simulate(i int, seed uint64) (*leasetest.Run, error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := leasetest.Subjects(rng)[i]
	return leasetest.Simulate(s, &key{now: uint64(time.Hour) + rng.Uint64N(1<<40), base: s.Kind}, rng)
}

// TestHistories checks random histories of each kind against the rule of its algorithm: no interval admits more,
// no matter when the units of the leases are spent. In some histories, the limit changes.
func TestHistories(t *testing.T) {
	for i, s := range leasetest.Subjects(rand.New(rand.NewPCG(0, 0))) {
		var granted int64
		for seed := range uint64(500 / race.Factor) {
			r, err := simulate(i, seed)
			if err != nil {
				t.Fatalf("%s, seed %d, limit %+v: %v", s.Name, seed, r.Subject.Limit(0), err)
			}
			granted += r.Granted
		}
		if granted == 0 {
			t.Errorf("%s: no lease was granted", s.Name)
		}
	}
}

// TestRelaxedBound checks that relaxed leases need the time by which their rule is weaker: with half of it, a history
// violates the rule.
func TestRelaxedBound(t *testing.T) {
	for i, s := range leasetest.Subjects(rand.New(rand.NewPCG(0, 0))) {
		if !s.Relaxed {
			continue
		}
		var err error
		for seed := uint64(0); err == nil && seed < 1000; seed++ {
			r, _ := simulate(i, seed)
			r.Slack /= 2
			err = r.Check(r.Subject.Rule(r), rand.New(rand.NewPCG(seed, 0)))
		}
		if err == nil {
			t.Errorf("%s: no history admits more units than half of the longest lease permits", s.Name)
		}
	}
}
