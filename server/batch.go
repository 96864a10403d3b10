package server

import (
	"sync"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// batchSize is how many decisions go to the engine at once at the most.
const batchSize = 64

// batch collects consecutive limiter commands of a pipeline. Their keys lie in the read
// buffer, so a batch is decided before the next read.
type batch struct {
	cmd  *command // the command of all of them
	n    int
	reqs [batchSize]limiter.Request
	out  [batchSize]limiter.Decision
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// enqueue adds a limiter command to the batch. Its reply comes with decide.
func (c *client) enqueue(cmd *command, args [][]byte) error {
	if c.batch == nil {
		c.batch = batches.Get().(*batch)
	}
	b := c.batch
	if b.n == batchSize || b.n > 0 && b.cmd != cmd {
		c.decide()
	}
	b.cmd = cmd
	if err := cmd.parse(args, &b.reqs[b.n]); err != nil {
		return err
	}
	b.n++
	return nil
}

// decide lets the engine decide what has been collected, and adds the replies.
func (c *client) decide() {
	b := c.batch
	if b == nil || b.n == 0 {
		return
	}
	reqs, out := b.reqs[:b.n], b.out[:b.n]
	start := c.srv.uptime()
	c.ask(reqs, out)
	took := c.srv.uptime() - start
	for i := range out {
		c.replyDecision(b.cmd, &out[i])
	}
	c.account(b.cmd, b.n, took, b.slowArgs)
	b.n = 0
}

// ask keeps a batch of decisions out of other clients' transactions.
func (c *client) ask(reqs []limiter.Request, out []limiter.Decision) {
	if !c.tx.running {
		c.srv.exec.RLock()
		defer c.srv.exec.RUnlock()
	}
	c.srv.engine.Decide(reqs, out)
}

// dropBatch gives the batch back until the next read. What it holds is forgotten.
func (c *client) dropBatch() {
	if c.batch != nil {
		c.batch.n = 0
		batches.Put(c.batch)
		c.batch = nil
	}
}

// slowArgs returns what the slow log shows of a batch.
func (b *batch) slowArgs() [][]byte {
	args := [][]byte{[]byte(b.cmd.name), b.reqs[0].Key}
	if b.n > 1 {
		args = append(args, []byte("... (a batch of decisions)"))
	}
	return args
}

// replyDecision adds the five integers of a decision.
func (c *client) replyDecision(cmd *command, d *limiter.Decision) {
	if d.Err != nil {
		c.fail(cmd, d.Err)
		return
	}
	c.out.Array(5)
	if d.Limited {
		c.out.Int(1)
		c.srv.stats.limited.Add(1)
	} else {
		c.out.Int(0)
	}
	c.out.Int(d.Limit)
	c.out.Int(d.Remaining)
	c.out.Int(limiter.Ceil(d.RetryAfter, time.Second))
	c.out.Int(limiter.Ceil(d.ResetAfter, time.Second))
}
