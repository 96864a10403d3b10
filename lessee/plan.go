package lessee

import (
	"container/heap"
	"errors"
	"sync"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// lead is the time before the end of a lease at which the next one is drawn, and unused units are returned: several round
// trips to an authority in the same region. Both times are shorter for short leases.
const lead = 20 * time.Millisecond

// drawsPerLease limits the draws from an exhausted limit within the validity of a lease. The units that are restored between
// two draws are granted together: a lease of each of them would exceed the leases that a key can have.
const drawsPerLease = 8

// ErrNotAccepted is wrapped by the Err of a decision if the authority will not accept a draw of the limit when it is
// repeated: for example, an older authority does not support the kind of the limit, or the user has no permission.
var ErrNotAccepted = errors.New("the authority does not accept the draw")

// notAcceptedPause is the time until the next draw after ErrNotAccepted. The authority counts and may record each of them.
const notAcceptedPause = 30 * time.Second

// Call is a call to the authority: a draw, or a return. Its Request has a Draw, and its own memory.
type Call struct {
	Request limiter.Request
	Sent    int64 // the time from which the validity of the lease is counted
	account *account
}

// plan holds the accounts for which a draw is planned, the returns to send, and the next time at which each account is examined.
// It is locked after the lock of a shard.
type plan struct {
	mu      sync.Mutex
	draws   []*account
	returns []Call
	timers  timers
	wake    chan struct{} // holds a token if there is something to send
	closed  bool          // no draws are planned
}

func (p *plan) init() { p.wake = make(chan struct{}, 1) }

// draw plans a draw.
func (p *plan) draw(a *account) {
	a.drawing = true
	p.mu.Lock()
	if !p.closed {
		p.draws = append(p.draws, a)
	}
	p.mu.Unlock()
	p.signal()
}

// close cancels the planned draws, whose units could not be returned, and prevents further ones.
func (p *plan) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.draws = true, nil
}

func (p *plan) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// schedule sets the next time at which an account is examined.
func (p *plan) schedule(a *account, at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.due.at = at
	if a.due.index < 0 {
		a.due.account = a
		heap.Push(&p.timers, &a.due)
		if len(p.timers) == 1 {
			p.signal()
		}
		return
	}
	heap.Fix(&p.timers, a.due.index)
}

// due removes and returns an account that is due at time now, or returns nil.
func (p *plan) due(now int64) *account {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.timers) == 0 || p.timers[0].at > now {
		return nil
	}
	return heap.Pop(&p.timers).(*timer).account
}

// Wake returns a channel that receives a value when Next has a call to send.
func (l *Ledger) Wake() <-chan struct{} { return l.plan.wake }

// Tracks reports whether the ledger tracks any keys. If not, Next returns no calls before the next token in Wake.
func (l *Ledger) Tracks() bool {
	l.plan.mu.Lock()
	defer l.plan.mu.Unlock()
	return len(l.plan.timers)+len(l.plan.draws)+len(l.plan.returns) > 0
}

// Next returns the next call to send to the authority. It returns false if there is none at present: the caller then waits
// for Wake, or for a few milliseconds, since time also causes calls. The caller must pass the answer to a draw to Drawn.
func (l *Ledger) Next(now int64) (Call, bool) {
	for a := l.plan.due(now); a != nil; a = l.plan.due(now) {
		l.examine(a, now)
	}
	p := &l.plan
	p.mu.Lock()
	if len(p.returns) > 0 { // in order: see limiter.Draw.Of
		c := p.returns[0]
		p.returns = p.returns[1:]
		p.mu.Unlock()
		return c, true
	}
	if len(p.draws) == 0 {
		p.mu.Unlock()
		return Call{}, false
	}
	a := p.draws[0]
	p.draws = p.draws[1:]
	p.mu.Unlock()
	return l.newDraw(a, now), true
}

