package server

import (
	"bytes"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/server/forward"
)

// transaction is the state of MULTI and WATCH until EXEC or DISCARD.
type transaction struct {
	queueing     bool
	running      bool // EXEC runs the queued commands
	aborted      bool // a command was refused while queueing: EXEC fails
	queued       []queuedCommand
	bytes        int // size of the queued arguments and the watched keys
	watched      []watchedKey
	epoch        uint64         // epoch of the engine (see limiter.CommitToken) when the first key was watched
	ownStream    *forward.Watch // stream on which the leader watches keys for the client
	lost         bool           // the state of watched keys can no longer be verified: EXEC fails
	pushed       []byte         // messages to append after the reply to EXEC
	toInvalidate [][]byte       // keys to invalidate after the reply to EXEC
}

const perQueued = 64 // bytes of memory overhead of a queued command or a watched key

type queuedCommand struct {
	cmd    *command
	args   [][]byte
	denied error // reply to a command that the user may not run any more when EXEC is called
}

type watchedKey struct {
	key   []byte
	found bool
	state uint64
}

// runsInMulti contains the commands that run immediately between MULTI and EXEC. worksSubscribed contains the commands
// that a RESP2 connection may send while it is subscribed.
var (
	runsInMulti = map[string]bool{
		"exec": true, "discard": true, "multi": true, "watch": true, "quit": true, "reset": true,
	}
	worksSubscribed = map[string]bool{
		"ping": true, "quit": true, "reset": true,
		"subscribe": true, "unsubscribe": true, "psubscribe": true, "punsubscribe": true,
	}
)

// memory returns the bytes that the transaction holds.
func (tx *transaction) memory() int64 {
	return int64(tx.bytes + (cap(tx.queued)+cap(tx.watched))*perQueued)
}

// close closes the stream on which the leader watches keys. It does nothing if tx is nil.
func (tx *transaction) close() {
	if tx != nil {
		tx.ownStream.Close()
		tx.ownStream = nil
	}
}

// reserve reports whether the transaction may hold copies of args. If so, it adds their size to the total, which is
// bounded by client-query-buffer-limit, like the size of a single command.
func (tx *transaction) reserve(args [][]byte, o *options.Options) bool {
	size := 0
	for _, arg := range args {
		size += len(arg) + perArgument
	}
	if int64(tx.bytes+size) > o.ClientQueryBufferLimit {
		return false
	}
	tx.bytes += size
	return true
}

const perArgument = 32 // bytes of memory overhead of an argument

// queue queues a command for EXEC, and returns the number of queued commands.
func (tx *transaction) queue(cmd *command, args [][]byte) int {
	tx.queued = append(tx.queued, queuedCommand{cmd: cmd, args: cloneAll(args)})
	return len(tx.queued)
}

func cloneAll(args [][]byte) [][]byte {
	clone := make([][]byte, len(args))
	for i, arg := range args {
		clone[i] = bytes.Clone(arg)
	}
	return clone
}

// watch stores the state of keys, so that EXEC can detect changes.
func (tx *transaction) watch(engine limiter.Engine, keys [][]byte) {
	if len(tx.watched) == 0 {
		tx.epoch = engine.LastWrite().Epoch
	}
	tx.lost = tx.lost || tx.ownStream != nil
	for _, key := range keys {
		entry, found := engine.Lookup(key)
		tx.watched = append(tx.watched, watchedKey{bytes.Clone(key), found, entry.State})
	}
}

// changed reports whether a watched key has changed. All keys count as changed if the engine has started a new epoch
// since the first key was watched, as after a loss of leadership.
func (tx *transaction) changed(engine limiter.Engine) bool {
	if len(tx.watched) > 0 && engine.LastWrite().Epoch != tx.epoch {
		return true
	}
	for _, w := range tx.watched {
		entry, found := engine.Lookup(w.key)
		if found != w.found || entry.State != w.state {
			return true
		}
	}
	return false
}

// touchesKeys reports whether the transaction watches keys or contains commands that need the leader.
func (tx *transaction) touchesKeys() bool { return len(tx.watched) > 0 || len(tx.forLeader()) > 0 }

// writes reports whether the transaction may change keys.
func (tx *transaction) writes() bool {
	for _, q := range tx.queued {
		if q.cmd.is(write) {
			return true
		}
	}
	return false
}

// forLeader returns the queued commands that only the leader can run.
func (tx *transaction) forLeader() (list []queuedCommand) {
	for _, q := range tx.queued {
		if q.cmd.needsLeader() && q.denied == nil {
			list = append(list, q)
		}
	}
	return list
}

// forwardable reports whether the transaction can be forwarded. It cannot be forwarded if the leader cannot verify all
// watched keys, or if the stream on which the leader watches keys uses another version of the Redis protocol.
func (tx *transaction) forwardable(protocol int) bool {
	return !tx.lost && len(tx.watched) == 0 && (tx.ownStream == nil || tx.ownStream.Protocol() == protocol)
}

// key returns the first key of the transaction, or nil.
func (tx *transaction) key() []byte {
	for _, q := range tx.queued {
		if keys := q.cmd.keysOf(q.args); len(keys) > 0 {
			return keys[0]
		}
	}
	return nil
}

func cmdMulti(c *client, _ [][]byte) error {
	if c.session.tx.queueing {
		return errNestedMulti
	}
	c.session.tx.queueing = true
	c.session.setInfo(func(i *clientInfo) { i.multi = 0 })
	c.out.OK()
	return nil
}

func cmdDiscard(c *client, _ [][]byte) error {
	if !c.session.tx.queueing {
		return errDiscardMulti
	}
	c.session.discard()
	c.out.OK()
	return nil
}

func cmdWatch(c *client, args [][]byte) error {
	tx := &c.session.tx
	if tx.queueing {
		return errWatchInMulti
	}
	if !tx.reserve(args[1:], c.srv.opts.Get()) {
		return errWatchTooLong
	}
	tx.watch(c.srv.engine, args[1:])
	c.out.OK()
	return nil
}

func cmdUnwatch(c *client, _ [][]byte) error {
	tx := &c.session.tx
	tx.ownStream.Close()
	*tx = transaction{running: tx.running, toInvalidate: tx.toInvalidate, pushed: tx.pushed} // no commands are queued when UNWATCH runs
	c.out.OK()
	return nil
}

// cmdExec runs the queued commands, unless a watched key has changed. While they run, no command of another client
// touches keys.
func cmdExec(c *client, _ [][]byte) error {
	if !c.session.tx.queueing {
		return errExecNoMulti
	}
	tx := c.session.takeTransaction()
	if tx.aborted {
		tx.close()
		return errExecAbort
	}
	c.permitQueued(tx)
	return c.pipe.execution.exec(tx)
}
