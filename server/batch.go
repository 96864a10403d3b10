package server

import (
	"sync"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/server/forward"
)

// batchSize is the maximum number of requests in one call of the engine. It is at least
// limiter.MaxGroup, since a group is never split.
const batchSize = 64

// batch holds consecutive commands of a pipeline that run together: limiter commands that this node decides, or
// commands that it forwards. Keys and arguments point into the read buffer, so a batch is settled before the next read.
type batch struct {
	away  bool // all calls are forwarded
	calls []call
	room  [batchSize]call // initial backing array of calls
	args  [][]byte        // arguments of calls that may be forwarded

	// The n requests of parsed calls, and the decisions on them.
	n    int
	reqs [batchSize]limiter.Request
	out  [batchSize]limiter.Decision

	forwarded  forward.Batch
	logEntries int64 // value of the option window-log-max-entries, at least 1
}

// call is a command in a batch and its outcome.
type call struct {
	cmd       *command
	n         int           // number of requests; 0 if the command is not parsed
	unit      time.Duration // unit of times in the reply
	args      [][]byte      // set if the command may be forwarded
	block     *transaction  // transaction that EXEC runs; nil for other commands
	accounted bool          // already counted in the statistics

	done     bool
	err      error
	reply    []byte   // encoded reply; nil if the reply is made from the decisions
	elements [][]byte // elements of the leader's reply to EXEC
}

func (c *call) answer(reply []byte) { c.done, c.reply = true, reply }
func (c *call) fail(err error)      { c.done, c.err = true, err }

// writes reports whether the call may change state, so that it must not run twice.
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

// takes reports whether a command can be added to the batch.
func (b *batch) takes(cmd *command, args [][]byte, away bool) bool {
	switch {
	case len(b.calls) == 0:
		return true
	case away:
		return b.away && !cmd.ownStream
	}
	return !b.away && b.n+mostRequests(args) <= batchSize
}

// add parses a limiter command and adds it. With an error the batch is unchanged. If keep is set, the arguments are
// kept so that the command can be forwarded.
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

// addAway adds a call to forward.
func (b *batch) addAway(c call, args [][]byte) {
	b.away = true
	c.args = b.keep(args)
	b.calls = append(b.calls, c)
}

// keep returns a copy of the slice args, not of the bytes, that is valid until the batch is reset.
func (b *batch) keep(args [][]byte) [][]byte {
	from := len(b.args)
	b.args = append(b.args, args...)
	return b.args[from:len(b.args):len(b.args)]
}

// keepArgs is the maximum capacity of batch.args that reset keeps.
const keepArgs = 16 * batchSize

// reset removes all calls.
func (b *batch) reset() {
	if cap(b.calls) > batchSize { // the calls have outgrown room, and left copies there
		clear(b.room[:])
	}
	clear(b.calls)
	clear(b.args)
	b.away, b.n, b.calls, b.args = false, 0, b.room[:0], b.args[:0]
	if cap(b.args) > keepArgs {
		b.args = nil
	}
	b.forwarded.Reset()
}

// leastSpec is the minimum number of arguments of a limit in CL.ALL, and of a command for one
// limit including its name.
const leastSpec = 4

// mostRequests returns an upper bound of the number of requests of a limiter command.
func mostRequests(args [][]byte) int { return min(len(args)/leastSpec, limiter.MaxGroup) }

// replyCall appends the reply to a call whose decisions contain no error.
func (c *client) replyCall(call *call, reqs []limiter.Request, out []limiter.Decision) {
	if c.marks && charges(reqs, out) {
		c.out.Raw(chargedMark)
	}
	if anyLimited(out) {
		c.srv.stats.limited.Add(1)
	}
	call.cmd.reply(&c.out, call.unit, reqs, out)
}

// anyLimited reports whether any decision refuses, so that the command is refused.
func anyLimited(out []limiter.Decision) bool {
	for i := range out {
		if out[i].Limited {
			return true
		}
	}
	return false
}

var chargedMark = []byte(forward.ChargedMark)

// ask has the engine decide a batch, isolated from the transactions of other clients, and waits
// until the result may be sent. Within EXEC it does not wait: EXEC waits once for all commands.
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

// accountBatch adds a batch to the statistics. Each command is charged a part of took in proportion to
// its requests; the slow log and the latency monitor see the batch as one run of its first command.
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

// slowArgs returns the arguments of a batch for the slow log: the name and the keys of its first command.
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
