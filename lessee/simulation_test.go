package lessee_test

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/lease"
	"github.com/throttledhq/throttled/lessee"
	"github.com/throttledhq/throttled/limiter"
)

// world is a deterministic simulation of one authority and several lessees, which share one limit. Messages are delayed and
// lost, lessees are paused, and their clocks run at slightly different rates. Time is the number of nanoseconds since the
// start, by the clock of the authority.
type world struct {
	rng    *rand.Rand
	now    int64
	events events
	faults faults

	simulatedLimit
	kind    limiter.Kind // of the record
	state   limiter.State
	lessees []*member
	spent   []spending
}

// faults are deliberate errors, each of which must lead to an excess.
type faults struct {
	fromReceipt bool // the validity is counted from the receipt of the grant
	overdue     bool // leases are used for half as long again
	slowClock   bool // the clocks of lessees run at half the rate
	twice       bool // returned units are spent as well
}

// member is a lessee.
type member struct {
	ledger *lessee.Ledger
	rate   float64 // of its clock
	offset int64
	paused int64 // does nothing until this time
	burst  bool  // demands much more than the limit; otherwise less
	cut    bool  // its draws and returns are lost

	refused int64 // time of the last decision of the authority on its draws that it has received, if this refuses a unit
	oldest  int64 // age of the oldest such decision when the lessee refused a request itself
}

// spending is a number of units that were spent or, if negative, restored at a time.
type spending struct {
	at    int64
	units int64
}

func (w *world) clock(m *member) int64 { return m.offset + int64(float64(w.now)*m.rate) }

