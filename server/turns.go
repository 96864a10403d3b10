package server

import "time"

const (
	// turnTime is the time after which a client that has more commands waits for the turns of clients whose commands have
	// arrived meanwhile. Pipelines of 100 commands take less.
	turnTime = 100 * time.Microsecond
	// clockEvery is the number of commands from one reading of the clock to the next. Shorter pipelines do not read it.
	clockEvery = 16
)

// turns is a semaphore that bounds the number of goroutines that run client commands concurrently.
//
// A node of a cluster must answer heartbeats within tens of milliseconds regardless of the number of clients. The Go
// scheduler has no priorities: a runnable goroutine of Raft queues behind all runnable clients. In addition, the
// runtime does not poll the network while all its processors are busy. If there are fewer turns than GOMAXPROCS, a
// processor is always free, so that Raft messages are read and handled immediately. Clients wait for a turn, in order
// of arrival, instead of waiting for a processor.
//
// A client holds its turn while it computes. It does not hold its turn while it waits for a commit, for the leader, or
// for its peer to read.
type turns struct {
	slots chan struct{} // nil if unlimited
}

func newTurns(n int) turns {
	if n <= 0 {
		return turns{}
	}
	return turns{slots: make(chan struct{}, n)}
}

// acquire waits for a turn. It returns immediately if the number of turns is unlimited.
func (t turns) acquire() {
	if t.slots != nil {
		t.slots <- struct{}{}
	}
}

// release releases a turn.
func (t turns) release() {
	if t.slots != nil {
		<-t.slots
	}
}

// turn is the turn of one client. Only the goroutine that runs the commands of the client may use it.
type turn struct {
	turns *turns
	held  bool
}

// acquire waits for a turn.
func (t *turn) acquire() {
	t.turns.acquire()
	t.held = true
}

// release releases the turn if it is held, and reports whether it was held.
func (t *turn) release() bool {
	if !t.held {
		return false
	}
	t.held = false
	t.turns.release()
	return true
}

// turnClock measures how long a client runs commands without a wait for further ones.
type turnClock struct {
	commands int           // of the turn
	began    time.Duration // uptime at the first reading of the clock in the turn; 0 before it
	long     bool          // the client has used up a turn: it is counted in pollQueue.long
}

// due counts a command that is about to run, and reports whether the caller must call over.
func (t *turnClock) due() bool {
	t.commands++
	return t.commands%clockEvery == 0
}

// over reports whether the turn has lasted longer than turnTime. The parameter now is the uptime.
func (t *turnClock) over(now time.Duration) bool {
	if t.began == 0 {
		t.began = now
	}
	return now-t.began > turnTime
}

// next waits until other clients whose commands have arrived run, and begins the next turn.
func (t *turnClock) next(q *pollQueue) {
	if !t.long {
		t.long = true
		q.long.Add(1)
	}
	q.wait()
	t.commands, t.began = 0, 0
}

// end must be called before a wait for further commands.
func (t *turnClock) end(q *pollQueue) {
	if t.long {
		q.long.Add(-1)
	}
	*t = turnClock{}
}
