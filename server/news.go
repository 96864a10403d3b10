package server

import (
	"fmt"
	"maps"
	"sync"

	"github.com/throttledhq/throttled/topology"
)

// news are what the server publishes: messages of its clients and, on a node of a cluster, that
// another one leads.
type news struct {
	mu       sync.Mutex
	readers  map[*client]reader
	shared   map[*client]reader // a copy of readers that is never changed; nil after a change of those
	master   master             // of whom was told last
	counting sync.Mutex         // one goroutine counts names at a time
}

// master is where clients reach the leader.
type master struct {
	id, host string
	port     int // for all clients
	named    int // the port that a Sentinel names
}

// reader is a client that is told news, as its subscriptions are.
type reader struct {
	feed               *feed
	channels, patterns []string
	protocol           int
}

// tune makes the client be told what it has subscribed to by now.
func (n *news) tune(c *client) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.readers == nil {
		n.readers = map[*client]reader{}
	}
	n.shared = nil
	n.readers[c] = reader{c.feed, c.channels.channels, c.channels.patterns, c.out.Protocol()}
	if !c.channels.any() {
		delete(n.readers, c)
	}
}

func (n *news) remove(c *client) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, there := n.readers[c]; there {
		n.shared = nil
		delete(n.readers, c)
	}
}

// leader returns where the leader is or was last, and whether there has been one.
func (n *news) leader() (m master, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.master, n.master.host != ""
}

// replace stores where the leader is, and returns where it was.
func (n *news) replace(now master) (old master) {
	n.mu.Lock()
	defer n.mu.Unlock()
	old, n.master = n.master, now
	return old
}

// all returns the readers as they are now, in a map that is not to be changed. Feeds are added to
// without the lock: theirs are held while a client is tuned.
func (n *news) all() map[*client]reader {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.shared == nil {
		n.shared = maps.Clone(n.readers)
	}
	return n.shared
}

// switchChannels are where a new leader is made known. Sentinel's is the one with the sign;
// there are clients that wait on the other.
var switchChannels = [...]string{"+switch-master", "switch-master"}

// follow tells readers, in the way of Sentinel, that another node leads the cluster that goes
// by a name. Nothing changes as long as it is not known who does.
func (n *news) follow(view *topology.View, name string) {
	m := view.Find(view.Leader)
	if m == nil || m.Host == "" || m.Port == 0 {
		return
	}
	now := master{m.ID, m.Host, m.Port, m.NamedPort()}
	old := n.replace(now)
	if old.host == "" || old.host == now.host && old.named == now.named {
		return
	}
	readers := n.all()
	text := fmt.Sprintf("%s %s %d %s %d", name, old.host, old.named, now.host, now.named)
	for _, channel := range switchChannels {
		for c, r := range readers {
			if b, matches := r.message(channel, text); matches > 0 {
				r.feed.showTo(c, b)
			}
		}
	}
}
