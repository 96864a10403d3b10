package server

import (
	"sync"
	"time"

	"github.com/throttledhq/throttled/limiter"
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

	logEntries int64 // the option window-log-max-entries, at least 1
}

// call is a limiter command whose requests are in a batch.
type call struct {
	cmd  *command
	n    int           // requests
	unit time.Duration // in which times are answered
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// next adds a request, which is yet to be filled in.
func (b *batch) next() *limiter.Request {
	b.n++
	return &b.reqs[b.n-1]
}

// add adds a limiter command, or nothing if there is an error. There is room for it.
func (b *batch) add(cmd *command, args [][]byte) error {
	before := b.n
	unit, err := cmd.parse(b, args)
	if err != nil {
		b.n = before
		return err
	}
	b.calls[b.made] = call{cmd, b.n - before, unit}
	b.made++
	return nil
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
	return b.add(cmd, args)
}

// decide lets the engine decide what has been collected, and adds the replies.
func (c *client) decide() {
	b := c.batch
	if b == nil || b.made == 0 {
		return
	}
	reqs, out := b.reqs[:b.n], b.out[:b.n]
	start := c.srv.uptime()
	c.ask(reqs, out)
	took := c.srv.uptime() - start
	for i := range b.calls[:b.made] {
		call := &b.calls[i]
		c.replyCall(call, reqs[:call.n], out[:call.n])
		reqs, out = reqs[call.n:], out[call.n:]
	}
	c.accountBatch(b, took)
	b.made, b.n = 0, 0
}

// ask keeps a batch of decisions out of other clients' transactions.
func (c *client) ask(reqs []limiter.Request, out []limiter.Decision) {
	if !c.tx.running {
		c.srv.exec.RLock()
		defer c.srv.exec.RUnlock()
	}
	c.srv.engine.Decide(reqs, out)
}

// replyCall answers a limiter command. An error of one decision is that of its group.
func (c *client) replyCall(call *call, reqs []limiter.Request, out []limiter.Decision) {
	for i := range out {
		if out[i].Err != nil {
			c.fail(call.cmd, out[i].Err)
			return
		}
	}
	call.cmd.reply(c, call.unit, reqs, out)
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
		c.batch.made, c.batch.n = 0, 0
		batches.Put(c.batch)
		c.batch = nil
	}
}
