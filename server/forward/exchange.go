package forward

import (
	"errors"
	"time"
)

// Errors of Forward. After any error, calls without a reply are Refused or Uncertain. The caller may retry Refused
// calls after a short pause, unless the error is ErrBusy or ErrSilent. The error wraps a *topology.ConnRefusedError if the node has
// refused the connection.
var (
	// ErrBusy means that no stream became free before the deadline, or that too many callers already wait for a
	// stream, or that too many streams for watching keys are open. Nothing was sent.
	ErrBusy = errors.New("too many clients are waiting for a stream to the leader")
	// ErrSilent means that the leader did not reply within the timeout. Retrying is useless until leadership changes.
	ErrSilent = errors.New("the leader does not reply")

	errGoaway  = errors.New("the leader is closing the stream")
	errNotSent = errors.New("the leader has not answered earlier calls in time, so the calls were not sent")
)

// Forward sends the calls to the node that the caller considers the leader, and sets their outcomes. It waits until
// the deadline for a stream that carries the given version of RESP. Then it waits for each reply for at most
// Timeouts.Reply plus the Wait of the call. The calls of a Batch with Shared are sent together with those of other
// callers, and the wait for all of their replies together is at most Timeouts.Reply. Replies are not awaited after
// Batch.Until. The replies are valid until b is reset.
func (f *Forwarder) Forward(to string, protocol int, deadline time.Time, b *Batch) error {
	err := f.forward(to, protocol, deadline, b)
	f.count(b.Calls)
	return err
}

func (f *Forwarder) forward(to string, protocol int, deadline time.Time, b *Batch) error {
	if b.Shared {
		return f.forwardShared(to, protocol, deadline, b)
	}
	st, err := f.get(to, protocol, deadline)
	if err != nil {
		return err
	}
	if !b.Until.IsZero() && time.Until(b.Until) <= 0 {
		f.put(st, true)
		return errNotSent
	}
	reusable, err := f.exchangeBatch(st, b)
	f.put(st, reusable)
	return err
}

// exchangeBatch sends the calls of one batch and reads their replies. reusable reports whether the stream can be used
// again.
func (f *Forwarder) exchangeBatch(st *stream, b *Batch) (reusable bool, err error) {
	b.encode(&st.out)
	st.changesLeader.Store(b.Calls[len(b.Calls)-1].ChangesLeader)
	defer st.changesLeader.Store(false)
	x := f.send(st, b.Until)
	for i := range b.Calls {
		x.takeReply(b, &b.Calls[i], x.timeout(&b.Calls[i]))
	}
	return x.reusable(), x.result()
}

// exchange is the state of sent calls whose replies are read in order.
type exchange struct {
	f        *Forwarder
	st       *stream
	until    time.Time // see Batch.Until; zero: no limit
	written  int       // bytes of the calls that were written
	writeErr error     // error of the write
	err      error     // error after which no reply is read
}

// send writes the encoded calls in st.out.
func (f *Forwarder) send(st *stream, until time.Time) exchange {
	x := exchange{f: f, st: st, until: until}
	x.write()
	return x
}

// write writes the encoded calls.
func (x *exchange) write() {
	_ = x.st.conn.SetWriteDeadline(time.Now().Add(x.timeout(&Call{})))
	n, err := x.st.conn.Write(x.st.out.Bytes())
	x.written, x.writeErr = x.written+n, err
	x.st.out.Truncate(0, keepStream)
}

// patience returns the maximum time to wait for further replies to a batch of a shared stream.
func (x *exchange) patience(q *queuedBatch) time.Duration {
	return time.Until(q.sent.Add(x.timeout(&Call{})))
}

// takeReply reads the reply to the next call, and sets the outcome of the call. After a failed write, the replies to
// the commands already sent may still arrive.
func (x *exchange) takeReply(b *Batch, call *Call, timeout time.Duration) {
	at := len(b.replies)
	if x.err == nil {
		b.replies, x.err = x.st.read(b.replies, call, timeout)
	}
	reply := b.replies[at:]
	switch {
	case x.err == nil && string(reply) == notLeadingLine:
	case x.err == nil:
		call.answer(reply, x.st.marks)
	case x.written > 0 && x.err != errGoaway && call.Writes:
		call.Outcome = Uncertain
	}
}

// reusable reports whether the stream can be used again.
func (x *exchange) reusable() bool { return x.err == nil && x.writeErr == nil }

// result returns the error of the calls whose replies were read so far. Goaway is not an error: the leader has closed
// the stream regularly.
func (x *exchange) result() error {
	switch x.err {
	case nil:
		return x.writeErr
	case errGoaway:
		return nil
	}
	return x.err
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

// timeout returns the maximum time to wait for the reply to the next call. After a failed write the time is short, since
// only replies to commands that were sent before the failure can arrive.
func (x *exchange) timeout(call *Call) time.Duration {
	d := x.f.Timeouts.Reply + call.Wait
	if x.writeErr != nil {
		d = x.f.Timeouts.FormerLeader
	}
	if x.until.IsZero() {
		return d
	}
	x.until = x.until.Add(call.Wait)
	return min(d, time.Until(x.until))
}

// count counts the outcomes of calls.
func (f *Forwarder) count(calls []Call) {
	for i := range calls {
		switch calls[i].Outcome {
		case Answered:
			f.Commands.Add(1)
		case Uncertain:
			f.Errors.Add(1)
			f.Uncertain.Add(1)
		}
	}
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
func (w *Watch) Forward(b *Batch) (reusable bool, err error) {
	reusable, err = w.f.exchangeBatch(w.st, b)
	w.f.count(b.Calls)
	return reusable, err
}

// Protocol returns the version of RESP that the stream carries.
func (w *Watch) Protocol() int { return w.st.protocol }

// Close closes the stream. Close of a nil Watch does nothing.
func (w *Watch) Close() {
	if w != nil {
		w.st.close()
		<-w.f.watches
	}
}
