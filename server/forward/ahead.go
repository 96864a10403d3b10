package forward

import "time"

// sendAhead waits until the next reply begins to arrive. If it takes longer than Timeouts.Ahead, sendAhead sends the batches that
// wait, in writes with at least this time between them: otherwise a call would wait for the round trip of the calls before it, and
// for its own. The argument q is the batch of the next reply.
func (s *sharedStream) sendAhead(st *stream, x *exchange, q *queuedBatch) {
	ahead := s.f.Timeouts.Ahead
	for ahead > 0 && x.err == nil && x.writeErr == nil && !st.unread() {
		var wake chan struct{}
		pause := time.Until(s.sent.Add(ahead))
		if pause <= 0 {
			if s.sendMore(st, x) {
				continue
			}
			wake, pause = s.wake, x.patience(q)
		}
		if pause <= 0 {
			return
		}
		s.pause(st, wake, pause)
	}
}

// pause waits until bytes arrive on the stream, a token arrives in wake, or a time has passed.
func (s *sharedStream) pause(st *stream, wake chan struct{}, d time.Duration) {
	s.timer.Reset(d)
	defer s.timer.Stop()
	select {
	case <-st.arrived:
	case <-wake:
	case <-s.timer.C:
	}
}

// sendMore sends the batches that wait, and reports whether there were any.
func (s *sharedStream) sendMore(st *stream, x *exchange) bool {
	if len(s.answering)+len(s.unanswered) >= maxWaiters {
		return false
	}
	from := len(s.unanswered)
	if s.write(st); len(s.unanswered) == from {
		return false
	}
	x.write()
	s.stamp(from)
	return true
}

// stamp records that the batches in unanswered from an index on were sent.
func (s *sharedStream) stamp(from int) {
	s.sent = time.Now()
	for _, q := range s.unanswered[from:] {
		q.sent = s.sent
	}
}