// newDraw returns the call that draws as many units as an account is expected to need, and a quarter more.
func (l *Ledger) newDraw(a *account, now int64) Call {
	s, _ := l.shard([]byte(a.name))
	s.mu.Lock()
	defer s.mu.Unlock()
	need := a.demand.during(a.hold, now)
	req := a.request
	req.Quantity = min(req.Limit.Max, need+need/4+1)
	req.Draw = &limiter.Draw{
		Lessee: l.config.Lessee, Hold: l.config.Hold, Relaxed: l.config.Relaxed,
	}
	l.counts.Draws.Add(1)
	return Call{Request: req, Sent: now, account: a}
}

// Drawn takes the answer of the authority to a draw at the time now: its decision, with Granted and Valid in the Draw of the
// call. A decision whose Err is set means that there is no answer, or that the draw is ErrNotAccepted.
func (l *Ledger) Drawn(c *Call, now int64, d *limiter.Decision) {
	a := c.account
	s, _ := l.shard([]byte(a.name))
	s.mu.Lock()
	defer s.mu.Unlock()
	a.drawing = false
	if d.Err != nil {
		l.counts.Failures.Add(1)
		a.pause = now + int64(l.pauseAfter(d.Err))
		return
	}
	a.answer = answer{now, d.Remaining, d.ResetAfter}
	a.storeRefusal(d, c.Sent, now)
	if !a.keep(c, now) {
		switch {
		case d.Limited:
		case c.Request.Draw.Granted > 0: // the answer is late
			a.pause = now + int64(l.config.Hold)/drawsPerLease
		case c.Sent < a.leased: // the authority may have too many leases on record
			a.pause = now + int64(a.hold)/drawsPerLease
		default: // the authority does not lease this limit, or has no units to lease
			a.pause = now + int64(l.config.Hold)
		}
		return
	}
	l.plan.schedule(a, a.nextReturn(now))
}

// pauseAfter returns the time from a draw that has failed to the next one.
func (l *Ledger) pauseAfter(err error) time.Duration {
	if errors.Is(err, ErrNotAccepted) {
		return notAcceptedPause
	}
	return l.config.Hold / 4
}

// storeRefusal stores the answer to a draw that was sent at the time sent: whether the authority refuses one unit. An admission
// ends an earlier refusal. The refusal is repeated until the authority would admit the unit, and at most for the wanted validity
// of a lease, which is counted from the sending, since the answer may be late. The next draw is sent early enough for its
// answer to arrive before the refusal is no longer repeated.
func (a *account) storeRefusal(d *limiter.Decision, sent, now int64) {
	a.refusal = refusal{}
	if !d.Limited {
		return
	}
	hold := a.ledger.config.Hold
	soonest := now + int64(a.hold/drawsPerLease)
	again := now + int64(hold)
	if d.RetryAfter != limiter.NoRetry {
		again = max(now+int64(min(d.RetryAfter, hold)), soonest)
	}
	limit := sent + int64(hold)
	a.refusal = refusal{min(again, limit), limit, retryAt(d.RetryAfter, now)}
	a.pause = max(min(again, limit-int64(min(lead, hold/4))), soonest)
}

// retryAt returns the time at which a refused unit will be admitted, or never.
func retryAt(after time.Duration, now int64) int64 {
	if after == limiter.NoRetry || int64(after) > never-now {
		return never
	}
	return now + int64(after)
}

// keep stores the lease of a call, and reports whether units were granted.
func (a *account) keep(c *Call, now int64) bool {
	draw := c.Request.Draw
	ends := c.Sent + int64(draw.Valid-draw.Valid/500)
	if draw.Granted <= 0 {
		return false
	}
	a.hold, a.leased = draw.Valid, max(a.leased, now+int64(draw.Valid))
	a.ledger.counts.Drawn.Add(draw.Granted)
	if now >= ends {
		a.ledger.counts.Lost.Add(draw.Granted)
		return false
	}
	a.ledger.counts.Lost.Add(a.prune(now))
	a.leases = append(a.leases, held{id: draw.ID, units: draw.Granted, of: draw.Granted, ends: ends, begun: c.Sent})
	return true
}
