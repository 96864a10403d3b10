package server

import (
	"errors"
	"sync"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/ruleset/counts"
	"github.com/throttledhq/throttled/server/forward"
)

// batchSize is the maximum number of requests in one call to the engine. It is at least twice limiter.MaxGroup, since a
// call is never split: CL.CHECK has a group of live limits, and as many requests for shadow limits.
const batchSize = 64

// batch holds consecutive commands of a pipeline. They are either decided together on this node, or forwarded
// together. Keys and arguments point into the read buffer, so the commands of a batch must be answered before the
// next read.
type batch struct {
	stage      batchStage
	complete   bool // set if further commands must not be added
	forLeader  bool // all calls are forwarded
	calls      []call
	answered   int             // number of calls that have been answered
	callsArray [batchSize]call // initial backing array of the field calls
	args       [][]byte        // arguments of calls that may be forwarded

	parsing
	reqsArray [batchSize]limiter.Request  // backing array of the field reqs
	out       [batchSize]limiter.Decision // out[i] is the decision on reqs[i]

	waits     bool                // the replies must not be sent before the commit
	token     limiter.CommitToken // commit token of the decisions
	lost      error               // result of WaitCommitted for the token
	started   time.Duration       // uptime of the server when deciding or forwarding began
	forwarded forward.Batch
	decided   commandTally // decisions that are not counted yet
}

// parsing is passed to a parseFunc.
type parsing struct {
	logEntries int64  // input: value of the option window-log-max-entries, at least 1
	user       string // input: name of the user of the client; "" on a connection of another node
	fromNode   bool   // input: another node has forwarded the commands
	leased     bool   // input: this server is a sidecar, which decides a command with leased units or forwards it
	rule       ruleParsing

	// Results.
	reqs      []limiter.Request // requests of all parsed calls. All requests of a group except the last are Linked
	unit      time.Duration     // time unit of the reply to the last call
	limits    []appliedCounter  // of the last call, if it uses the rules
	shadows   int               // number of requests at the end of the last call that do not affect its outcome
	leftOut   bool              // shadow limits of the last call are left out; see rules.Matches
	inStats   bool              // the last call is counted in the statistics of the rules
	unmatched *counts.Limit     // counters of the domain of the last call, for a request that no limit applies to
	uncharged bool              // the last call is a report, and does not charge a live limit or a default that applies
	fills     bool              // counters that refuse the last call are filled; see batch.fill
	async     bool              // the reply to the last call need not wait for the commit of its charges
	draws     bool              // a call draws or returns units of a lease: its reply waits for the commit even in async mode
}

// add appends a request with a quantity, and returns it so that the caller can set the other fields.
func (p *parsing) add(quantity int64) *limiter.Request {
	p.reqs = append(p.reqs, limiter.Request{}) // a Request that is not zero would be copied
	req := &p.reqs[len(p.reqs)-1]
	req.Quantity = quantity
	return req
}

// batchStage is the next step of a batch.
type batchStage uint8

const (
	batchCollecting batchStage = iota // commands are added
	batchDecide                       // the engine decides the requests
	batchCommit                       // the decisions must be committed
	batchForward                      // calls without an outcome are sent to the leader
	batchAnswer                       // the calls are answered
)

