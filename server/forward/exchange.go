package server

import (
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/topology"
)

// carry asks the leader for what is undone, in one write, and reads its answers.
func (c *client) carry(view *topology.View, list []errand, deadline time.Time) {
	st, err := c.srv.forward.get(view.Leader, c.out.Protocol(), deadline)
	if err != nil {
		c.noStream(err, list)
		return
	}
	c.srv.forward.put(st, c.exchange(st, list, view))
}

// noStream fails what is undone if too many want a stream. Otherwise it can be tried again.
func (c *client) noStream(err error, list []errand) {
	if err != errBusy {
		c.srv.debug("forward", "cannot forward commands", "error", err)
		return
	}
	c.srv.forward.errors.Add(int64(undone(list)))
	giveUp(list, err)
}

// exchange sends what is undone and reads the answers, and reports whether the stream can be
// used again. What the other node has certainly not done, or may do again, stays undone.
func (c *client) exchange(st *stream, list []errand, view *topology.View) bool {
	encode(&st.out, list)
	st.changes.Store(list[len(list)-1].cmd.is(admin)) // behind such a command there is none
	defer st.changes.Store(false)
	_ = st.conn.SetWriteDeadline(time.Now().Add(c.srv.forward.timeout.reply))
	written, failed := st.conn.Write(st.out.Bytes())
	st.out.Truncate(0, keepStream)
	var err error
	for i := range list {
		e := &list[i]
		if e.done {
			continue
		}
		at := len(c.sent.replies)
		if err == nil { // what was answered before a write failed counts all the same
			c.sent.replies, err = st.answer(c.sent.replies, e, c.srv.forward.timeout.answer(e, failed))
		}
		reply := c.sent.replies[at:]
		switch {
		case err == nil && string(reply) == notLeadingLine:
		case err == nil:
			c.srv.forward.commands.Add(1)
			e.answer(reply)
			c.noteAnswer(e, reply, view.Term)
		case written > 0 && err != errParting && e.charges():
			c.srv.forward.errors.Add(1)
			e.fail(limiter.ErrUncertain)
		}
	}
	if err == errSilent {
		c.sent.hopeless = view.Changed
	}
	if err != nil && err != errParting {
		c.srv.debug("forward", "a stream to the leader broke", "node", st.to, "error", err)
	}
	return err == nil && failed == nil
}

// The lines by which a node tells another that it has not done what it was asked for.
const (
	notLeadingLine = "-" + string(errPeerNotLeading) + "\r\n"
	partingLine    = "-" + string(errParting) + "\r\n"
)

// answer appends the reply to an errand to dst: behind a transaction the last of several. The
// error is errParting if the other node has ended the stream without doing it.
func (st *stream) answer(dst []byte, e *errand, patience time.Duration) (_ []byte, err error) {
	at := len(dst)
	replies := 1
	if e.block != nil {
		replies = len(e.block.afar()) + len("ME") // MULTI and EXEC
	}
	for ; replies > 0 && err == nil; replies-- {
		dst, err = st.next(dst[:at], patience)
		if string(dst[at:]) == partingLine {
			err = errParting
		}
	}
	return dst, err
}

// answer returns how long to wait for the answer to an errand: after a write that has failed
// for what is on its way. WAIT says so itself.
func (t *forwardTimeouts) answer(e *errand, failed error) time.Duration {
	if failed != nil {
		return t.parting
	}
	if e.cmd.name == "wait" {
		if ms, ok := resp.ParseInt(e.args[2]); ok && ms > 0 && ms < int64(time.Hour/time.Millisecond) {
			return t.reply + time.Duration(ms)*time.Millisecond
		}
	}
	return t.reply
}

// encode adds the commands that are undone to what is sent.
func encode(out *resp.Reply, list []errand) {
	for i := range list {
		switch e := &list[i]; {
		case e.done:
		case e.block != nil:
			encodeCommand(out, [][]byte{[]byte("MULTI")})
			for _, q := range e.block.afar() {
				encodeCommand(out, q.args)
			}
			encodeCommand(out, [][]byte{[]byte("EXEC")})
		default:
			encodeCommand(out, e.args)
		}
	}
}

func encodeCommand(out *resp.Reply, args [][]byte) {
	out.Array(len(args))
	for _, arg := range args {
		out.Bulk(arg)
	}
}