// event is a step of the simulation.
type event struct {
	at  int64
	run func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

func (w *world) after(d int64, run func()) { heap.Push(&w.events, event{w.now + d, run}) }

// start is the limiter time at the start of the simulation.
const start = uint64(1_000_000 * time.Second)

// newWorld returns a world with a random limit of a kind and random lessees.
func newWorld(seed uint64, kind limiter.Kind, f faults) *world {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{rng: rng, faults: f, simulatedLimit: newSimulatedLimit(kind, rng), kind: kind}
	for range 1 + rng.IntN(4) {
		drift := 1.0/1000 - 1.0/500*rng.Float64()
		if f.slowClock {
			drift = -0.5
		}
		name := string(rune('a' + len(w.lessees)))
		m := &member{ledger: lessee.New(lessee.Config{Lessee: name}), rate: 1 + drift, offset: rng.Int64N(int64(time.Hour)), refused: math.MinInt64 / 2}
		w.lessees = append(w.lessees, m)
		w.after(0, func() { w.request(m) })
		w.after(0, func() { w.send(m) })
	}
	w.after(0, w.disturb)
	w.after(0, w.demand)
	return w
}

// run runs the simulation for a time.
func (w *world) run(d time.Duration) {
	for len(w.events) > 0 && w.events[0].at < int64(d) {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.run()
	}
}

// delay returns the delay of a message, and false if it is lost.
func (w *world) delay() (int64, bool) {
	switch n := w.rng.IntN(100); {
	case n < 2:
		return 0, false
	case n < 6:
		return w.rng.Int64N(int64(400 * time.Millisecond)), true
	}
	return w.rng.Int64N(int64(5 * time.Millisecond)), true
}

// request is a request of an application to a lessee.
func (w *world) request(m *member) {
	pause := w.unit * 2
	if m.burst {
		pause /= 40
	}
	w.after(1+w.rng.Int64N(2*pause*int64(len(w.lessees))), func() { w.request(m) })
	if w.now < m.paused {
		return
	}
	req := w.plain(1 + w.rng.Int64N(2))
	var d limiter.Decision
	if m.ledger.Decide(&req, w.clock(m), &d) {
		if !d.Limited {
			w.spend(req.Quantity)
		} else {
			m.oldest = max(m.oldest, w.now-m.refused)
		}
		return
	}
	if delay, arrives := w.delay(); arrives {
		w.after(delay, func() {
			if d := w.authority(&req); !d.Limited {
				w.spend(req.Quantity)
			}
		})
	}
}

// plain returns a request without a draw.
func (w *world) plain(quantity int64) limiter.Request {
	return limiter.Request{Kind: w.base, Key: []byte("k"), Limit: w.limit, Quantity: quantity}
}

func (w *world) spend(units int64) { w.spent = append(w.spent, spending{w.now, units}) }

// authority decides a request at the present time.
func (w *world) authority(req *limiter.Request) (d limiter.Decision) {
	now := start + uint64(w.now)
	if w.state.Expires <= now {
		w.state, w.kind = limiter.State{}, w.base
	}
	w.countRefills(now)
	c, kind, d := w.decided(req, now)
	w.apply(c, kind)
	w.countRefills(now)
	return d
}

// decided returns the decision on a request, and the change of the record.
func (w *world) decided(req *limiter.Request, now uint64) (c limiter.Change, kind limiter.Kind, d limiter.Decision) {
	kind = w.kind
	switch {
	case req.Draw != nil && req.Draw.Return:
		if kind.Leased() {
			c, kind = lease.Return(w.decide, req, kind, w.state, now)
		}
	case req.Draw != nil:
		c, kind, d = lease.Draw(w.decide, req, kind, w.state, now)
	case kind.Leased():
		c, kind, d = lease.Plain(w.decide, req, w.state, now, false, nil, new(lease.Buffer))
	default:
		c, d = w.decide(&req.Limit, w.state, now, req.Quantity, nil)
	}
	return c, kind, d
}

func (w *world) apply(c limiter.Change, kind limiter.Kind) {
	if c.Set {
		w.state, w.kind = limiter.State{Expires: c.Expires, Data: append(w.state.Data[:c.Keep:c.Keep], c.Tail...)}, kind
	}
}

// send sends the calls of a lessee.
func (w *world) send(m *member) {
	w.after(int64(2*time.Millisecond), func() { w.send(m) })
	if w.now < m.paused {
		return
	}
	for c, ok := m.ledger.Next(w.clock(m)); ok; c, ok = m.ledger.Next(w.clock(m)) {
		w.call(m, c)
	}
}

// call delivers a call and its answer. If either message is lost, the ledger receives an error after a timeout.
func (w *world) call(m *member, c lessee.Call) {
	c.Request.Draw.ID = max(c.Request.Draw.ID, w.rng.Uint64())
	if c.Request.Draw.Return && w.faults.twice {
		w.spend(c.Request.Quantity)
	}
	there, arrives := w.delay()
	back, returns := w.delay()
	var d limiter.Decision
	decided := w.now + there
	if arrives && !m.cut {
		w.after(there, func() { d = w.authority(&c.Request) })
	}
	if c.Request.Draw.Return {
		return
	}
	if !arrives || !returns || m.cut {
		there, back, d = int64(500*time.Millisecond), int64(time.Millisecond), limiter.Decision{Err: limiter.ErrNotLeading}
		w.after(there+back, func() { m.ledger.Drawn(&c, w.clock(m), &limiter.Decision{Err: limiter.ErrUncertain}) })
		return
	}
	w.after(there+back, func() { w.answer(m, &c, &d, decided) })
}

// answer passes the answer to a draw, which the authority decided at a time, to its lessee, after its pause.
func (w *world) answer(m *member, c *lessee.Call, d *limiter.Decision, decided int64) {
	if w.now < m.paused {
		w.after(m.paused-w.now, func() { w.answer(m, c, d, decided) })
		return
	}
	m.refused = math.MinInt64 / 2
	if d.Limited {
		m.refused = decided
	}
	if w.faults.fromReceipt {
		c.Sent = w.clock(m)
	}
	if w.faults.overdue {
		c.Request.Draw.Valid += c.Request.Draw.Valid / 2
	}
	m.ledger.Drawn(c, w.clock(m), d)
}

// demand changes the demand of all lessees: first it is below the limit, so that they draw leases; then they are paused,
// until the full limit is restored; and then they request as much as they can.
func (w *world) demand() {
	full := w.unit * w.limit.Max
	cut := w.rng.IntN(2) == 0
	calm, pause, burst := w.rng.Int64N(full/2), w.rng.Int64N(full/4), full/10
	for _, m := range w.lessees {
		m.burst, m.cut = false, false
	}
	w.after(calm, func() {
		for _, m := range w.lessees {
			m.paused, m.burst = w.now+pause, true
			m.cut = cut // new leases would be charged in advance, and leave less to exceed the limit with
		}
	})
	w.after(calm+pause+burst, w.demand)
}

// disturb deletes the key, refunds units, or pauses a lessee.
func (w *world) disturb() {
	w.after(w.rng.Int64N(int64(2*time.Second)), w.disturb)
	switch w.rng.IntN(3) {
	case 0:
		w.lessees[w.rng.IntN(len(w.lessees))].paused = w.now + w.rng.Int64N(int64(1500*time.Millisecond))
	case 1:
		w.restore(func() {
			refund := w.plain(-1 - w.rng.Int64N(50))
			w.authority(&refund)
		})
	case 2:
		if w.rng.IntN(4) == 0 {
			w.restore(w.del)
		}
	}
}

func (w *world) del() {
	if !w.kind.Leased() {
		w.state = limiter.State{}
		return
	}
	c, kind := lease.Reset(w.decide, w.kind, w.state, start+uint64(w.now))
	if !c.Set {
		w.state, w.kind = limiter.State{}, w.base
		return
	}
	w.apply(c, kind)
}

// restore runs a change that restores units, and records how many.
func (w *world) restore(change func()) {
	before := w.used()
	change()
	if restored := before - w.used(); restored > 0 {
		w.spend(-w.units(restored))
	}
}

// histories runs n simulations of a kind with random seeds, and reports whether one has an excess. With faults, it stops there.
func histories(t *testing.T, n int, kind limiter.Kind, f faults) (failed bool, local, admitted int64) {
	t.Helper()
	for seed := range uint64(n) {
		w := newWorld(seed, kind, f)
		w.run(4 * time.Second)
		for _, m := range w.lessees {
			local += m.ledger.Counts().Admitted.Load()
		}
		for _, s := range w.spent {
			admitted += max(0, s.units)
		}
		if err := w.excess(); err != nil {
			failed = true
			if f != (faults{}) {
				break
			}
			t.Errorf("seed %d: the limit %+v is exceeded: %v", seed, w.limit, err)
		}
	}
	return failed, local, admitted
}

// TestHistories checks that units spent by several lessees and by direct requests never exceed the limit in any interval.
func TestHistories(t *testing.T) {
	t.Parallel()
	for _, kind := range simulated {
		t.Run(kind.String()+"-"+kind.Encoding(), func(t *testing.T) {
			t.Parallel()
			_, local, admitted := histories(t, 300/len(simulated)/race.Factor, kind, faults{})
			if local < admitted/20 {
				t.Errorf("%d local admissions, and %d units in total: too few to prove anything", local, admitted)
			}
		})
	}
}

// TestFaults checks that deliberate errors of a lessee lead to an excess that the simulation finds.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]faults{
		"validity from the receipt": {fromReceipt: true},
		"use after the end":         {overdue: true},
		"a slow clock":              {slowClock: true},
		"spend and return":          {twice: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, kind := range simulated {
				if failed, _, _ := histories(t, 200, kind, f); !failed {
					t.Errorf("no history of %v-%v exceeds the limit", kind, kind.Encoding())
				}
			}
		})
	}
}

// TestRefusalsAreRecent checks that a lessee refuses a request itself only if the authority has refused a unit within the wanted
// validity of a lease, here the default of a second, and that an answer that admits a unit ends its refusals.
func TestRefusalsAreRecent(t *testing.T) {
	t.Parallel()
	const hold, drift = time.Second, time.Second / 500
	refused, oldest := int64(0), int64(0)
	for seed := range uint64(100 / race.Factor) {
		w := newWorld(seed, simulated[seed%uint64(len(simulated))], faults{})
		w.run(4 * time.Second)
		for _, m := range w.lessees {
			refused, oldest = refused+m.ledger.Counts().Refused.Load(), max(oldest, m.oldest)
			if m.oldest > int64(hold+drift) {
				t.Errorf("seed %d: a request is refused %v after the refusal of the authority", seed, time.Duration(m.oldest))
			}
		}
	}
	if oldest < int64(hold/2) {
		t.Errorf("%d local refusals, the last %v after that of the authority: too few to prove anything", refused, time.Duration(oldest))
	}
}
