package server

import (
	"container/heap"
	"container/list"
	"net/netip"
	"sync"

	"github.com/throttledhq/throttled/internal/sourceaddr"
)

// Connections that never send a command cost an attacker nothing, so an attacker with several addresses can open as
// many as the server accepts. A connection is a newcomer until it has sent a valid command and, if a password is
// required, has authenticated. The number of places for connections is limited by maxclients. When a place is needed
// for another connection, the server may close a newcomer. Such a newcomer is called displaced.

const (
	crowdedShare         = 4 // places are scarce when at most 1/crowdedShare of them are free
	newcomerShare        = 4 // when places are scarce, newcomers from one address get at most 1/newcomerShare of all places
	scarceTimeoutDivisor = 4 // when places are scarce, the time to authenticate is command-timeout divided by this number

	// maxDisplaced is the maximum number of displaced connections that are still being closed. Their file descriptors
	// are taken from spareFiles.
	maxDisplaced = spareFiles / 2
)

// admission selects the newcomer to close when a new connection needs a place. It is guarded by Server.mu.
type admission struct {
	sources   map[netip.Addr]*source
	byNumber  sourceHeap // the sources, ordered by number of newcomers, largest first
	displaced int        // number of displaced newcomers that are still being closed
	ended     *sync.Cond // signaled when a displaced newcomer is closed; its lock is Server.mu
}

// source is an address and its newcomers, oldest first.
type source struct {
	addr      netip.Addr
	newcomers list.List // list of *connection
	index     int       // index in admission.byNumber
}

// newcomer is the state of a connection while the connection is a newcomer.
type newcomer struct {
	from      *source
	at        *list.Element // position in from.newcomers
	displaced bool          // the connection is being closed to make room
}

// add adds a connection to the newcomers.
func (a *admission) add(c *connection) {
	addr := sourceaddr.Of(c.socket.RemoteAddr())
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

// forget removes a connection from the newcomers, if it is one. It must be called after the first
// valid command of an authenticated client, and when a connection is closed.
func (a *admission) forget(c *connection) {
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

// room is a result of makeRoom: whether a place is available for one more connection.
type room uint8

const (
	roomFree room = iota
	roomSoon      // a place becomes available when a displaced connection is closed
	roomNone
)

// makeRoom returns whether there is a place for one more connection. victim is the newcomer that the caller must
// close to make room, or nil. served is the number of connections of clients, including those that are being closed,
// and places is the maximum number of such connections.
func (a *admission) makeRoom(served, places int) (victim *connection, r room) {
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

// most returns the largest number of newcomers from one address.
func (a *admission) most() int {
	if len(a.byNumber) == 0 {
		return 0
	}
	return a.byNumber[0].newcomers.Len()
}

// displace marks the oldest newcomer of the address with the most newcomers as displaced, and
// returns it.
func (a *admission) displace() *connection {
	victim := a.byNumber[0].newcomers.Front().Value.(*connection)
	a.remove(victim.newcomer)
	victim.newcomer.displaced = true
	a.displaced++
	return victim
}

// crowded reports whether places are scarce. The parameter taken is the number of places in use, and places is the
// number of all places.
func crowded(taken, places int) bool { return taken >= places-places/crowdedShare }

// sourceHeap is a heap of sources. Its first element is a source with the most newcomers.
type sourceHeap []*source

func (h sourceHeap) Len() int           { return len(h) }
func (h sourceHeap) Less(i, j int) bool { return h[i].newcomers.Len() > h[j].newcomers.Len() }

func (h sourceHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push and Pop implement heap.Interface.
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
