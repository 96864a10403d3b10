package leasetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Target is a table with one key, at a time that the simulation controls.
type Target interface {
	// Now returns the limiter time in nanoseconds.
	Now() uint64
	// Sleep advances the limiter time.
	Sleep(time.Duration)
	// Decide decides a request on the key.
	Decide(limiter.Request) limiter.Decision
	// Delete deletes the key.
	Delete()
	// Disturb does something that must not change any decision, such as a change of leader.
	Disturb(rng *rand.Rand)
}

// Subject is a kind of limit with its rule.
type Subject struct {
	Name  string
	Kind  limiter.Kind
	Limit func(now uint64) limiter.Limit
	Rule  func(r *Run) Rule

	Change func(rng *rand.Rand) // changes the limit; nil if the limit never changes
	Weight func() int64         // the weight of a unit in the rule under the present limit; nil: 1

	Relaxed   bool // leases are relaxed
	NoRefunds bool // no refunds and no deletions
	// ByTime makes the time until the limit is restored the measure of a refund. Rounded adds one unit to each refund, because used units are rounded up.
	ByTime, Rounded bool
}

// Run is one random history of a Subject on a Target.
type Run struct {
	History
	Subject *Subject
	Refills []uint64 // the times at which a token bucket was refilled
	Hold    uint64   // the longest validity that was granted
	Granted int64    // units granted by draws

	target Target
	rng    *rand.Rand
	open   []*holding
	ids    uint64
	peeked limiter.Decision
	at     uint64 // the time of peeked
}

// holding is a lease that a lessee holds.
type holding struct {
	*Lease
	id     uint64
	weight int64
}

// Simulate runs a random history, and returns an error if it violates the rule of the subject.
func Simulate(s *Subject, target Target, rng *rand.Rand) (*Run, error) {
	r := &Run{Subject: s, target: target, rng: rng}
	steps := 3 + rng.IntN(60)
	for range steps {
		r.sleep()
		if err := r.step(); err != nil {
			return r, err
		}
	}
	r.sleep()
	return r, r.Check(s.Rule(r), rng)
}

// sleep advances the time: often not at all, and sometimes to the end of a lease.
func (r *Run) sleep() {
	l := r.limit()
	lengths := []time.Duration{0, 0, 0, time.Millisecond, r.upTo(l.Interval), r.upTo(2 * l.Interval), r.upTo(100 * time.Millisecond), r.toEnd()}
	r.target.Sleep(lengths[r.rng.IntN(len(lengths))])
	r.peek()
}

// upTo returns a random time of at most d, in whole milliseconds.
func (r *Run) upTo(d time.Duration) time.Duration {
	return time.Duration(r.rng.Int64N(int64(d/time.Millisecond)+1)) * time.Millisecond
}

// toEnd returns the time until a random lease ends, or a nanosecond less.
func (r *Run) toEnd() time.Duration {
	if len(r.open) == 0 {
		return 0
	}
	h := r.open[r.rng.IntN(len(r.open))]
	if now := r.target.Now(); h.End > now {
		return time.Duration(h.End-now) + time.Duration(r.rng.IntN(2))
	}
	return 0
}

func (r *Run) limit() limiter.Limit { return r.Subject.Limit(r.target.Now()) }

// request returns a plain request.
func (r *Run) request(quantity int64) limiter.Request {
	return limiter.Request{Kind: r.Subject.Kind, Key: []byte("key"), Limit: r.limit(), Quantity: quantity}
}

// peek looks up the state, and records the refills since the last call.
func (r *Run) peek() limiter.Decision {
	if interval, now := uint64(r.limit().Interval), r.target.Now(); r.peeked.ResetAfter > 0 {
		full := r.at + uint64(r.peeked.ResetAfter)
		for t := full - (full-r.at-1)/interval*interval; t <= min(now, full); t += interval {
			r.Refills = append(r.Refills, t)
		}
	}
	r.peeked, r.at = r.target.Decide(r.request(0)), r.target.Now()
	return r.peeked
}

