package server

import (
	"container/heap"
	"container/list"
	"net/netip"
	"sync"
)

// Connections that never send a command cost their clients nothing, so whoever has addresses to
// spare can open as many as the server accepts. A connection is a newcomer until it has sent a
// valid command and, where there is a password, has logged in. Newcomers keep their places only
// as long as those are not needed.

const (
	crowdedShare  = 4 // places are scarce when less than this part of them is free
	newcomerShare = 4 // and then newcomers of one address have this part of all places, at the most
	hurry         = 4 // and have this part of the time to log in

	// maxDisplaced is how many connections may wait for their end beside those that are
	// served. Their descriptors come out of spareFiles.
	maxDisplaced = spareFiles / 2
)

// admission decides which connection has to go when there is a new one and too little room. It is
// guarded by Server.mu.
type admission struct {
	sources   map[netip.Addr]*source
	byNumber  sourceHeap // those with the most newcomers first
	displaced int        // newcomers that are being closed
	ended     *sync.Cond // one of those has ended; on Server.mu
}

// source is an address and the newcomers from there, oldest first.
type source struct {
	addr      netip.Addr
	newcomers list.List // of *client
	index     int       // in the heap
}

// newcomer is what admission knows of a client that is one.
type newcomer struct {
	from      *source
	at        *list.Element
	displaced bool // it is being closed to make room
}

// add makes a client a newcomer.
func (a *admission) add(c *client) {
	addr := sourceOf(c.conn.RemoteAddr())
	from := a.sources[addr]
	if from == nil {
		if a.sources == nil {
			a.sources = map[netip.Addr]*source{}
		}
		from = &source{addr: addr}
		a.sources[addr] = from
		heap.Push(&a.byNumber, from)
	}
	c.newcomer = &newcomer{from: from, at: from.newcomers.PushBack(c)}
	heap.Fix(&a.byNumber, from.index)
}

// forget makes a client a newcomer no more: it is known, or gone.
func (a *admission) forget(c *client) {
	n := c.newcomer
	if n == nil {
		return
	}
	if n.displaced {
		a.displaced--
		a.ended.Broadcast()
	} else {
		a.remove(n)
	}
	c.newcomer = nil
}

func (a *admission) remove(n *newcomer) {
	n.from.newcomers.Remove(n.at)
	if n.from.newcomers.Len() > 0 {
		heap.Fix(&a.byNumber, n.from.index)
		return
	}
	heap.Remove(&a.byNumber, n.from.index)
	delete(a.sources, n.from.addr)
}

// room is whether there is a place for one more connection.
type room uint8

const (
	roomFree room = iota
	roomSoon      // once a connection has ended that is being closed
	roomNone
)

// makeRoom returns whether there is a place for one more connection, and the newcomer that has to
// be closed for it, or nil. Served counts all connections, those that are being closed included.
func (a *admission) makeRoom(served, places int) (victim *client, r room) {
	taken := served - a.displaced
	full, most := taken >= places, a.most()
	switch {
	case !full && (!crowded(taken, places) || most <= places/newcomerShare || a.displaced >= maxDisplaced):
		return nil, roomFree
	case most == 0:
		return nil, roomNone
	case a.displaced >= maxDisplaced:
		return nil, roomSoon
	}
	return a.displace(), roomFree
}

// most returns the largest number of newcomers of one address.
func (a *admission) most() int {
	if len(a.byNumber) == 0 {
		return 0
	}
	return a.byNumber[0].newcomers.Len()
}

// displace returns the oldest newcomer of the address that has the most.
func (a *admission) displace() *client {
	victim := a.byNumber[0].newcomers.Front().Value.(*client)
	a.remove(victim.newcomer)
	victim.newcomer.displaced = true
	a.displaced++
	return victim
}

// crowded reports whether places are scarce.
func crowded(taken, places int) bool { return taken >= places-places/crowdedShare }

// noteKnown makes the client one that keeps its place, once it has shown what it is.
func (c *client) noteKnown() {
	if !c.authenticated || c.lastRun.Load() == nil {
		return
	}
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	if !c.newcomer.displaced {
		c.srv.admission.forget(c)
	}
}

// sourceHeap is a heap of sources by the number of their newcomers.
type sourceHeap []*source

func (h sourceHeap) Len() int           { return len(h) }
func (h sourceHeap) Less(i, j int) bool { return h[i].newcomers.Len() > h[j].newcomers.Len() }

func (h sourceHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push and Pop are for package heap.
func (h *sourceHeap) Push(x any) {
	s := x.(*source)
	s.index = len(*h)
	*h = append(*h, s)
}

func (h *sourceHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