// call is a command in a batch, and its outcome.
type call struct {
	cmd       *command
	from, n   int              // index of the first request, number of requests; both are 0 if the command was not parsed
	shadows   int              // number of requests at the end that do not affect the outcome
	leftOut   bool             // shadow limits are left out
	inStats   bool             // the call is counted in the statistics of the rules
	unmatched *counts.Limit    // counters of the domain, if the call is in the statistics
	uncharged bool             // the call is a report, and does not charge a live limit or a default that applies
	limits    []appliedCounter // counters of a call that uses the rules
	fills     bool             // counters that refuse the call are filled; see batch.fill
	unit      time.Duration    // time unit of the reply
	args      [][]byte         // arguments, if the command may be forwarded; otherwise nil
	tx        *transaction     // transaction that EXEC runs; nil for other commands
	accounted bool             // set if the call is added to the statistics elsewhere, not by finishCall

	done     bool // the outcome is known: err, reply or the decisions
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
func (c *call) ownStream() bool { return c.cmd.ownStream || c.tx != nil && c.tx.ownStream != nil }

var batches = sync.Pool{New: func() any {
	b := new(batch)
	b.calls, b.reqs = b.callsArray[:0], b.reqsArray[:0]
	return b
}}

// newBatch returns an empty batch. release returns it to the pool.
func newBatch() *batch { return batches.Get().(*batch) }

// configure sets the inputs of the parse functions for commands of a client. It must be called before commands are added.
func (b *batch) configure(c *client) {
	b.configureServer(c.srv)
	b.user, b.fromNode = c.userName(), c.listener.trusted
}

func (b *batch) configureServer(s *Server) {
	b.logEntries, b.leased, b.rule.state = int64(s.opts.Get().WindowLogMaxEntries), s.isSidecar(), &s.rules
}

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
	return !b.forLeader && len(b.reqs)+mostRequests(cmd, args) <= batchSize
}

// add parses a limiter command and adds the command to the batch. If the error is not nil, the batch is unchanged. If
// keep is set, add also keeps the arguments, so that the command can be forwarded.
func (b *batch) add(cmd *command, args [][]byte, keep bool) error {
	from := len(b.reqs)
	b.limits, b.shadows, b.leftOut, b.inStats, b.uncharged, b.fills, b.async = nil, 0, false, false, false, false, false
	if err := cmd.parse(&b.parsing, args); err != nil {
		b.reqs = b.reqs[:from]
		return err
	}
	c := call{cmd: cmd, from: from, n: len(b.reqs) - from, shadows: b.shadows, leftOut: b.leftOut, inStats: b.inStats, unmatched: b.unmatched, uncharged: b.uncharged, limits: b.limits, fills: b.fills, unit: b.unit, accounted: true}
	if keep {
		c.args = b.keep(args)
	}
	b.waits = b.waits || !b.async
	b.calls = append(b.calls, c)
	return nil
}

// addForLeader adds a call that must be forwarded to the leader.
func (b *batch) addForLeader(c call, args [][]byte) {
	b.forLeader = true
	c.args = b.keep(args)
	b.calls = append(b.calls, c)
}

// keep returns a copy of the slice args. The bytes of the arguments are not copied. The copy is valid until the batch
// is reset.
func (b *batch) keep(args [][]byte) [][]byte {
	from := len(b.args)
	b.args = append(b.args, args...)
	return b.args[from:len(b.args):len(b.args)]
}

// keepArgs is the maximum capacity of batch.args that reset keeps.
const keepArgs = 16 * batchSize

// reset removes all calls.
func (b *batch) reset() {
	if cap(b.calls) > batchSize { // append has moved the calls to a larger array; copies remain in callsArray
		clear(b.callsArray[:])
	}
	clear(b.calls)
	clear(b.args)
	b.stage, b.complete, b.forLeader, b.answered = batchCollecting, false, false, 0
	b.calls, b.reqs, b.args = b.callsArray[:0], b.reqsArray[:0], b.args[:0]
	b.lost, b.waits, b.draws = nil, false, false
	b.decided.flush()
	b.rule.reset()
	if cap(b.args) > keepArgs {
		b.args = nil
	}
	b.forwarded.Reset()
}

// decide passes the requests of all calls to the engine.
func (b *batch) decide(s *Server) (token limiter.CommitToken) {
	if b.rule.followUp {
		token = b.decideWithFollowUps(s)
	} else {
		token = s.engine.Decide(b.reqs, b.out[:len(b.reqs)])
	}
	if b.draws {
		b.countLeases()
	}
	return token
}

