package server

// turns is a semaphore that bounds the number of goroutines that run client commands concurrently.
//
// A node of a cluster must answer heartbeats within tens of milliseconds regardless of the number of
// clients. The Go scheduler has no priorities: a runnable goroutine of Raft queues behind all runnable
// clients, and while all processors of the runtime are busy the network is not polled. With fewer turns
// than GOMAXPROCS a processor is always free, so that Raft messages are read and handled immediately.
// Clients wait for a turn in order of arrival, instead of waiting for a processor.
//
// A client holds its turn while it computes, and never while it waits: for a commit, for the leader, or for
// its peer to read.
type turns struct {
	slots chan struct{} // nil if unlimited
}

func newTurns(n int) turns {
	if n <= 0 {
		return turns{}
	}
	return turns{slots: make(chan struct{}, n)}
}

// take waits for a turn. It returns immediately if the number is unlimited.
func (t turns) take() {
	if t.slots != nil {
		t.slots <- struct{}{}
	}
}

// give releases a turn.
func (t turns) give() {
	if t.slots != nil {
		<-t.slots
	}
}

// runTurn calls runAll while it holds a turn.
func (c *client) runTurn() bool {
	c.takeTurn()
	defer c.giveTurn()
	return c.runAll()
}

func (c *client) takeTurn() {
	c.srv.turns.take()
	c.inTurn = true
}

// giveTurn releases the turn of the client, if it holds one, and reports whether it did. Only the goroutine that serves
// the client may call it and the methods below.
func (c *client) giveTurn() bool {
	if !c.inTurn {
		return false
	}
	c.inTurn = false
	c.srv.turns.give()
	return true
}

// pause is a wait of a client for the cluster, between client.pause and client.resume.
type pause struct {
	outermost bool // not nested in another wait
	hadTurn   bool
}

// pause begins a wait for the cluster: it suspends timeouts and releases the turn.
func (c *client) pause() pause {
	return pause{outermost: !c.awaiting.Swap(true), hadTurn: c.giveTurn()}
}

// resume ends the wait p: it takes the turn again if p released it, and resumes timeouts if p is the outermost wait.
func (c *client) resume(p pause) {
	if p.hadTurn {
		c.takeTurn()
	}
	if p.outermost {
		c.awaiting.Store(false)
	}
}
