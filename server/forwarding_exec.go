package server

import (
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/topology"
)

// touchesKeys reports whether a transaction watches keys or contains commands that need the leader.
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

// afar returns the queued commands that only the leader can run.
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

// execElsewhere forwards a transaction. The leader runs the commands that only it can run, as one
// transaction; this node runs the others. If the state of the watched keys cannot be verified any
// more, they count as changed.
func (c *client) execElsewhere(tx *transaction) error {
	if c.listener.onFollower == refuses {
		return limiter.ErrNotLeading
	}
	if tx.lost || len(tx.watched) > 0 || tx.own != nil && tx.own.Protocol() != c.out.Protocol() {
		c.out.NullArray()
		return nil
	}
	c.useBatch().addAway(call{cmd: c.commands.named("exec"), block: tx, accounted: true}, nil)
	c.settle()
	return nil
}

// forwardOwn forwards the only call of a batch over the stream on which the leader watches keys for the client. WATCH
// opens the stream. If it fails, or its node does not lead any more, the keys count as changed.
func (c *client) forwardOwn(view *topology.View, b *batch, deadline time.Time) {
	f, own := &b.calls[0], c.tx.own
	if f.block != nil {
		own = f.block.own
	}
	calls := b.toForward()
	first := own == nil
	var err error
	if first {
		if own, err = c.srv.forward.Watch(view.Leader, c.out.Protocol(), deadline); err != nil {
			c.takeOutcomes(view, b, err)
			return
		}
	}
	whole, err := own.Forward(calls)
	c.takeOutcomes(view, b, err)
	switch {
	case first && (!whole || !f.done):
		own.Close()
	case first:
		c.tx.own = own
	case f.done:
	case f.block != nil:
		f.answer(c.nullArray())
	default:
		c.tx.lost = true
		f.answer([]byte("+OK\r\n"))
	}
}

// nullArray returns the reply to EXEC when a watched key has changed.
func (c *client) nullArray() []byte {
	var out resp.Reply
	out.SetProtocol(c.out.Protocol())
	out.NullArray()
	return out.Bytes()
}

// replyBlock replies to a forwarded EXEC. It relays the leader's replies, and runs the other commands on this node.
func (c *client) replyBlock(e *call) {
	tx, elements := e.block, e.elements
	if elements == nil {
		c.relay(e) // an error, or a null array
		return
	}
	c.out.Array(len(tx.queued))
	c.tx.running = true
	for _, q := range tx.queued {
		if !q.cmd.needsLeader() {
			c.execute(q.cmd, q.args)
			continue
		}
		c.relay(&call{cmd: q.cmd, reply: elements[0]})
		c.srv.stats.of(q.cmd).calls.Add(1)
		if q.cmd.is(readonly) && c.tracking.on {
			c.invalidate(q.cmd.keysOf(q.args))
		}
		elements = elements[1:]
	}
	c.endRunning()
}
