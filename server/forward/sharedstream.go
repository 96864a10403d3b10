package forward

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// Bounds of one write on a shared stream.
const (
	maxWrite = 256 << 10 // bytes of calls after which no further batch is added
	// gatherMax is the number of waiting batches of a shared stream from which further batches use another one. Fewer
	// streams cost less CPU time on the leader, because each read and write carries more calls.
	gatherMax = 128
	// Before a write, a shared stream waits until as many batches wait as callers have used it recently: for at most half the
	// time until the first reply to the last write, within these limits. It does not wait if the callers are fewer than
	// gatherMin.
	gatherMin     = 4
	gatherTime    = 500 * time.Microsecond
	gatherLongest = 5 * time.Millisecond
)

// sharedStream is a stream to the leader that callers share. A goroutine sends the batches that wait in one write, hands the
// replies to the callers in order, and then sends the batches that have arrived meanwhile. It opens the stream when it
// is needed.
type sharedStream struct {
	f          *Forwarder
	to         string
	protocol   int
	wake       chan struct{}  // holds a token if waiting or retired has changed
	unanswered []*queuedBatch // batches that were sent and are not yet answered; used by run only
	answering  []*queuedBatch // those of unanswered whose replies are read; used by run only
	sent       time.Time      // of the last write; used by run only
	timer      *time.Timer    // used by gather and pause
	took       time.Duration  // from the last write to its first reply; used by run only

	waiting []*queuedBatch // batches to send; guarded by Forwarder.mu
	callers int            // callers that had a batch in flight or waiting at the last reply; guarded by Forwarder.mu
	retired bool           // the node is no longer the leader; guarded by Forwarder.mu
}

// queuedBatch is a batch that is sent over a shared stream. If the caller may abandon it, it has a copy of the calls, because the stream
// then still sets their outcomes.
type queuedBatch struct {
	batch    Batch
	deadline time.Time     // for sending
	sent     time.Time     // set by the stream when the batch was sent
	answered atomic.Int32  // calls at the beginning of the batch whose outcomes are set
	done     chan struct{} // receives a token when all outcomes are set
	err      error         // result of Forward; set before done
	timer    *time.Timer   // used by finished
}

