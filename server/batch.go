package server

import (
	"sync"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/server/forward"
)

// batchSize is how many decisions go to the engine at once at the most. It is not below
// limiter.MaxGroup, as a group is never split.
const batchSize = 64

// batch holds consecutive commands of a pipeline, to be run together: limiter commands that this node decides, or
// commands that it forwards. Keys and arguments lie in the read buffer, so a batch is answered before the next read.
type batch struct {
	away  bool // all calls are to be forwarded
	calls []call
	room  [batchSize]call // of calls
	args  [][]byte        // of calls that may be forwarded

	// The requests of calls that are parsed, and the decisions on them.
	n    int
	reqs [batchSize]limiter.Request
	out  [batchSize]limiter.Decision

	forwarded  forward.Batch
	logEntries int64 // the option window-log-max-entries, at least 1
}

// call is a command in a batch, and its outcome.
type call struct {
	cmd       *command
	n         int           // requests; 0 if it is not parsed
	unit      time.Duration // of times in the reply
	args      [][]byte      // if it may be forwarded
	block     *transaction  // to be run by EXEC; nil for other commands
	accounted bool          // it counts in the statistics already

	done     bool
	err      error
	reply    []byte   // by another node; nil: the reply to the decisions
	elements [][]byte // of the reply to EXEC by the leader
}

func (c *call) answer(reply []byte) { c.done, c.reply = true, reply }
func (c *call) fail(err error)      { c.done, c.err = true, err }

// writes reports whether it matters if the call is run twice.
func (c *call) writes() bool {
	if c.block != nil {
		return c.block.writes()
	}
	return c.cmd.is(write | admin)
}

// key returns the first key of a command, or of a transaction, or nil.
func (c *call) key() []byte {
	if c.block != nil {
		return c.block.key()
	}
	if keys := c.cmd.keysOf(c.args); len(keys) > 0 {
		return keys[0]
	}
	return nil
}

var batches = sync.Pool{New: func() any {
	b := new(batch)
	b.calls = b.room[:0]
	return b
}}

// takes reports whether a command can be added.
func (b *batch) takes(cmd *command, args [][]byte, away bool) bool {
	switch {
	case len(b.calls) == 0:
		return true
	case away:
		return b.away && !cmd.ownStream
	}
	return !b.away && b.n+mostRequests(args) <= batchSize
}

// add adds a limiter command, or nothing if there is an error. keep keeps its arguments, so that it can be forwarded.
func (b *batch) add(cmd *command, args [][]byte, keep bool) error {
	reqs, unit, err := cmd.parse(b.reqs[:b.n], args, b.logEntries)
	if err != nil {
		return err
	}
	c := call{cmd: cmd, n: len(reqs) - b.n, unit: unit, accounted: true}
	if keep {
		c.args = b.keep(args)
	}
	b.calls, b.n = append(b.calls, c), len(reqs)
	return nil
}

// addAway adds a call that is to be forwarded.
func (b *batch) addAway(c call, args [][]byte) {
	b.away = true
	c.args = b.keep(args)
	b.calls = append(b.calls, c)
}

// keep returns a copy of args that is valid until the batch is reset.
func (b *batch) keep(args [][]byte) [][]byte {
	from := len(b.args)
	b.args = append(b.args, args...)
	return b.args[from:len(b.args):len(b.args)]
}

// keepArgs is the number of arguments that a batch keeps room for.
const keepArgs = 16 * batchSize

// reset forgets the calls.
func (b *batch) reset() {
	clear(b.calls)
	clear(b.args)
	b.away, b.n, b.calls, b.args = false, 0, b.room[:0], b.args[:0]
	if cap(b.args) > keepArgs {
		b.args = nil
	}
	b.forwarded.Reset()
}

// leastSpec is how many words the shortest limit of CL.ALL has, and how many a command for
// one limit has at the least.
const leastSpec = 4

// mostRequests returns how many requests a limiter command makes at the most.
func mostRequests(args [][]byte) int { return min(len(args)/leastSpec, limiter.MaxGroup) }

// replyCall answers a call with its decisions, none of which is an error.
func (c *client) replyCall(call *call, reqs []limiter.Request, out []limiter.Decision) {
	if c.marks && charges(reqs, out) {
		c.out.Raw(chargedMark)
	}
	call.cmd.reply(c, call.unit, reqs, out)
}

var chargedMark = []byte(forward.ChargedMark)

// ask lets a batch be decided, out of other clients' transactions, and waits until the client
// can be told. A transaction waits for all of its commands at its end.
func (c *client) ask(b *batch) error {
	if c.tx.running {
		c.noteBatch(b, c.srv.engine.Decide(b.reqs[:b.n], b.out[:b.n]))
		return nil
	}
	t := c.decideLocked(b)
	c.noteBatch(b, t)
	return c.awaitTicket(t)
}

func (c *client) decideLocked(b *batch) limiter.Ticket {
	c.srv.exec.RLock()
	defer c.srv.exec.RUnlock()
	return c.srv.engine.Decide(b.reqs[:b.n], b.out[:b.n])
}

// accountBatch adds a batch to what the server knows of itself. Each command has a share of
// the time by its requests; slow is the batch as a whole.
func (c *client) accountBatch(b *batch, took time.Duration) {
	for from := 0; from < len(b.calls); {
		cmd, to, n := b.calls[from].cmd, from, 0
		for to < len(b.calls) && b.calls[to].cmd == cmd {
			n += b.calls[to].n
			to++
		}
		c.srv.stats.of(cmd).add(to-from, took*time.Duration(n)/time.Duration(b.n))
		from = to
	}
	c.noteSlow(b.calls[0].cmd, took, b.slowArgs)
}

// slowArgs returns what the slow log shows of a batch: the keys of its first command.
func (b *batch) slowArgs() [][]byte {
	args := [][]byte{[]byte(b.calls[0].cmd.name)}
	for i := range b.reqs[:b.calls[0].n] {
		args = append(args, b.reqs[i].Key)
	}
	if len(b.calls) > 1 {
		args = append(args, []byte("... (a batch of decisions)"))
	}
	return args
}
