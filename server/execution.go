package server

import (
	"sync"

	"github.com/throttledhq/throttled/limiter"
)

// execution runs one command or transaction on this node, in steps: it runs the command and, if the command touches
// keys, waits until everything that was written or read is committed. An execution is part of a pipeline. As with the
// pipeline, any goroutine may call the next step.
type execution struct {
	client  *client
	long    *longToken
	charged *era
	lock    execLock

	stage        runStage
	cmd          *command
	args         [][]byte
	tx           *transaction // transaction of EXEC
	limiterBatch *batch       // batch with the current limiter command only; nil for other commands
	replyStart   int          // length of out before the reply to the command
	keys         bool         // the command touches keys; the next three fields are then set
	writes       bool
	before       limiter.CommitToken // last write before the command
	after        limiter.CommitToken // last write after the command
	err          error
}

// runStage is the next step of an execution.
type runStage uint8

const (
	runIdle        runStage = iota // nothing runs
	runStart                       // run the command
	runCheckCommit                 // the command has run: check whether it must wait for a commit
	runCommit                      // the wait for the commit has begun; the command is done after the wait
	runDone
)

func (e *execution) init(c *client) {
	e.client, e.long, e.charged, e.lock.rw = c, &c.pipe.long, &c.pipe.charged, &c.srv.exec
}

// begin starts a command. If tx is not nil, it is the transaction that EXEC runs.
func (e *execution) begin(cmd *command, args [][]byte, tx *transaction) {
	e.stage, e.cmd, e.args, e.tx = runStart, cmd, args, tx
	e.replyStart = e.client.out.Len()
}

// advance runs steps until the command is done or must wait.
func (e *execution) advance() need {
	switch e.stage {
	case runStart:
		if !e.cmd.is(fast) {
			e.stage = runCheckCommit
			return needCommand
		}
		if !e.lock.try(e.lockMode()) {
			return needLock
		}
		e.err = e.run()
		fallthrough
	case runCheckCommit:
		if e.mustAwait() {
			e.stage = runCommit
			return needCommit
		}
	}
	e.stage = runDone
	return needNothing
}

// finish resets the execution after a command is done, and returns the error of the command. If a command that touches
// keys failed, its replies are dropped.
func (e *execution) finish() error {
	err := e.err
	if err != nil && e.keys {
		e.client.out.Truncate(e.replyStart, keepOut)
	}
	if e.limiterBatch != nil {
		if err == nil {
			e.limiterBatch.replyDecided(&e.client.out, &e.limiterBatch.calls[0], e.client.session.marksCharges, &e.client.srv.stats)
		}
		e.limiterBatch.release()
		e.limiterBatch = nil
	}
	e.stage, e.keys, e.tx, e.err = runIdle, false, nil, nil
	return err
}

// idle drops references to the arguments of the last command.
func (e *execution) idle() { e.args = nil }

// close releases the resources of an execution that was interrupted.
func (e *execution) close() {
	e.lock.release()
	e.tx.close()
}

// runSlow runs a command that is not fast. If the reply may be long, it first acquires the longToken. Other clients may
// be waiting for that token, so e.run must not wait for the cluster or for memory.
func (e *execution) runSlow() {
	if e.cmd.long {
		if !e.long.acquire() {
			e.err = errHungUp
			e.client.pipe.abort()
			return
		}
		defer e.long.release()
	}
	e.err = e.run()
	if e.cmd.long {
		e.client.conn.usage.set(&e.client.conn.usage.replies, int64(e.client.out.Size()))
	}
}

// run runs the command or the transaction. If keys are read or changed, run prevents a transfer of leadership until the
// command is done. A limiter command does not need this: it makes a single call of the engine, or batch.decideWithFollowUps does
// the same.
func (e *execution) run() error {
	switch {
	case e.tx != nil:
		return e.runTransaction()
	case e.cmd.parse != nil:
		return e.decide()
	case !e.cmd.touchesKeys():
		return e.runLocked()
	}
	e.keys, e.writes = true, e.cmd.is(write)
	return e.runWithHold()
}

// runWithHold runs a command or transaction that touches keys, and prevents a transfer of leadership until it is done.
// The error is limiter.ErrNotLeading if this node is not the leader.
func (e *execution) runWithHold() error {
	srv := e.client.srv
	if !srv.hold() {
		return limiter.ErrNotLeading
	}
	defer srv.release()
	e.before = srv.engine.LastWrite()
	err := e.runLocked()
	e.after = srv.engine.LastWrite()
	return err
}

