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
		wait := m.exceeded() && m.leaving.Load() > 0 && !c.hungUp.Load()
		if wait {
			m.left.Wait() // for a tick at the most
		}
		m.left.L.Unlock()
		if !wait {
			return
		}
	}
}

// executeLong runs a command whose reply may be long, when few others do.
func (c *client) executeLong(cmd *command, args [][]byte) {
	if c.giveTurn() {
		defer c.takeTurn()
	}
	m := &c.srv.clientMemory
	m.long <- struct{}{}
	defer func() { <-m.long }()
	c.awaitMemory()
	c.executeNow(cmd, args)
	c.usage.set(&c.usage.replies, int64(c.out.Size()))
}