// awaitCommit waits until the replies may be sent. Usually this is when everything that the token covers is committed. If
// no limit of the batch requires a commit, it is when this node is known to be the leader. If the batch draws units of a
// lease, awaitCommit waits for the commit even in async mode, because the lessee spends the units wherever the leader is. The
// result is that of limiter.Engine.WaitCommitted. It is called after Flush: an error of Flush does not state whether changes of
// the token can be committed, and without an error, they are not committed if a new leadership began before the call.
func (b *batch) awaitCommit(s *Server, t limiter.CommitToken) error {
	if b.waits {
		if b.draws && s.cluster != nil {
			_ = s.cluster.Flush()
		}
		return s.engine.WaitCommitted(t)
	}
	err := s.engine.WaitCommitted(limiter.CommitToken{Epoch: t.Epoch})
	if isNotLeading(err) && t.Generation > 0 {
		return limiter.ErrUncertain // some of the changes may be committed
	}
	return err
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

// giveUp sets err as the outcome of all calls without an outcome.
func (b *batch) giveUp(err error) {
	for i := range b.calls {
		if !b.calls[i].done {
			b.calls[i].fail(err)
		}
	}
}

// share returns the time that one call took: the time since the batch was started, divided by the number of calls.
func (b *batch) share(now time.Duration) time.Duration {
	return (now - b.started) / time.Duration(len(b.calls))
}

// setOutcomes sets the outcomes of the calls after the engine has decided the batch. If forwards is set, calls that
// this node could not decide because it is not the leader get no outcome. setOutcomes returns the number of these
// calls.
func (b *batch) setOutcomes(forwards bool) (undone int) {
	for i := range b.calls {
		call := &b.calls[i]
		reqs, out := b.requests(call)
		err := call.outcome(reqs, out, b.lost)
		if forwards && isNotLeading(err) {
			undone++
			continue
		}
		call.done, call.err = true, err
	}
	return undone
}

// leastSpec is the minimum number of arguments of one limit: "WINDOW key limit period" in CL.ALL, or
// "CL.WINDOW key limit period" as a command.
const leastSpec = 4

// mostRequests returns an upper bound for the number of requests of a limiter command. For a command that uses the rules,
// the number is not known before it is parsed, so mostRequests returns 1. If the requests do not fit in the batch, the
// parseFunc of the command returns errBatchFull.
func mostRequests(cmd *command, args [][]byte) int {
	if cmd.rules {
		return 1
	}
	return min(len(args)/leastSpec, limiter.MaxGroup)
}

// errBatchFull is returned by batch.add if the command must be added to an empty batch.
var errBatchFull = errors.New("the batch is full")

// replyDecided appends the reply to a call whose decisions contain no error. If marks is set and the call has charged
// anything, ChargedMark precedes the reply.
func (b *batch) replyDecided(out *resp.Reply, call *call, marks bool, s *stats) {
	reqs, decisions := b.requests(call)
	if marks && charges(reqs, decisions) {
		out.Raw(chargedMark)
	}
	if !call.cmd.leases {
		b.decided.add(s.of(call.cmd), anyLimited(decisions[:call.n-call.shadows]) || anyFull(call.limits))
	}
	call.cmd.reply(out, b, call)
}

// anyLimited reports whether any decision is a refusal. In that case the whole command is refused.
func anyLimited(out []limiter.Decision) bool {
	for i := range out {
		if out[i].Limited {
			return true
		}
	}
	return false
}

// anyFull reports whether any counter of a live limit was filled without charging all units.
func anyFull(limits []appliedCounter) bool {
	for i := range limits {
		if limits[i].full && !limits[i].isShadow() {
			return true
		}
	}
	return false
}

var chargedMark = []byte(forward.ChargedMark)

// slowArgs returns the arguments that the slow log shows for a batch: the name and the keys of its first command, and a
// note if there are other commands.
func (b *batch) slowArgs() [][]byte {
	args := [][]byte{[]byte(b.calls[0].cmd.name)}
	for i := range b.reqs[:b.calls[0].n] {
		args = append(args, b.reqs[i].Key)
	}
	if len(b.calls) > 1 {
		args = append(args, []byte("... (and other commands of the batch)"))
	}
	return args
}
