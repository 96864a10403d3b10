package server

import (
	"bytes"

	"github.com/throttledhq/throttled/server/forward"
)

// transaction is the state of MULTI and WATCH until EXEC or DISCARD.
type transaction struct {
	queueing bool
	running  bool // EXEC runs the queued commands
	spoiled  bool // a command was refused while queueing: EXEC fails
	queued   []queuedCommand
	bytes    int // size of the queued arguments and the watched keys
	watched  []watchedKey
	term     uint64         // term of the engine when the first key was watched
	own      *forward.Watch // stream on which the leader watches keys for the client
	lost     bool           // the state of watched keys cannot be verified any more: EXEC fails
	pushed   []byte         // messages to append after the reply to EXEC
	read     [][]byte       // keys to invalidate after the reply to EXEC
}

// memory returns the bytes that the transaction holds.
func (tx *transaction) memory() int64 {
	return int64(tx.bytes + (cap(tx.queued)+cap(tx.watched))*perQueued)
}

const perQueued = 48 // bytes of memory of a command or a key in its list

type queuedCommand struct {
	cmd  *command
	args [][]byte
}

type watchedKey struct {
	key   []byte
	found bool
	state uint64
}

// runsInMulti are the commands that run immediately between MULTI and EXEC. worksSubscribed are the
// commands that a RESP2 connection may send while it is subscribed.
var (
	runsInMulti = map[string]bool{
		"exec": true, "discard": true, "multi": true, "watch": true, "quit": true, "reset": true,
	}
	worksSubscribed = map[string]bool{
		"ping": true, "quit": true, "reset": true,
		"subscribe": true, "unsubscribe": true, "psubscribe": true, "punsubscribe": true,
	}
)

// queue queues a command for EXEC.
func (c *client) queue(cmd *command, args [][]byte) {
	if !c.keep(args) {
		c.reject(cmd, errQueueTooLong)
		return
	}
	c.tx.queued = append(c.tx.queued, queuedCommand{cmd, cloneAll(args)})
	c.show(func(p *clientInfo) { p.multi = len(c.tx.queued) })
	c.out.Status("QUEUED")
}

// keep reports whether the transaction may hold copies of args, and adds their size if so. The total
// is bounded by client-query-buffer-limit, as one command is.
func (c *client) keep(args [][]byte) bool {
	size := 0
	for _, arg := range args {
		size += len(arg) + perArgument
	}
	if int64(c.tx.bytes+size) > c.srv.opts.Get().ClientQueryBufferLimit {
		return false
	}
	c.tx.bytes += size
	return true
}

const perArgument = 32 // bytes of memory overhead of an argument

func cloneAll(args [][]byte) [][]byte {
	clone := make([][]byte, len(args))
	for i, arg := range args {
		clone[i] = bytes.Clone(arg)
	}
	return clone
}

// discard drops the transaction and the watched keys.
func (c *client) discard() {
	c.tx.own.Close()
	c.tx = transaction{}
	c.show(func(p *clientInfo) { p.multi = -1 })
}

func cmdMulti(c *client, _ [][]byte) error {
	if c.tx.queueing {
		return errNestedMulti
	}
	c.tx.queueing = true
	c.show(func(p *clientInfo) { p.multi = 0 })
	c.out.OK()
	return nil
}

func cmdDiscard(c *client, _ [][]byte) error {
	if !c.tx.queueing {
		return errDiscardMulti
	}
	c.discard()
	c.out.OK()
	return nil
}

func cmdWatch(c *client, args [][]byte) error {
	if c.tx.queueing {
		return errWatchInMulti
	}
	if !c.keep(args[1:]) {
		return errWatchTooLong
	}
	if len(c.tx.watched) == 0 {
		c.tx.term = c.srv.engine.Mark().Term
	}
	c.tx.lost = c.tx.lost || c.tx.own != nil
	for _, key := range args[1:] {
		entry, found := c.srv.engine.Lookup(key)
		c.tx.watched = append(c.tx.watched, watchedKey{bytes.Clone(key), found, entry.State})
	}
	c.out.OK()
	return nil
}

func cmdUnwatch(c *client, _ [][]byte) error {
	c.tx.own.Close()
	c.tx = transaction{running: c.tx.running, read: c.tx.read, pushed: c.tx.pushed} // outside MULTI nothing is queued
	c.out.OK()
	return nil
}

// cmdExec runs the queued commands while no other client's command touches keys, unless a watched key
// has changed.
func cmdExec(c *client, _ [][]byte) error {
	if !c.tx.queueing {
		return errExecNoMulti
	}
	tx := c.tx
	c.tx.own = nil
	c.discard()
	defer tx.own.Close()
	switch {
	case tx.spoiled:
		return errExecAbort
	case tx.own != nil || tx.lost || tx.touchesKeys() && !c.leads():
		return c.execElsewhere(&tx)
	}
	err := c.execHere(&tx)
	if errLost(err) && c.passesOn() {
		return c.execElsewhere(&tx)
	}
	return err
}

// execHere runs a transaction on this node, and waits until its reply may be sent.
func (c *client) execHere(tx *transaction) error {
	at := c.out.Len()
	if !tx.touchesKeys() {
		c.execLocked(tx)
		return nil
	}
	err := c.runHeld(tx.writes(), func() error { c.execLocked(tx); return nil })
	if err != nil {
		c.out.Truncate(at, keepOut)
	}
	return err
}

func (c *client) execLocked(tx *transaction) {
	c.srv.exec.Lock()
	defer c.srv.exec.Unlock()
	if tx.own != nil || tx.lost || c.changed(tx) {
		c.out.NullArray()
		return
	}
	c.out.Array(len(tx.queued))
	c.runQueued(tx.queued)
}

// maxExecReply is the maximum size in bytes of the replies of a transaction. Small requests can
// have large replies, and nothing is written before EXEC is done. A transaction that exceeds the
// limit runs no further commands, and its connection is closed.
const maxExecReply = 16 << 20

func (c *client) runQueued(queued []queuedCommand) {
	c.tx.running = true
	for _, q := range queued {
		c.execute(q.cmd, q.args)
		c.usage.set(&c.usage.replies, int64(c.out.Size()))
		if c.out.Len() > maxExecReply {
			c.cut = true
			break
		}
	}
	c.settle()
	c.endRunning()
}

// endRunning appends the invalidations and messages that are sent after the reply to EXEC.
func (c *client) endRunning() {
	c.tx.running = false
	c.invalidate(c.tx.read)
	c.out.Raw(c.tx.pushed)
	c.tx.read, c.tx.pushed = nil, nil
}

// changed reports whether a watched key has changed. All keys count as changed if the engine has
// started a new term since they were watched, as after a loss of leadership.
func (c *client) changed(tx *transaction) bool {
	if len(tx.watched) > 0 && c.srv.engine.Mark().Term != tx.term {
		return true
	}
	for _, w := range tx.watched {
		entry, found := c.srv.engine.Lookup(w.key)
		if found != w.found || entry.State != w.state {
			return true
		}
	}
	return false
}
