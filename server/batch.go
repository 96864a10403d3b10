package server

import (
	"sync"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/server/forward"
)

// batchSize is the maximum number of requests in one call to the engine. It is at least limiter.MaxGroup, since a group
// is never split.
const batchSize = 64

// batch holds consecutive commands of a pipeline that are decided together on this node, or forwarded together. Keys
// and arguments point into the read buffer, so a batch is settled before the next read.
type batch struct {
	stage     batchStage
	forLeader bool // all calls are forwarded
	calls     []call
	answered  int             // number of calls that have been answered
	room      [batchSize]call // initial backing array of calls
	args      [][]byte        // arguments of calls that may be forwarded

	// The first n elements are the requests of parsed calls, and their decisions.
	n    int
	reqs [batchSize]limiter.Request
	out  [batchSize]limiter.Decision

	token      limiter.CommitToken // commit token of the decisions
	lost       error               // error of WaitCommitted for token
	started    time.Duration       // time at which deciding or forwarding started
	forwarded  forward.Batch
	logEntries int64 // value of the option window-log-max-entries, at least 1
}

// batchStage is the next step of a batch.
type batchStage uint8

const (
	batchCollecting batchStage = iota // commands are added
	batchDecide                       // the engine decides the requests
	batchCommit                       // the decisions must be committed
	batchForward                      // calls that are not done are sent to the leader
	batchAnswer                       // the calls are answered
)

// call is a command in a batch, and its outcome.
type call struct {
	cmd       *command
	from, n   int           // index of the first request and number of requests; 0 if the command is not parsed
	unit      time.Duration // time unit of the reply
	args      [][]byte      // set if the command may be forwarded
	tx        *transaction  // transaction that EXEC runs; nil for other commands
	accounted bool          // already counted in the statistics

	done     bool
	replied  bool // the reply has been appended
	err      error
	reply    []byte   // encoded reply; nil if the reply is made from the decisions
	elements [][]byte // elements of the leader's reply to EXEC
}

func (c *call) answer(reply []byte) { c.done, c.reply = true, reply }
func (c *call) fail(err error)      { c.done, c.err = true, err }

// writes reports whether the call may change state, so that it must not run twice.
func (c *call) writes() bool {
	if c.tx != nil {
		return c.tx.writes()
	}
	return c.cmd.is(write | admin)
}

// key returns the first key of the command or transaction, or nil if there is none.
func (c *call) key() []byte {
	if c.tx != nil {
		return c.tx.key()
	}
	if keys := c.cmd.keysOf(c.args); len(keys) > 0 {
		return keys[0]
	}
	return nil
}

// ownStream reports whether the call is forwarded over the stream on which the leader watches keys for the client.
func (c *call) ownStream() bool { return c.cmd.ownStream || c.tx != nil && c.tx.own != nil }

var batches = sync.Pool{New: func() any {
	b := new(batch)
	b.calls = b.room[:0]
	return b
}}

// newBatch returns an empty batch. release returns it to the pool.
func newBatch() *batch { return batches.Get().(*batch) }

func (b *batch) release() {
	b.reset()
	batches.Put(b)
}

// takes reports whether a command can be added to the batch. forLeader reports whether the leader must run the command.
func (b *batch) takes(cmd *command, args [][]byte, forLeader bool) bool {
	switch {
	case len(b.calls) == 0:
		return true
	case forLeader:
		return b.forLeader && !cmd.ownStream
	}
	return !b.forLeader && b.n+mostRequests(args) <= batchSize
}

// add parses a limiter command and adds it. If add returns an error, the batch is unchanged. If keep is set, the
// arguments are kept so that the command can be forwarded.
func (b *batch) add(cmd *command, args [][]byte, keep bool) error {
	reqs, unit, err := cmd.parse(b.reqs[:b.n], args, b.logEntries)
	if err != nil {
		return err
	}
	c := call{cmd: cmd, from: b.n, n: len(reqs) - b.n, unit: unit, accounted: true}
	if keep {
		c.args = b.keep(args)
	}
	b.calls, b.n = append(b.calls, c), len(reqs)
	return nil
}

// addForLeader adds a call to forward.
func (b *batch) addForLeader(c call, args [][]byte) {
	b.forLeader = true
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
	if cap(b.calls) > batchSize { // the calls were moved to a larger array; room still holds copies
		clear(b.room[:])
	}
	clear(b.calls)
	clear(b.args)
	b.stage, b.forLeader, b.answered, b.n, b.calls, b.args = batchCollecting, false, 0, 0, b.room[:0], b.args[:0]
	b.lost = nil
	if cap(b.args) > keepArgs {
		b.args = nil
	}
	b.forwarded.Reset()
}

// requests returns the requests of a parsed call and the decisions on them.
func (b *batch) requests(c *call) ([]limiter.Request, []limiter.Decision) {
	return b.reqs[c.from : c.from+c.n], b.out[c.from : c.from+c.n]
}

// undone returns the number of calls without an outcome.
func (b *batch) undone() (n int) {
	for i := range b.calls {
		n += countTrue(!b.calls[i].done)
	}
	return n
}

// giveUp fails the calls without an outcome.
func (b *batch) giveUp(err error) {
	for i := range b.calls {
		if !b.calls[i].done {
			b.calls[i].fail(err)
		}
	}
}

// share returns the time since the batch was started, divided by the number of calls.
func (b *batch) share(now time.Duration) time.Duration {
	return (now - b.started) / time.Duration(len(b.calls))
}

// setOutcomes sets the outcomes of the calls in a decided batch. If forwards is set, calls that this node could not
// decide because it is not the leader remain undone. setOutcomes returns the number of undone calls.
func (b *batch) setOutcomes(forwards bool) (undone int) {
	for i := range b.calls {
		call := &b.calls[i]
		reqs, out := b.requests(call)
		err := call.outcome(reqs, out, b.lost)
		if forwards && errLost(err) {
			undone++
			continue
		}
		call.done, call.err = true, err
	}
	return undone
}

// leastSpec is the minimum number of arguments of a limit in CL.ALL, and of a single-limit command including its name.
const leastSpec = 4

// mostRequests returns an upper bound for the number of requests of a limiter command.
func mostRequests(args [][]byte) int { return min(len(args)/leastSpec, limiter.MaxGroup) }

// replyDecided appends the reply to a call whose decisions contain no error. If marks is set, the reply to a call that
// charged something is marked.
func (b *batch) replyDecided(out *resp.Reply, call *call, marks bool, s *stats) {
	reqs, decisions := b.requests(call)
	if marks && charges(reqs, decisions) {
		out.Raw(chargedMark)
	}
	if anyLimited(decisions) {
		s.limited.Add(1)
	}
	call.cmd.reply(out, call.unit, reqs, decisions)
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
