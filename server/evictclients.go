package server

import "slices"

const (
	// smallUsage is the usage in bytes up to which a client is served although all clients exceed their limit.
	smallUsage = connectionBytes + 64<<10
	// maxLong is the maximum number of long replies in progress: their size is not known in advance.
	maxLong = 4
)

// evictClients evicts clients when they exceed their limit, until the server shuts down.
func (s *Server) evictClients() {
	for {
		select {
		case <-s.ended:
			return
		case <-s.clientMemory.wake:
			s.evictLargest()
		}
	}
}

// evictLargest closes the clients that hold the most memory until the others are within the limit.
// Clients that are already being closed do not count.
func (s *Server) evictLargest() {
	m := &s.clientMemory
	m.evicting.Lock()
	defer m.evicting.Unlock()
	limit := m.limit()
	excess := m.total.Load() - m.leaving.Load() - limit
	if limit == 0 || excess <= 0 {
		return
	}
	list := make([]evictable, 0, 128)
	for _, c := range s.connections() {
		size := c.usage.total()
		switch {
		case c.listener.trusted || c.usage.evicted.Load() > 0:
		case c.hungUp.Load():
			excess -= size
		case !c.shown().noEvict:
			list = append(list, evictable{c, size})
		}
	}
	slices.SortFunc(list, func(a, b evictable) int { return int(b.size - a.size) })
	for _, e := range list {
		if excess <= 0 {
			break
		}
		excess -= e.size
		s.evict(e)
	}
}

// evictable is a client that may be evicted, and the bytes that it holds.
type evictable struct {
	c    *client
	size int64
}

func (s *Server) evict(e evictable) {
	m := &s.clientMemory
	s.mu.Lock()
	there := s.clients[e.c.id] == e.c
	if there { // leave calls usage.release later
		m.leaving.Add(e.size)
		e.c.usage.evicted.Store(e.size)
	}
	s.mu.Unlock()
	if !there {
		return
	}
	m.evicted.Add(1)
	s.info("evict", "client evicted: all clients together exceed maxmemory-clients", "client", e.c.id,
		"addr", e.c.conn.RemoteAddr(), "bytes", e.size, "limit", m.limit())
	e.c.hangUp()
}

// awaitRoom accounts for a read buffer that is about to grow by growth bytes, together with the buffer
// that it replaces, and waits for memory unless the usage of the client is small.
func (c *client) awaitRoom(growth int) {
	c.usage.set(&c.usage.query, int64(c.in.Size()+growth))
	if c.usage.total() > smallUsage {
		c.awaitMemory()
	}
}

// awaitMemory waits, if all clients exceed their limit, until the evicted clients are closed. Clients
// with a large usage wait before they allocate more: otherwise many of them would allocate before the
// first evicted client has released its memory.
func (c *client) awaitMemory() {
	m := &c.srv.clientMemory
	for c.usage.of != nil && m.exceeded() {
		c.srv.evictLargest()
		m.left.L.Lock()
		wait := c.memoryIsDue()
		if wait {
			m.left.Wait() // at most one tick
		}
		m.left.L.Unlock()
		if !wait {
			return
		}
	}
}

// memoryIsDue reports whether the client must wait for memory that evicted clients will release.
func (c *client) memoryIsDue() bool {
	m := &c.srv.clientMemory
	return c.usage.of != nil && m.exceeded() && m.leaving.Load() > 0 && !c.hungUp.Load()
}

// runLong calls run, which makes the reply to cmd. If the reply may be long, it first waits until fewer
// than maxLong others are in progress and memory is available, and holds one of the maxLong tokens
// during run. Therefore run must not wait for the cluster or for memory.
func (c *client) runLong(cmd *command, run func() error) error {
	if !cmd.long || c.tx.running {
		return run()
	}
	if c.giveTurn() {
		defer c.takeTurn()
	}
	if !c.enterLong() {
		c.cut = true
		return errHungUp
	}
	defer func() { <-c.srv.clientMemory.long }()
	err := run()
	c.usage.set(&c.usage.replies, int64(c.out.Size()))
	return err
}

// enterLong waits until memory is available for a long reply, and takes one of the maxLong tokens. It
// returns false if the client was disconnected.
func (c *client) enterLong() bool {
	m := &c.srv.clientMemory
	for {
		c.awaitMemory()
		select {
		case m.long <- struct{}{}:
		case <-c.ended:
			return false
		}
		if !c.memoryIsDue() {
			return true
		}
		<-m.long
	}
}
