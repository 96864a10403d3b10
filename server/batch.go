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

// batch collects consecutive limiter commands of a pipeline. Their keys lie in the read
// buffer, so a batch is decided before the next read.
type batch struct {
	made  int // calls, those whose requests are complete
	n     int // requests
	calls [batchSize]call
	reqs  [batchSize]limiter.Request
	out   [batchSize]limiter.Decision
	// args are those of the calls, which are kept where they may have to be made elsewhere.
	args [][]byte

	logEntries int64 // the option window-log-max-entries, at least 1
}

// call is a limiter command whose requests are in a batch.
type call struct {
	cmd  *command
	n    int           // requests
	unit time.Duration // in which times are answered
	args int           // how many, of those that are kept
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// add adds a limiter command, or nothing if there is an error. There is room for it.
func (b *batch) add(cmd *command, args [][]byte) error {
	reqs, unit, err := cmd.parse(b.reqs[:b.n], args, b.logEntries)
	if err != nil {
		return err
	}
	b.calls[b.made] = call{cmd: cmd, n: len(reqs) - b.n, unit: unit}
	b.n = len(reqs)
	b.made++
	return nil
}

// keep keeps the arguments of the call that was added last.
func (b *batch) keep(args [][]byte) {
	b.args = append(b.args, args...)
	b.calls[b.made-1].args = len(args)
}

// empty forgets what has been collected.
func (b *batch) empty() {
	b.made, b.n = 0, 0
	clear(b.args)
	b.args = b.args[:0]
}

// leastSpec is how many words the shortest limit of CL.ALL has, and how many a command for
// one limit has at the least.
const leastSpec = 4

// mostRequests returns how many requests a limiter command makes at the most.
func mostRequests(args [][]byte) int { return min(len(args)/leastSpec, limiter.MaxGroup) }

// enqueue adds a limiter command to the batch. Its reply comes with decide.
func (c *client) enqueue(cmd *command, args [][]byte) error {
	if c.batch == nil {
		c.batch = batches.Get().(*batch)
	}
	b := c.batch
	if b.n+mostRequests(args) > batchSize {
		c.decide()
	}
	b.logEntries = int64(c.srv.opts.Get().WindowLogMaxEntries)
	err := b.add(cmd, args)
	if err == nil && c.srv.cluster != nil {
		b.keep(args)
	}
	return err
}

// settle answers all that has been collected, here or elsewhere.
func (c *client) settle() {
	c.decide()
	c.forwardAll()
}

// decide lets the engine decide what has been collected, and adds the replies once they can be
// given. What it does not decide any more is collected to be decided elsewhere.
func (c *client) decide() {
	b := c.batch
	if b == nil || b.made == 0 {
		return
	}
	start := c.srv.uptime()
	lost := c.ask(b)
	took := c.srv.uptime() - start
	reqs, out, args := b.reqs[:b.n], b.out[:b.n], b.args
	for i := range b.calls[:b.made] {
		call := &b.calls[i]
		if err := call.outcome(reqs[:call.n], out[:call.n], lost); err == nil && len(c.sent.list) == 0 {
			c.replyCall(call, reqs[:call.n], out[:call.n])
		} else if errLost(err) && c.passesOn() {
			c.sent.add(call.cmd, args[:call.args], true)
		} else {
			c.answerCall(call, err, reqs, out)
		}
		reqs, out, args = reqs[call.n:], out[call.n:], args[call.args:]
	}
	c.accountBatch(b, took)
	b.empty()
}

// answerCall answers a call behind others that have to be decided elsewhere, or one that failed.
func (c *client) answerCall(call *call, err error, reqs []limiter.Request, out []limiter.Decision) {
	c.forwardAll()
	if err != nil {
		c.fail(call.cmd, err)
		return
	}
	c.replyCall(call, reqs[:call.n], out[:call.n])
}

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
	for from := 0; from < b.made; {
		cmd, to, n := b.calls[from].cmd, from, 0
		for to < b.made && b.calls[to].cmd == cmd {
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
	if b.made > 1 {
		args = append(args, []byte("... (a batch of decisions)"))
	}
	return args
}

// dropBatch gives the batch back until the next read. What it holds is forgotten.
func (c *client) dropBatch() {
	if c.batch != nil {
		c.batch.empty()
		batches.Put(c.batch)
		c.batch = nil
	}
}
