package server

// turns bounds the number of goroutines that run commands of clients at the same time.
//
// A node of a cluster has to answer heartbeats within tens of milliseconds however many clients it
// serves. The Go scheduler has no priorities: a goroutine of Raft that becomes runnable queues behind
// every client that is, and while all processors of the runtime are busy nobody polls the network. With
// fewer turns than GOMAXPROCS there is always a processor left, so that what Raft waits for is read and
// handled at once. Clients wait for a turn, in order of arrival, in place of waiting for a processor.
//
// A client holds its turn while it computes, and never while it waits: for a commit, for the leader, or for
// its peer to read.
type turns struct {
	slots chan struct{} // nil: there is no bound
}

func newTurns(n int) turns {
	if n <= 0 {
		return turns{}
	}
	return turns{slots: make(chan struct{}, n)}
}

// take waits for a turn. It returns at once if there is no bound.
func (t turns) take() {
	if t.slots != nil {
		t.slots <- struct{}{}
	}
}

// give ends a turn that was taken.
func (t turns) give() {
	if t.slots != nil {
		<-t.slots
	}
}

// runTurn is runAll within a turn.
func (c *client) runTurn() bool {
	c.takeTurn()
	defer c.giveTurn()
	return c.runAll()
}

func (c *client) takeTurn() {
	c.srv.turns.take()
	c.inTurn = true
}

// giveTurn ends the turn of the client, if it has one, and reports whether it had. Like the methods below it is for the
// goroutine that serves the client.
func (c *client) giveTurn() bool {
	if !c.inTurn {
		return false
	}
	c.inTurn = false
	c.srv.turns.give()
	return true
}

// pause is a wait for the cluster that a client has begun.
type pause struct {
	outermost bool // no other wait is around it
	hadTurn   bool
}

// pause begins a wait for the cluster: timeouts are suspended, and the turn is free for another client.
func (c *client) pause() pause {
	return pause{outermost: !c.awaiting.Swap(true), hadTurn: c.giveTurn()}
}

// resume ends the wait that p began.
func (c *client) resume(p pause) {
	if p.hadTurn {
		c.takeTurn()
	}
	if p.outermost {
		c.awaiting.Store(false)
	}
}
