package lease

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/lease/leasetest"
	"github.com/throttledhq/throttled/limiter"
)

// twins is a key with leases, and the same key without leases, which is charged with the units of a lease when they are spent.
type twins struct {
	rng           *rand.Rand
	limit         func(now uint64) limiter.Limit
	leased, plain key
	hand          []hand // units that are drawn, and neither spent nor returned
	ids           uint64
	longest       time.Duration // validity of the longest lease
	refused       bool          // the plain key has refused units that were spent
	checks, late  int           // comparisons, and those in which the leased key does not admit the units at once
}

type hand struct {
	id, end uint64
	units   int64
}

func newTwins(s *leasetest.Subject, rng *rand.Rand) *twins {
	k := key{now: uint64(time.Hour) + rng.Uint64N(1<<40), base: s.Kind}
	limit := func(now uint64) limiter.Limit {
		l := s.Limit(now)
		if s.Kind == limiter.WindowLog {
			l.Amount = 1000 // leases and direct charges share entries in other ways, so a full log is not comparable
		}
		return l
	}
	return &twins{rng: rng, limit: limit, leased: k, plain: k}
}

// charge charges a key, and reports whether it admits the units.
func (w *twins) charge(k *key, units int64) bool {
	return !k.Decide(limiter.Request{Kind: k.base, Key: []byte("k"), Limit: w.limit(k.now), Quantity: units}).Limited
}

func (w *twins) draw() {
	w.ids++
	d := &limiter.Draw{ID: w.ids, User: "app", Lessee: string('a' + rune(w.rng.IntN(3))), Hold: time.Duration(between(w.rng, 20, 400)) * ms}
	w.leased.Decide(limiter.Request{Kind: w.leased.base, Key: []byte("k"), Limit: w.limit(w.leased.now), Quantity: between(w.rng, 1, 20), Draw: d})
	if d.Granted > 0 {
		w.hand = append(w.hand, hand{d.ID, w.leased.now + uint64(d.Valid), d.Granted})
		w.longest = max(w.longest, d.Valid)
	}
}

// spend charges units that are admitted to the plain key.
func (w *twins) spend(units int64) {
	if !w.charge(&w.plain, units) {
		w.refused = true
	}
}

// returnTo returns units of a lease to a key.
func returnTo(k *key, h *hand, units int64) {
	d := &limiter.Draw{ID: h.id, User: "app", Return: true}
	k.Decide(limiter.Request{Kind: k.base, Key: []byte("k"), Quantity: units, Draw: d})
}

// use spends or returns units of a lease.
func (w *twins) use(h *hand, units int64) {
	if w.rng.IntN(2) == 0 {
		w.spend(units)
	} else {
		returnTo(&w.leased, h, units)
	}
	h.units -= units
}

// sleep advances the time. The units of leases that end meanwhile are used before.
func (w *twins) sleep(d time.Duration) {
	to := w.leased.now + uint64(d)
	slices.SortFunc(w.hand, func(a, b hand) int { return cmp.Compare(a.end, b.end) })
	for len(w.hand) > 0 && w.hand[0].end <= to {
		h := &w.hand[0]
		w.set(w.leased.now + w.rng.Uint64N(h.end-w.leased.now))
		w.use(h, h.units)
		w.hand = w.hand[1:]
	}
	w.set(to)
}

func (w *twins) set(now uint64) { w.leased.now, w.plain.now = now, now }

func (w *twins) step() {
	switch w.rng.IntN(6) {
	case 0:
		w.draw()
	case 1:
		if units := between(w.rng, 1, 8); w.charge(&w.leased, units) {
			w.spend(units)
		}
	case 2:
		if n := len(w.hand); n > 0 {
			i := w.rng.IntN(n)
			w.use(&w.hand[i], between(w.rng, 1, w.hand[i].units))
			w.hand = slices.DeleteFunc(w.hand, func(h hand) bool { return h.units == 0 })
		}
	default:
		w.sleep(time.Duration(w.rng.Int64N(int64(40*ms))) << w.rng.IntN(3))
	}
}

// bound returns the longest time after which the leased key, without units in hand, admits the units that the plain key admits.
func (w *twins) bound() time.Duration {
	switch familyOf(w.leased.base) {
	case timed, logged:
		return w.longest
	}
	if isBucket(w.leased.base) {
		return w.limit(w.leased.now).Interval
	}
	return 0
}

