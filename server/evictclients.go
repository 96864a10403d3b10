package server

import "slices"

const (
	// smallUsage is what a client may hold to be served although all clients exceed their limit.
	smallUsage = connectionBytes + 64<<10
	// maxLong is how many long replies are made at a time: what they take is not known before.
	maxLong = 4
)

// evictClients evicts clients when they exceed their limit, until the server ends.
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

// evictLargest closes the clients that hold the most memory until the others are within the
// limit. Those that are being closed count as gone.
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
		case c.face.trusted || c.usage.evicted.Load() > 0:
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
	if there { // and leave will find that it is evicted
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

// awaitRoom counts a larger buffer that is about to be made for the client's query, beside the one
// that it replaces, and waits for memory unless it is small.
func (c *client) awaitRoom(growth int) {
	c.usage.set(&c.usage.query, int64(c.in.Size()+growth))
	if c.usage.total() > smallUsage {
		c.awaitMemory()
	}
}

// awaitMemory waits, if all clients exceed their limit, until those that are evicted for it have
// left. Clients that hold much wait so before they take more: otherwise many would, before the
// first that is evicted has returned anything.
func (c *client) awaitMemory() {
	m := &c.srv.clientMemory
	for c.usage.of != nil && m.exceeded() {
		c.srv.evictLargest()
		m.left.L.Lock()
		wait := c.memoryIsDue()
		if wait {
			m.left.Wait() // for a tick at the most
		}
		m.left.L.Unlock()
		if !wait {
			return
		}
	}
}

// memoryIsDue reports whether the client has to wait for memory that others are about to return.
func (c *client) memoryIsDue() bool {
	m := &c.srv.clientMemory
	return c.usage.of != nil && m.exceeded() && m.leaving.Load() > 0 && !c.hungUp.Load()
}

// runLong makes a reply of a command, when few others make long ones if this one may be long. It
// waits while it holds nothing: run must not wait, for the cluster or for memory.
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

// enterLong waits until there is memory for a long reply and few others are being made, and reports
// whether the client is still there.
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
