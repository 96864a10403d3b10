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

	// Change changes the limit. It is nil if the limit never changes.
	Change func(rng *rand.Rand)
	Weight func() int64 // the weight of a unit in the rule under the present limit; nil: 1

	Relaxed bool // most leases are relaxed
	// ByTime makes the time until the limit is restored the measure of a refund. Rounded adds one unit to each refund, because
	// used units are rounded up.
	ByTime, Rounded bool
}

// Run is one random history of a Subject on a Target.
type Run struct {
	History
	Subject *Subject
	Slack   uint64 // the longest validity of a relaxed lease; 0 if there is none
	Granted int64  // units granted by draws

	target  Target
	rng     *rand.Rand
	open    []*holding
	ids     uint64
	inForce limiter.Limit // the limit of the last change of the state
	peeked  limiter.Decision
	at      uint64 // the time of peeked
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
	r.charged(0)
	steps := 3 + rng.IntN(60)
	for range steps {
		if s.Change != nil && rng.IntN(4) == 0 {
			s.Change(rng)
		}
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

// maxUnits is a limit that is never reached.
const maxUnits = 1 << 30

// peek looks up the state by the limit in force, and records the refills of a bucket since the last call.
func (r *Run) peek() {
	if isBucket(r.Subject.Kind) && r.peeked.ResetAfter > 0 {
		interval, now, full := uint64(r.inForce.Interval), r.target.Now(), r.at+uint64(r.peeked.ResetAfter)
		for t := full - (full-r.at-1)/interval*interval; t <= min(now, full); t += interval {
			r.Refill(t, r.inForce.Amount)
		}
	}
	r.peeked, r.at = r.peekBy(r.inForce), r.target.Now()
}

func isBucket(kind limiter.Kind) bool {
	return kind == limiter.TokenBucket || kind == limiter.ScaledBucket
}

// peekBy looks up the state by a limit.
func (r *Run) peekBy(l limiter.Limit) limiter.Decision {
	return r.target.Decide(limiter.Request{Kind: r.Subject.Kind, Key: []byte("key"), Limit: l})
}

// used returns the used units by a limit, or for a subject that is measured by time the time until they are restored.
func (r *Run) used(l limiter.Limit) int64 {
	switch {
	case r.Subject.ByTime:
		return int64(r.peekBy(l).ResetAfter)
	case r.Subject.Kind == limiter.SlidingWindow && r.Subject.Change != nil:
		l.Interval = 1 << 61 // counts all units of the previous window
	case r.Subject.Kind == limiter.WindowLog:
		l.Amount = 1 << 16 // a full log has no remaining units
	}
	l.Max = maxUnits
	return l.Max - r.peekBy(l).Remaining
}

// freed returns the units that a request restores only because it changes the limit of a bucket.
func (r *Run) freed() int64 {
	if isBucket(r.Subject.Kind) && r.Subject.Change != nil {
		return r.used(r.inForce) - r.used(r.limit())
	}
	return 0
}

// charged records that a request has changed the state and freed units. From then on, its limit is in force.
func (r *Run) charged(freed int64) {
	r.Refund(r.target.Now(), freed)
	r.inForce = r.limit()
	r.Charge(r.target.Now(), r.inForce)
	r.peeked = limiter.Decision{}
	r.peek()
}

// refused records that a request was refused. If it has changed the state to a higher rate, its limit is in force.
func (r *Run) refused(freed int64) {
	if r.Subject.Change == nil {
		return
	}
	switch before := r.peeked.ResetAfter; {
	case r.Subject.Kind == limiter.ScaledThrottle && r.limit().Interval < r.inForce.Interval,
		r.Subject.Kind == limiter.ScaledBucket && before != r.peekBy(r.inForce).ResetAfter:
		r.charged(freed)
	}
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
	case op < 96:
		credit := []int64{1, 1 + r.rng.Int64N(r.limit().Max), 1 << 40}[r.rng.IntN(3)]
		r.refundPlainly(-credit)
	default:
		r.refund(r.inForce, r.target.Delete)
		r.peeked = limiter.Decision{}
	}
	r.peek()
	return err
}

// charge makes a plain request.
func (r *Run) charge() {
	n := []int64{1, max(1, r.peekBy(r.limit()).Remaining), 1 + r.rng.Int64N(r.limit().Max)}[r.rng.IntN(3)]
	freed := r.freed()
	if d := r.target.Decide(r.request(n)); d.Err == nil && !d.Limited {
		r.charged(freed)
		r.Spend(r.target.Now(), n*r.weight())
		return
	}
	r.refused(freed)
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
	d := &limiter.Draw{ID: r.ids, User: "app", Lessee: string('a' + rune(r.rng.IntN(3)/2))}
	d.Relaxed = r.Subject.Relaxed && r.rng.IntN(8) > 0
	d.Hold = limiter.MinHold + r.upTo([]time.Duration{0, r.limit().Interval, limiter.MaxHold}[r.rng.IntN(3)])
	req := r.request([]int64{1, 1 + r.rng.Int64N(r.limit().Max)}[r.rng.IntN(2)])
	req.Draw = d
	freed := r.freed()
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
	r.charged(freed)
	now := r.target.Now()
	if r.Granted += d.Granted; d.Relaxed {
		r.Slack = max(r.Slack, uint64(d.Valid))
	}
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
	n := []int64{max(1, held), 1 + r.rng.Int64N(held+1)}[r.rng.IntN(2)]
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

// refundPlainly makes a plain request that refunds units. If there are none, it may still remove units from the state that its
// limit does not count.
func (r *Run) refundPlainly(quantity int64) {
	l, freed := r.limit(), r.freed()
	refunded := r.refund(l, func() { r.target.Decide(r.request(quantity)) })
	switch {
	case r.Subject.Kind == limiter.Calendar: // whose refunds keep the end of the window
	case refunded, r.Subject.Kind == limiter.ScaledThrottle: // which always stores the rate
		r.charged(freed)
	default:
		r.Charge(r.target.Now(), l)
		r.Charge(r.target.Now(), r.inForce)
	}
}

// refund records the units that a refund or a deletion restores, by a limit, and reports whether there are any.
func (r *Run) refund(l limiter.Limit, do func()) bool {
	before := r.used(l)
	do()
	units := before - r.used(l)
	if r.Subject.ByTime && r.Subject.Weight == nil {
		units = int64((time.Duration(units) + l.Interval - 1) / l.Interval)
	}
	refunded := units > 0
	if r.Subject.Rounded {
		units = max(units, 0) + 1
	}
	r.Refund(r.target.Now(), units)
	return refunded
}
