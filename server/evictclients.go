package server

import "slices"

const (
	// smallUsage is a size in bytes. A client whose memory is at most smallUsage may read further commands without waiting
	// for memory, even if all clients together exceed their limit.
	smallUsage = connectionBytes + 64<<10
	// maxLong is the maximum number of long replies that are made at the same time. It is small, because the size of a
	// long reply is not known before the reply is made.
	maxLong = 4
)

// evictClients evicts clients whenever the memory of all clients exceeds the limit, until the server shuts down.
func (s *Server) evictClients() {
	for {
		select {
		case <-s.shutdownBegun:
			return
		case <-s.clientMemory.wake:
			s.evictLargest()
		}
	}
}

// evictLargest closes the clients that hold the most memory, until the remaining clients are within the limit. The
// memory of clients that are already being closed counts as free.
func (s *Server) evictLargest() {
	m := &s.clientMemory
	m.evicting.Lock()
	defer m.evicting.Unlock()
	limit := m.limit()
	excess := m.total.Load() - m.evictedBytes.Load() - limit
	if limit == 0 || excess <= 0 {
		return
	}
	list := make([]evictable, 0, 128)
	for _, c := range s.connections() {
		size := c.conn.usage.total()
		switch {
		case c.listener.trusted || c.conn.usage.evicted.Load() > 0:
		case c.conn.closing.hungUp.Load():
			excess -= size
		case !c.session.currentInfo().noEvict:
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

// evictable is a client that may be evicted, and its memory in bytes.
type evictable struct {
	c    *client
	size int64
}

func (s *Server) evict(e evictable) {
	m := &s.clientMemory
	s.mu.Lock()
	there := s.clients[e.c.id] == e.c
	if there { // still registered: connection.leave will call usage.release, which subtracts these bytes
		m.evictedBytes.Add(e.size)
		e.c.conn.usage.evicted.Store(e.size)
	}
	s.mu.Unlock()
	if !there {
		return
	}
	m.evicted.Add(1)
	s.info("evict", "client evicted: all clients together exceed maxmemory-clients", "client", e.c.id,
		"addr", e.c.addr(), "bytes", e.size, "limit", m.limit())
	e.c.conn.hangUp()
}

// awaitMemory returns immediately unless the memory of all clients exceeds the limit. If it does, awaitMemory evicts
// clients, and waits until they are closed. A client calls awaitMemory before it allocates much memory. Without this
// wait, many clients could allocate before the first evicted client has released its memory.
func (u *usage) awaitMemory(s *Server, c *closing) {
	for u.all != nil && u.all.exceeded() {
		s.evictLargest()
		u.all.evictedClosed.L.Lock()
		wait := u.mustAwaitMemory(c)
		if wait {
			u.all.evictedClosed.Wait() // returns after at most one tick
		}
		u.all.evictedClosed.L.Unlock()
		if !wait {
			return
		}
	}
}

// mustAwaitMemory reports whether the client must wait until evicted clients have released their memory: the limit is
// exceeded, there are evicted clients that are not yet closed, and the client itself is not being closed.
func (u *usage) mustAwaitMemory(c *closing) bool {
	return u.all != nil && u.all.exceeded() && u.all.evictedBytes.Load() > 0 && !c.hungUp.Load()
}

// longToken allows a client to make a long reply. At most maxLong clients hold a token at the same time, so a client
// must not wait for the cluster or for memory while it holds one.
type longToken struct {
	srv     *Server
	usage   *usage
	closing *closing
	held    bool
}

// acquire waits until memory is available for a long reply and one of the maxLong tokens is free. It returns false if
// the client was disconnected.
func (t *longToken) acquire() bool {
	tokens := t.srv.clientMemory.long
	for {
		t.usage.awaitMemory(t.srv, t.closing)
		select {
		case tokens <- struct{}{}:
		case <-t.closing.ended:
			return false
		}
		if !t.usage.mustAwaitMemory(t.closing) {
			t.held = true
			return true
		}
		<-tokens
	}
}

// release releases the token, if it is held.
func (t *longToken) release() {
	if t.held {
		t.held = false
		<-t.srv.clientMemory.long
	}
}
