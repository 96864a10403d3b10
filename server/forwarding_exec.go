package server

import (
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/topology"
)

// touchesKeys reports whether a transaction does.
func (tx *transaction) touchesKeys() bool { return len(tx.watched) > 0 || len(tx.afar()) > 0 }

// writes reports whether a transaction may change keys.
func (tx *transaction) writes() bool {
	for _, q := range tx.queued {
		if q.cmd.is(write) {
			return true
		}
	}
	return false
}

// afar returns the commands that only the leader can run.
func (tx *transaction) afar() (list []queuedCommand) {
	for _, q := range tx.queued {
		if q.cmd.needsLeader() {
			list = append(list, q)
		}
	}
	return list
}

// key returns the first key of a transaction, or nil.
func (tx *transaction) key() []byte {
	for _, q := range tx.queued {
		if keys := q.cmd.keysOf(q.args); len(keys) > 0 {
			return keys[0]
		}
	}
	return nil
}

// execElsewhere has a transaction run by the leader, and answers it: those of its commands that
// only the leader can run, as one transaction there, and the others here. Keys that were
// watched where it cannot be told any more whether they have changed count as changed.
func (c *client) execElsewhere(tx *transaction) error {
	if c.face.elsewhere == refuses {
		return limiter.ErrNotLeading
	}
	if tx.lost || len(tx.watched) > 0 || tx.own != nil && tx.own.protocol != c.out.Protocol() {
		c.out.NullArray()
		return nil
	}
	c.sent.list = append(c.sent.list, errand{cmd: c.commands.named("exec"), block: tx, counted: true})
	c.runErrands()
	return nil
}

// carryOwn does the one errand of a list over the stream that a client has for the keys that
// it watches. WATCH opens it. When it breaks, or leads to a node that does not lead any more,
// what has been watched there counts as changed.
func (c *client) carryOwn(view *topology.View, list []errand, deadline time.Time) {
	e, st := &list[0], c.tx.own
	if e.block != nil {
		st = e.block.own
	}
	first := st == nil
	if first {
		var err error
		if st, err = c.srv.forward.watch(view.Leader, c.out.Protocol(), deadline); err != nil {
			c.noStream(err, list)
			return
		}
	}
	switch whole := c.exchange(st, list, view); {
	case !whole && first, !e.done && first:
		c.srv.forward.unwatch(st)
	case first:
		c.tx.own = st
	case e.done:
	case e.block != nil:
		e.answer(c.nullArray())
	default:
		c.tx.lost = true
		e.answer([]byte("+OK\r\n"))
	}
}

// nullArray returns what EXEC answers when a watched key has changed.
func (c *client) nullArray() []byte {
	var out resp.Reply
	out.SetProtocol(c.out.Protocol())
	out.NullArray()
	return out.Bytes()
}

// replyBlock answers EXEC with what the leader and this node have made of the commands.
func (c *client) replyBlock(e *errand) {
	tx := e.block
	elements, ok := splitArray(e.reply)
	if !ok || len(elements) != len(tx.afar()) {
		c.relay(e) // an error, or nothing
		return
	}
	c.out.Array(len(tx.queued))
	c.tx.running = true
	for _, q := range tx.queued {
		if !q.cmd.needsLeader() {
			c.execute(q.cmd, q.args)
			continue
		}
		c.relay(&errand{cmd: q.cmd, reply: elements[0]})
		c.srv.stats.of(q.cmd).calls.Add(1)
		if q.cmd.is(readonly) && c.tracking.on {
			c.invalidate(q.cmd.keysOf(q.args))
		}
		elements = elements[1:]
	}
	c.endRunning()
}

// splitArray returns the elements of a reply that is an array.
func splitArray(reply []byte) (elements [][]byte, ok bool) {
	size, n, err := scanElement(reply)
	if err != nil || size == 0 || reply[0] != '*' || string(reply[:size]) == "*-1\r\n" {
		return nil, false
	}
	for reply = reply[size:]; n > 0; n-- {
		var s replyScanner
		size, err := s.scan(reply)
		if size == 0 || err != nil {
			return nil, false
		}
		elements, reply = append(elements, reply[:size]), reply[size:]
	}
	return elements, true
}
