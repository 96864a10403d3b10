package server

import (
	"fmt"
	"maps"
	"sync"

	"github.com/throttledhq/throttled/topology"
)

// news delivers published messages to subscribers: messages of clients and, on a node of a cluster,
// changes of the leader.
type news struct {
	mu       sync.Mutex
	readers  map[*client]reader
	shared   map[*client]reader // immutable copy of readers; nil after a change of readers
	master   master             // the last known leader
	counting sync.Mutex         // serializes count
}

// master is the address of the leader for clients.
type master struct {
	id, host string
	port     int // port for Redis clients
	named    int // port that a Sentinel reports
}

// reader is the feed and the subscriptions of a subscribed client.
type reader struct {
	feed               *feed
	channels, patterns []string
	protocol           int
}

// tune registers the current subscriptions of the client.
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

// leader returns the address of the current or last leader, and whether one has been known.
func (n *news) leader() (m master, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.master, n.master.host != ""
}

// replace stores the address of the leader and returns the previous one.
func (n *news) replace(now master) (old master) {
	n.mu.Lock()
	defer n.mu.Unlock()
	old, n.master = n.master, now
	return old
}

// all returns the current readers in a map that must not be changed. Messages are added to feeds
// without holding n.mu, since a client calls tune while it holds the lock of its feed.
func (n *news) all() map[*client]reader {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.shared == nil {
		n.shared = maps.Clone(n.readers)
	}
	return n.shared
}

// switchChannels are the channels on which a new leader is announced. Sentinel uses the first; some
// clients subscribe to the second.
var switchChannels = [...]string{"+switch-master", "switch-master"}

// follow publishes a change of the leader in the format of Sentinel. name is the name of the cluster
// for Sentinel clients. A view without a leader, or whose leader has not announced its address, is
// ignored.
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
