package forward

import (
	"errors"
	"time"
)

// Errors of Forward. After any error, calls without a reply are Refused or Uncertain. The caller may retry Refused
// calls after a short pause, unless the error is ErrBusy or ErrSilent.
var (
	// ErrBusy means that no stream became free before the deadline, or that too many callers already wait for a
	// stream, or that too many streams for watching keys are open. Nothing was sent.
	ErrBusy = errors.New("too many clients are waiting for a stream to the leader")
	// ErrSilent means that the leader did not reply within the timeout. Retrying is useless until leadership changes.
	ErrSilent = errors.New("the leader does not reply")

	errGoaway = errors.New("the leader is closing the stream")
)

// Forward sends the calls to the node that the caller considers the leader, and sets their outcomes. It waits until
// the deadline for a stream that carries the given version of RESP. Then it waits for each reply for at most
// Timeouts.Reply plus the Wait of the call. The replies are valid until b is reset.
func (f *Forwarder) Forward(to string, protocol int, deadline time.Time, b *Batch) error {
	st, err := f.get(to, protocol, deadline)
	if err != nil {
		return err
	}
	reusable, err := f.exchange(st, b)
	f.put(st, reusable)
	return err
}

// exchange sends the calls and reads their replies. reusable reports whether the stream can be used again.
func (f *Forwarder) exchange(st *stream, b *Batch) (reusable bool, err error) {
	for i := range b.Calls {
		b.Calls[i].encode(&st.out)
	}
	st.changesLeader.Store(b.Calls[len(b.Calls)-1].ChangesLeader)
	defer st.changesLeader.Store(false)
	_ = st.conn.SetWriteDeadline(time.Now().Add(f.Timeouts.Reply))
	written, writeErr := st.conn.Write(st.out.Bytes())
	st.out.Truncate(0, keepStream)
	for i := range b.Calls {
		call := &b.Calls[i]
		at := len(b.replies)
		if err == nil { // after a failed write, the replies to the commands already sent may still arrive
			b.replies, err = st.read(b.replies, call, f.replyTimeout(call, writeErr))
		}
		reply := b.replies[at:]
		switch {
		case err == nil && string(reply) == notLeadingLine:
		case err == nil:
			f.Commands.Add(1)
			call.answer(reply, st.marks)
		case written > 0 && err != errGoaway && call.Writes:
			f.Errors.Add(1)
			f.Uncertain.Add(1)
			call.Outcome = Uncertain
		}
	}
	if err == nil {
		err = writeErr
	}
	reusable = err == nil
	if err == errGoaway {
		err = nil // the leader has closed the stream regularly, which is not a failure
	}
	return reusable, err
}

// read reads the replies to a call, and appends the last one to dst. Only a transaction has several replies.
func (st *stream) read(dst []byte, call *Call, timeout time.Duration) (_ []byte, err error) {
	at := len(dst)
	for replies := call.replies(); replies > 0 && err == nil; replies-- {
		dst, err = st.next(dst[:at], timeout)
		if string(dst[at:]) == goawayLine {
			err = errGoaway
		}
	}
	return dst, err
}

// replyTimeout returns the maximum time to wait for the reply to a call. After a failed write the time is short,
// since only replies to commands that were sent before the failure can arrive.
func (f *Forwarder) replyTimeout(call *Call, writeErr error) time.Duration {
	if writeErr != nil {
		return f.Timeouts.FormerLeader
	}
	return f.Timeouts.Reply + call.Wait
}

// Watch is a stream on which the leader watches keys for one client.
type Watch struct {
	f  *Forwarder
	st *stream
}

// Watch opens a stream to a node for watching keys. The error is ErrBusy if maxWatches of these streams are already
// open.
func (f *Forwarder) Watch(to string, protocol int, deadline time.Time) (*Watch, error) {
	select {
	case f.watches <- struct{}{}:
	default:
		return nil, ErrBusy
	}
	st, err := f.dialWatch(to, protocol, deadline)
	if err != nil {
		<-f.watches
		return nil, err
	}
	return &Watch{f, st}, nil
}

// Watches returns the number of open streams for watching keys.
func (f *Forwarder) Watches() int { return len(f.watches) }

// Forward is like Forwarder.Forward, but uses this stream. reusable reports whether the stream can be used again.
func (w *Watch) Forward(b *Batch) (reusable bool, err error) { return w.f.exchange(w.st, b) }

// Protocol returns the version of RESP that the stream carries.
func (w *Watch) Protocol() int { return w.st.protocol }

// Close closes the stream. Close of a nil Watch does nothing.
func (w *Watch) Close() {
	if w != nil {
		w.st.close()
		<-w.f.watches
	}
}