// check returns false if the leased key does not admit the units that the plain key admits, after the bound and the return of all
// units in hand.
func (w *twins) check() bool {
	rest := w.plain.Decide(limiter.Request{Kind: w.plain.base, Key: []byte("k"), Limit: w.limit(w.plain.now)}).Remaining
	if rest == 0 {
		return true
	}
	w.checks++
	early, late, bound := w.returned(false), w.returned(true), w.bound()
	if w.charge(&early, rest) {
		early = w.returned(false)
	} else {
		w.late++
	}
	early.now = w.leased.now + uint64(bound)
	late.now = early.now
	return w.charge(&early, rest) && (bound == 0 || w.charge(&late, rest))
}

// returned returns the leased key after the return of all units in hand: at once in a random order, or late, at random times
// before the leases end.
func (w *twins) returned(late bool) key {
	k, all := w.leased, slices.Clone(w.hand)
	if late {
		slices.SortFunc(all, func(a, b hand) int { return cmp.Compare(a.end, b.end) })
	} else {
		w.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	for i := range all {
		if late {
			k.now += w.rng.Uint64N(all[i].end - k.now)
		}
		returnTo(&k, &all[i], all[i].units)
	}
	return k
}

func between(rng *rand.Rand, low, high int64) int64 { return low + rng.Int64N(high-low+1) }

// TestDelay checks that leases delay an admission by at most the bound of docs/leases.md: random histories are compared with
// the same admissions by the algorithm without leases.
func TestDelay(t *testing.T) {
	for i, s := range leasetest.Subjects(rand.New(rand.NewPCG(0, 0))) {
		if s.Relaxed || s.Change != nil {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			checks, late := 0, 0
			const seeds = 60 / race.Factor
			for seed := range uint64(seeds) {
				w := compare(t, i, seed)
				checks, late = checks+w.checks, late+w.late
			}
			delayed := familyOf(s.Kind) != counted || isBucket(s.Kind)
			if checks < 20*seeds || late > 0 && !delayed || late == 0 && delayed && race.Factor == 1 {
				t.Errorf("%d comparisons, %d of them with a delay", checks, late)
			}
		})
	}
}

// compare runs a random history of one of the subjects.
func compare(t *testing.T, subject int, seed uint64) *twins {
	rng := rand.New(rand.NewPCG(seed, 2))
	w := newTwins(leasetest.Subjects(rng)[subject], rng)
	for range 150 {
		if w.step(); w.refused {
			break
		}
		if !w.check() {
			t.Fatalf("seed %d, limit %+v: not admitted %v after the key without leases", seed, w.limit(w.plain.now), w.bound())
		}
	}
	if w.refused && !isBucket(w.leased.base) {
		t.Fatalf("seed %d: the key without leases refuses units that leases admit", seed)
	}
	return w
}

// TestDelayOfBucket checks that the delay of a bucket can exceed the length of the leases: the first charge of a full bucket
// starts the interval, and the refill of the other one comes too late for a full bucket.
func TestDelayOfBucket(t *testing.T) {
	limit := func(uint64) limiter.Limit { return limiter.Limit{Max: 10, Interval: time.Second, Amount: 10} }
	k := key{now: uint64(time.Hour), base: limiter.TokenBucket}
	w := &twins{rng: rand.New(rand.NewPCG(0, 0)), limit: limit, leased: k, plain: k}
	start := k.now
	d := &limiter.Draw{ID: 1, User: "app", Lessee: "a", Hold: 100 * ms}
	w.leased.Decide(limiter.Request{Kind: k.base, Key: []byte("k"), Limit: limit(0), Quantity: 1, Draw: d})
	w.set(start + uint64(99*ms))
	w.spend(1)
	w.set(start + uint64(1050*ms))
	if !w.charge(&w.leased, 9) || !w.charge(&w.plain, 9) {
		t.Fatal("9 units are refused")
	}
	w.set(start + uint64(1099*ms))
	if leased, plain := w.charge(&w.leased, 10), w.charge(&w.plain, 10); leased || !plain {
		t.Fatalf("10 units are admitted: %t with leases, %t without", leased, plain)
	}
	w.leased.now = start + uint64(2050*ms)
	if !w.charge(&w.leased, 10) {
		t.Fatal("10 units are refused an interval after the last charge of a full bucket")
	}
}