// step makes one random request.
func (r *Run) step() (err error) {
	op := r.rng.IntN(100)
	switch {
	case op < 30:
		r.charge()
	case op < 65:
		err = r.draw()
	case op < 85:
		err = r.giveBack()
	case op < 90:
		r.target.Disturb(r.rng)
		if r.Subject.Change != nil {
			r.Subject.Change(r.rng)
		}
	case r.Subject.NoRefunds:
	case op < 96:
		credit := []int64{1, 1 + r.rng.Int64N(r.limit().Max), 1 << 40}[r.rng.IntN(3)]
		r.refund(func() { r.target.Decide(r.request(-credit)) })
	default:
		r.refund(r.target.Delete)
	}
	r.peek()
	return err
}

// charge makes a plain request.
func (r *Run) charge() {
	n := []int64{1, 1, 1 + r.rng.Int64N(r.limit().Max)}[r.rng.IntN(3)]
	if d := r.target.Decide(r.request(n)); d.Err == nil && !d.Limited {
		r.Spend(r.target.Now(), n*r.weight())
	}
}

// weight returns the weight of a unit in the rule under the present limit.
func (r *Run) weight() int64 {
	if r.Subject.Weight == nil {
		return 1
	}
	return r.Subject.Weight()
}

// draw draws a lease.
func (r *Run) draw() error {
	r.ids++
	d := &limiter.Draw{ID: r.ids, User: "app", Lessee: string('a' + rune(r.rng.IntN(3)/2)), Relaxed: r.Subject.Relaxed}
	d.Hold = limiter.MinHold + r.upTo([]time.Duration{0, r.limit().Interval, limiter.MaxHold}[r.rng.IntN(3)])
	req := r.request([]int64{1, 1 + r.rng.Int64N(r.limit().Max)}[r.rng.IntN(2)])
	req.Draw = d
	r.target.Decide(req)
	if d.Granted == 0 {
		if d.Valid != 0 {
			return fmt.Errorf("a draw without units is valid for %v", d.Valid)
		}
		return nil
	}
	if d.Granted > req.Quantity || d.Valid < limiter.MinHold || d.Valid > max(d.Hold, limiter.MinHold) {
		return fmt.Errorf("a draw of %d units for %v is granted %d units for %v", req.Quantity, d.Hold, d.Granted, d.Valid)
	}
	now := r.target.Now()
	r.Hold, r.Granted = max(r.Hold, uint64(d.Valid)), r.Granted+d.Granted
	r.open = append(r.open, &holding{r.Lease(now, now+uint64(d.Valid)-1, d.Granted*r.weight()), r.ids, r.weight()})
	return nil
}

// giveBack returns units of a lease, which may have ended or may have none left.
func (r *Run) giveBack() error {
	if len(r.open) == 0 {
		return nil
	}
	h := r.open[r.rng.IntN(len(r.open))]
	held := h.Units / h.weight
	n := 1 + r.rng.Int64N(held+1)
	d := &limiter.Draw{ID: h.id, User: "app", Return: true}
	if r.rng.IntN(10) == 0 {
		d.User = "other"
	}
	r.target.Decide(limiter.Request{Key: []byte("key"), Quantity: n, Draw: d})
	if d.Granted > min(n, held) || d.Granted > 0 && d.User != "app" {
		return fmt.Errorf("%d of %d units of a lease of app are returned by %s, and %d are credited", n, held, d.User, d.Granted)
	}
	h.Units -= d.Granted * h.weight
	return nil
}

// refund records the units that a refund or a deletion restores.
func (r *Run) refund(do func()) {
	before := r.peek()
	do()
	after, interval := r.peek(), r.limit().Interval
	units := after.Remaining - before.Remaining
	if r.Subject.ByTime {
		units = int64((before.ResetAfter - after.ResetAfter + interval - 1) / interval)
	}
	if r.Subject.Rounded {
		units = max(units, 0) + 1
	}
	r.Refund(r.target.Now(), units)
}