// unusedBatch returns a queuedBatch for one call of Forward.
func (f *Forwarder) unusedBatch() *queuedBatch {
	if q, ok := f.unused.Get().(*queuedBatch); ok {
		return q
	}
	q := &queuedBatch{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	q.timer.Stop()
	return q
}

// finish sets the result. The batch must not be used afterwards.
func (q *queuedBatch) finish(err error) {
	q.err = err
	q.done <- struct{}{}
}

// finished waits until a queuedBatch is finished, at most until a time, and reports whether it is.
func (q *queuedBatch) finished(until time.Time) bool {
	q.timer.Reset(time.Until(until))
	defer q.timer.Stop()
	select {
	case <-q.done:
		return true
	case <-q.timer.C:
	}
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

// load takes the calls of a batch, and the buffer for their replies.
func (q *queuedBatch) load(b *Batch, deadline time.Time) {
	q.deadline = deadline
	q.answered.Store(0)
	if b.Until.IsZero() { // the caller waits until all outcomes are set
		q.batch.Calls = b.Calls
	} else {
		q.batch.Calls = append(q.batch.Calls, b.Calls...)
	}
	q.batch.replies, b.replies = b.replies, nil
}

// unload sets the outcomes of a batch and removes it from a queuedBatch that is finished.
func (q *queuedBatch) unload(b *Batch) {
	b.replies, q.batch.replies = q.batch.replies, nil
	if b.Until.IsZero() {
		q.batch.Calls = nil
		return
	}
	copy(b.Calls, q.batch.Calls)
	q.batch.Reset()
}

// abandon sets the outcomes of the calls of a batch whose further replies are not awaited. The shared stream still uses q.
func (q *queuedBatch) abandon(b *Batch) {
	n := q.answered.Load()
	copy(b.Calls, q.batch.Calls[:n])
	for i := range b.Calls[n:] {
		if c := &b.Calls[int(n)+i]; c.Writes {
			c.Outcome = Uncertain
		}
	}
}

// errAbandoned means that a queuedBatch is not finished in time. The shared stream still uses it.
var errAbandoned = errors.New("the batch is not answered in time")

// forwardShared sends a batch over a shared stream, and waits for the outcomes.
func (f *Forwarder) forwardShared(to string, protocol int, deadline time.Time, b *Batch) error {
	q := f.unusedBatch()
	q.load(b, deadline)
	err := f.carry(to, protocol, q, b.Until)
	if err == errAbandoned {
		q.abandon(b)
		return ErrSilent
	}
	q.unload(b)
	q.err = nil
	f.unused.Put(q)
	return err
}

// carry waits until a queuedBatch is finished, at most until a time that may be zero, and returns its result.
func (f *Forwarder) carry(to string, protocol int, q *queuedBatch, until time.Time) error {
	s, err := f.enqueue(to, protocol, q)
	switch {
	case err != nil:
		return err
	case q.finished(q.deadline):
		return q.err
	case s.dequeue(q):
		return errNotSent
	case until.IsZero():
		<-q.done // the batch was sent: the wait for the replies is bounded by Timeouts.Reply
		return q.err
	case q.finished(until):
		return q.err
	}
	return errAbandoned
}

// enqueue adds a batch to the shared stream over which it will be sent. The error is errNotDialed if the node is not the leader,
// and ErrBusy if maxWaiters batches already wait for each shared stream.
func (f *Forwarder) enqueue(to string, protocol int, q *queuedBatch) (*sharedStream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if to != f.leader {
		return nil, errNotDialed
	}
	s := f.sharedStream(protocol)
	if len(s.waiting) >= maxWaiters {
		return nil, ErrBusy
	}
	s.waiting = append(s.waiting, q)
	if n := len(s.waiting); n == 1 || n >= s.callers {
		s.signal()
	}
	return s, nil
}

// sharedStream returns the first shared stream for which fewer than gatherMax batches wait. If there is none, it starts a new one
// or, if there are maxShared of them, returns the one with the fewest. The caller holds f.mu.
func (f *Forwarder) sharedStream(protocol int) *sharedStream {
	var least *sharedStream
	n := 0
	for _, s := range f.shared {
		if s.protocol != protocol {
			continue
		}
		if len(s.waiting) < gatherMax {
			return s
		}
		if n++; least == nil || len(s.waiting) < len(least.waiting) {
			least = s
		}
	}
	if n == maxShared {
		return least
	}
	s := &sharedStream{f: f, to: f.leader, protocol: protocol, wake: make(chan struct{}, 1), timer: time.NewTimer(gatherTime)}
	f.shared = append(f.shared, s)
	f.readers.Go(s.run)
	return s
}

// retireShared stops the shared streams to a former leader. Batches in flight may still be answered. The caller holds f.mu.
func (f *Forwarder) retireShared() {
	for _, s := range f.shared {
		s.retired = true
		for _, q := range s.waiting {
			q.finish(errNotDialed)
		}
		s.waiting = nil
		s.signal()
	}
	f.shared = nil
}

func (s *sharedStream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// dequeue removes a batch that was not sent, and reports whether it did.
func (s *sharedStream) dequeue(q *queuedBatch) bool {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	at := slices.Index(s.waiting, q)
	if at < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, at, at+1)
	return true
}

// run sends batches until the stream is retired.
func (s *sharedStream) run() {
	var st *stream
	for {
		st = s.rest(st)
		first, retired := s.next()
		switch {
		case retired:
			if st != nil {
				st.close()
			}
			return
		case first.IsZero():
			s.await(st)
		case st == nil:
			st = s.open(first)
		case !s.exchange(st):
			st.close()
			st = nil
		}
	}
}

// rest returns st if it can be used, and otherwise closes it and returns nil.
func (s *sharedStream) rest(st *stream) *stream {
	if st == nil || st.rest() {
		return st
	}
	st.close()
	return nil
}

// next returns the deadline of the first batch that waits, and reports whether the stream is retired. The deadline is
// zero if none waits.
func (s *sharedStream) next() (first time.Time, retired bool) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if len(s.waiting) > 0 {
		first = s.waiting[0].deadline
	}
	return first, s.retired
}

// await waits until a batch waits, or the stream is retired, or bytes or an error arrive on the stream, which may be
// nil.
func (s *sharedStream) await(st *stream) {
	var arrived chan struct{}
	if st != nil {
		arrived = st.arrived
	}
	select {
	case <-s.wake:
	case <-arrived:
	}
}

// open opens the stream. If it fails, the batches that wait are Refused. Their callers stop waiting at their own deadlines.
func (s *sharedStream) open(deadline time.Time) *stream {
	st, err := s.f.find(s.to, s.protocol, s.f.openUntil(deadline))
	if err == nil {
		return st
	}
	s.refuse(err)
	return nil
}

// refuse finishes the batches that wait.
func (s *sharedStream) refuse(err error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	for _, q := range s.waiting {
		q.finish(err)
	}
	s.waiting = nil
}

// gather waits for batches of the callers that have used the stream recently: they usually send the next command soon
// after the reply.
func (s *sharedStream) gather() {
	s.timer.Reset(min(max(s.took/2, gatherTime), gatherLongest))
	defer s.timer.Stop()
	for s.expectsMore() {
		select {
		case <-s.wake:
		case <-s.timer.C:
			return
		}
	}
}

func (s *sharedStream) expectsMore() bool {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return !s.retired && s.callers >= gatherMin && len(s.waiting) < s.callers
}

// countCallers sets s.callers when the first reply has arrived. Each caller has at most one batch, apart from batches that it
// has abandoned.
func (s *sharedStream) countCallers() {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.callers = len(s.answering) + len(s.unanswered) + len(s.waiting)
}

// exchange sends batches in one write, reads the replies, and reports whether the stream can be used again. If the replies are late,
// it sends further batches.
func (s *sharedStream) exchange(st *stream) bool {
	s.gather()
	if s.write(st); len(s.unanswered) == 0 { // no caller waits any more
		return true
	}
	x := s.f.send(st, time.Time{})
	s.stamp(0)
	for first := true; len(s.unanswered) > 0; {
		s.answering, s.unanswered = s.unanswered, s.answering[:0]
		for _, q := range s.answering {
			s.takeReplies(st, &x, q, first)
			first = false
		}
		clear(s.answering)
		s.answering = s.answering[:0]
	}
	return x.reusable()
}

// takeReplies reads the replies to a batch, and finishes it. first reports whether it is the first batch of an exchange.
func (s *sharedStream) takeReplies(st *stream, x *exchange, q *queuedBatch, first bool) {
	for i := range q.batch.Calls {
		s.sendAhead(st, x, q)
		x.takeReply(&q.batch, &q.batch.Calls[i], x.patience(q))
		q.answered.Store(int32(i + 1))
		if first && i == 0 {
			s.took = time.Since(q.sent)
			s.countCallers()
		}
	}
	q.finish(x.result())
}

// write moves batches from waiting to unanswered, and encodes their calls.
func (s *sharedStream) write(st *stream) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	n := 0
	for ; n < len(s.waiting) && st.out.Len() < maxWrite; n++ {
		s.waiting[n].batch.encode(&st.out)
	}
	s.unanswered = append(s.unanswered, s.waiting[:n]...)
	s.waiting = slices.Delete(s.waiting, 0, n)
}
