package server

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
