package forward

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// Bounds of one write on a shared stream.
const (
	maxFlight = 256 << 10 // bytes of calls after which no further batch is added
	// gatherMax is the number of waiting batches of a shared stream from which further batches use another one. Fewer
	// streams cost less CPU time on the leader, because each read and write carries more calls.
	gatherMax = 128
	// Before a write, a carrier waits until as many batches wait as callers have used it recently: for at most half the
	// time until the first reply to the last write, within these limits. It does not wait if the callers are fewer than
	// gatherMin.
	gatherMin     = 4
	gatherTime    = 500 * time.Microsecond
	gatherLongest = 5 * time.Millisecond
)

// carrier is a stream to the leader that callers share. A goroutine sends the batches that wait in one write, hands the
// replies to the callers in order, and then sends the batches that have arrived meanwhile. It opens the stream when it
// is needed.
type carrier struct {
	f        *Forwarder
	to       string
	protocol int
	wake     chan struct{} // holds a token if waiting or retired has changed
	flight   []*passenger  // batches that were sent and are not yet answered; used by run only
	timer    *time.Timer   // used by gather
	took     time.Duration // from the last write to its first reply; used by run only

	waiting []*passenger // batches to send; guarded by Forwarder.mu
	callers int          // callers that had a batch in flight or waiting at the last reply; guarded by Forwarder.mu
	retired bool         // the node is no longer the leader; guarded by Forwarder.mu
}

// passenger is a batch that is sent over a carrier. If the caller may abandon it, it has a copy of the calls, because the carrier
// then still sets their outcomes.
type passenger struct {
	batch    Batch
	deadline time.Time     // for sending
	answered atomic.Int32  // calls at the beginning of the batch whose outcomes are set
	done     chan struct{} // receives a token when all outcomes are set
	err      error         // result of Forward; set before done
	timer    *time.Timer   // used by finished
}