// runLocked runs the command under the exec lock, in the mode that lockMode returns. A transaction always holds the
// lock exclusively.
func (e *execution) runLocked() error {
	if e.tx != nil {
		e.runExclusively()
		return nil
	}
	if !e.cmd.is(fast) { // for a fast command, advance has acquired the lock
		e.lock.acquire(e.lockMode())
	}
	defer e.lock.release()
	return e.cmd.run(e.client, e.args)
}

// decide passes a limiter command to the engine.
func (e *execution) decide() error {
	defer e.lock.release()
	e.limiterBatch = newBatch()
	e.limiterBatch.configure(e.client)
	if err := e.limiterBatch.add(e.cmd, e.args, false); err != nil {
		return err
	}
	e.after = e.limiterBatch.decide(e.client.srv)
	e.charged.recordDecisions(e.limiterBatch, e.after)
	e.before, e.keys = e.after, true
	return nil
}

// mustAwait reports whether the execution must wait for the commit. If the outcome is already known, mustAwait sets
// e.err and returns false.
func (e *execution) mustAwait() bool {
	switch {
	case e.err != nil || !e.keys:
		return false
	case e.after.Epoch != e.before.Epoch: // leadership has changed while the command ran
		e.err = unacknowledgedError(limiter.ErrUncertain, e.writes)
		return false
	case e.after == limiter.CommitToken{}:
		e.awaitCommit() // returns immediately: the zero token belongs to no leadership
		return false
	}
	return true
}

// awaitCommit waits until everything that was written or read between e.before and e.after is committed, so that the
// reply may be sent. It sets e.err to limiter.ErrUncertain if a write may or may not be committed. It sets e.err to
// limiter.ErrNotLeading if the commit failed and the command only reads, or if leadership was already lost before the
// command.
func (e *execution) awaitCommit() {
	engine := e.client.srv.engine
	if e.limiterBatch != nil {
		err := e.limiterBatch.awaitCommit(e.client.srv, e.after)
		reqs, decisions := e.limiterBatch.requests(&e.limiterBatch.calls[0])
		e.err = e.limiterBatch.calls[0].outcome(reqs, decisions, err)
		return
	}
	err := engine.WaitCommitted(e.after)
	if isNotLeading(err) && !isNotLeading(engine.WaitCommitted(e.before)) {
		err = limiter.ErrUncertain // this node was the leader before the command, but not after it
	}
	e.err = unacknowledgedError(err, e.writes)
}

// lockMode returns the mode in which a command holds the exec lock. A command that deletes several keys, or all keys,
// holds the lock exclusively, so that no CL.ALL is charged between two deletions.
func (e *execution) lockMode() lockMode {
	several := len(e.args) > 2 || e.cmd.keys.first == 0
	switch {
	case e.cmd.parse != nil:
		return lockShared
	case e.cmd.is(write) && several:
		return lockExclusive
	case e.cmd.is(write) || e.cmd.keys.first > 0:
		return lockShared
	}
	return lockNone
}

// lockMode is the mode in which a client holds Server.exec.
type lockMode uint8

const (
	lockNone lockMode = iota
	lockShared
	lockExclusive
)

// execLock is Server.exec as one client uses it. It records whether the client holds the lock, and in which mode. The
// lock may be acquired by one goroutine and released by another.
type execLock struct {
	rw   *sync.RWMutex
	mode lockMode // the mode that is held, or was requested last
	held bool
}

// try acquires the lock if it can do so without waiting, and reports whether the lock is held.
func (l *execLock) try(mode lockMode) bool {
	if l.held || mode == lockNone {
		return true
	}
	l.mode = mode
	if mode == lockShared {
		l.held = l.rw.TryRLock()
	} else {
		l.held = l.rw.TryLock()
	}
	return l.held
}

// wait acquires the lock in the mode of the last try, which failed.
func (l *execLock) wait() {
	if l.mode == lockShared {
		l.rw.RLock()
	} else {
		l.rw.Lock()
	}
	l.held = true
}

// acquire acquires the lock unless it is already held.
func (l *execLock) acquire(mode lockMode) {
	if !l.try(mode) {
		l.wait()
	}
}

// release releases the lock if it is held.
func (l *execLock) release() {
	if !l.held {
		return
	}
	l.held = false
	if l.mode == lockShared {
		l.rw.RUnlock()
	} else {
		l.rw.Unlock()
	}
}