// passenger returns an unused passenger.
func (f *Forwarder) passenger() *passenger {
	if p, ok := f.passengers.Get().(*passenger); ok {
		return p
	}
	p := &passenger{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	p.timer.Stop()
	return p
}

// finish sets the result of a passenger. The passenger must not be used afterwards.
func (p *passenger) finish(err error) {
	p.err = err
	p.done <- struct{}{}
}

// finished waits until a passenger is finished, at most until a time, and reports whether it is.
func (p *passenger) finished(until time.Time) bool {
	p.timer.Reset(time.Until(until))
	defer p.timer.Stop()
	select {
	case <-p.done:
		return true
	case <-p.timer.C:
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// load takes the calls of a batch, and the buffer for their replies.
func (p *passenger) load(b *Batch, deadline time.Time) {
	p.deadline = deadline
	p.answered.Store(0)
	if b.Until.IsZero() { // the caller waits until all outcomes are set
		p.batch.Calls = b.Calls
	} else {
		p.batch.Calls = append(p.batch.Calls, b.Calls...)
	}
	p.batch.replies, b.replies = b.replies, nil
}

// unload sets the outcomes of a batch and removes it from a passenger that is finished.
func (p *passenger) unload(b *Batch) {
	b.replies, p.batch.replies = p.batch.replies, nil
	if b.Until.IsZero() {
		p.batch.Calls = nil
		return
	}
	copy(b.Calls, p.batch.Calls)
	p.batch.Reset()
}

// abandon sets the outcomes of the calls of a batch whose further replies are not awaited. The carrier still uses the passenger.
func (p *passenger) abandon(b *Batch) {
	n := p.answered.Load()
	copy(b.Calls, p.batch.Calls[:n])
	for i := range b.Calls[n:] {
		if c := &b.Calls[int(n)+i]; c.Writes {
			c.Outcome = Uncertain
		}
	}
}

// errAbandoned means that a passenger is not finished in time. The carrier still uses it.
var errAbandoned = errors.New("the batch is not answered in time")

// forwardShared sends a batch over a carrier, and waits for the outcomes.
func (f *Forwarder) forwardShared(to string, protocol int, deadline time.Time, b *Batch) error {
	p := f.passenger()
	p.load(b, deadline)
	err := f.carry(to, protocol, p, b.Until)
	if err == errAbandoned {
		p.abandon(b)
		return ErrSilent
	}
	p.unload(b)
	p.err = nil
	f.passengers.Put(p)
	return err
}

// carry waits until a passenger is finished, at most until a time that may be zero, and returns its result.
func (f *Forwarder) carry(to string, protocol int, p *passenger, until time.Time) error {
	c, err := f.board(to, protocol, p)
	switch {
	case err != nil:
		return err
	case p.finished(p.deadline):
		return p.err
	case c.leave(p):
		return errNotSent
	case until.IsZero():
		<-p.done // the batch was sent: the wait for the replies is bounded by Timeouts.Reply
		return p.err
	case p.finished(until):
		return p.err
	}
	return errAbandoned
}

// board adds a batch to the carrier that it will be sent over. The error is errNotDialed if the node is not the leader,
// and ErrBusy if maxWaiters batches already wait for each carrier.
func (f *Forwarder) board(to string, protocol int, p *passenger) (*carrier, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if to != f.leader {
		return nil, errNotDialed
	}
	c := f.carrier(protocol)
	if len(c.waiting) >= maxWaiters {
		return nil, ErrBusy
	}
	c.waiting = append(c.waiting, p)
	if n := len(c.waiting); n == 1 || n >= c.callers {
		c.signal()
	}
	return c, nil
}

// carrier returns the first carrier for which fewer than gatherMax batches wait. If there is none, it starts a new one
// or, if there are maxShared of them, returns the one with the fewest. The caller holds f.mu.
func (f *Forwarder) carrier(protocol int) *carrier {
	var least *carrier
	n := 0
	for _, c := range f.shared {
		if c.protocol != protocol {
			continue
		}
		if len(c.waiting) < gatherMax {
			return c
		}
		if n++; least == nil || len(c.waiting) < len(least.waiting) {
			least = c
		}
	}
	if n == maxShared {
		return least
	}
	c := &carrier{f: f, to: f.leader, protocol: protocol, wake: make(chan struct{}, 1), timer: time.NewTimer(gatherTime)}
	f.shared = append(f.shared, c)
	f.readers.Go(c.run)
	return c
}

// retireCarriers stops the carriers to a former leader. Batches in flight may still be answered. The caller holds f.mu.
func (f *Forwarder) retireCarriers() {
	for _, c := range f.shared {
		c.retired = true
		for _, p := range c.waiting {
			p.finish(errNotDialed)
		}
		c.waiting = nil
		c.signal()
	}
	f.shared = nil
}

func (c *carrier) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// leave removes a batch that was not sent, and reports whether it did.
func (c *carrier) leave(p *passenger) bool {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	at := slices.Index(c.waiting, p)
	if at < 0 {
		return false
	}
	c.waiting = slices.Delete(c.waiting, at, at+1)
	return true
}

// run sends batches until the carrier is retired.
func (c *carrier) run() {
	var st *stream
	for {
		st = c.rest(st)
		first, retired := c.next()
		switch {
		case retired:
			if st != nil {
				st.close()
			}
			return
		case first.IsZero():
			c.await(st)
		case st == nil:
			st = c.open(first)
		case !c.fly(st):
			st.close()
			st = nil
		}
	}
}

// rest returns st if it can be used, and otherwise closes it and returns nil.
func (c *carrier) rest(st *stream) *stream {
	if st == nil || st.rest() {
		return st
	}
	st.close()
	return nil
}

// next returns the deadline of the first batch that waits, and reports whether the carrier is retired. The deadline is
// zero if none waits.
func (c *carrier) next() (first time.Time, retired bool) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if len(c.waiting) > 0 {
		first = c.waiting[0].deadline
	}
	return first, c.retired
}

// await waits until a batch waits, or the carrier is retired, or bytes or an error arrive on the stream, which may be
// nil.
func (c *carrier) await(st *stream) {
	var arrived chan struct{}
	if st != nil {
		arrived = st.arrived
	}
	select {
	case <-c.wake:
	case <-arrived:
	}
}

// open opens the stream. If it fails, the batches that wait are Refused.
func (c *carrier) open(deadline time.Time) *stream {
	st, err := c.f.find(c.to, c.protocol, deadline)
	if err == nil {
		return st
	}
	c.refuse(err)
	return nil
}

// refuse finishes the batches that wait.
func (c *carrier) refuse(err error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	for _, p := range c.waiting {
		p.finish(err)
	}
	c.waiting = nil
}

// gather waits for batches of the callers that have used the carrier recently: they usually send the next command soon
// after the reply.
func (c *carrier) gather() {
	c.timer.Reset(min(max(c.took/2, gatherTime), gatherLongest))
	defer c.timer.Stop()
	for c.expectsMore() {
		select {
		case <-c.wake:
		case <-c.timer.C:
			return
		}
	}
}

func (c *carrier) expectsMore() bool {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return !c.retired && c.callers >= gatherMin && len(c.waiting) < c.callers
}

// countCallers sets c.callers when the first reply has arrived. Each caller has at most one batch, apart from batches that it
// has abandoned.
func (c *carrier) countCallers() {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.callers = len(c.flight) + len(c.waiting)
}

// fly sends batches in one write, reads the replies, and reports whether the stream can be used again.
func (c *carrier) fly(st *stream) bool {
	c.gather()
	if c.depart(st); len(c.flight) == 0 { // no caller waits any more
		return true
	}
	x := c.f.send(st, time.Time{})
	patience := x.timeout(&Call{})
	sent := time.Now()
	until := sent.Add(patience)
	for j, p := range c.flight {
		for i := range p.batch.Calls {
			x.takeReply(&p.batch, &p.batch.Calls[i], patience)
			p.answered.Store(int32(i + 1))
			if patience = time.Until(until); j == 0 && i == 0 {
				c.took = time.Since(sent)
				c.countCallers()
			}
		}
		p.finish(x.result())
	}
	clear(c.flight)
	c.flight = c.flight[:0]
	return x.reusable()
}

// depart moves batches from waiting to flight, and encodes their calls.
func (c *carrier) depart(st *stream) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	n := 0
	for ; n < len(c.waiting) && st.out.Len() < maxFlight; n++ {
		c.waiting[n].batch.encode(&st.out)
	}
	c.flight = append(c.flight, c.waiting[:n]...)
	c.waiting = slices.Delete(c.waiting, 0, n)
}
