package server

import (
	"fmt"
	"slices"
	"sync"

	"github.com/throttledhq/throttled/glob"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/topology"
)

// news are what a node of a cluster publishes: that another one leads.
type news struct {
	mu      sync.Mutex
	readers map[*client]reader
	master  master // of whom was told last
}

// master is where clients reach the leader, by the port for all clients.
type master struct {
	id, host string
	port     int
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
	n.readers[c] = reader{c.feed, slices.Clone(c.channels.channels), slices.Clone(c.channels.patterns), c.out.Protocol()}
	if !c.channels.any() {
		delete(n.readers, c)
	}
}

func (n *news) remove(c *client) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.readers, c)
}

// leader returns where the leader is or was last, and whether there has been one.
func (n *news) leader() (m master, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.master, n.master.host != ""
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
	n.mu.Lock()
	defer n.mu.Unlock()
	old, now := n.master, master{m.ID, m.Host, m.Port}
	n.master = now
	if old.host == "" || old.host == now.host && old.port == now.port {
		return
	}
	text := fmt.Sprintf("%s %s %d %s %d", name, old.host, old.port, now.host, now.port)
	for _, channel := range switchChannels {
		for c, r := range n.readers {
			if b := r.message(channel, text); len(b) > 0 && r.feed.add(b) != nil {
				c.hangUp()
			}
		}
	}
}

// message renders what a reader is told of a message.
func (r *reader) message(channel, text string) []byte {
	var out resp.Reply
	out.SetProtocol(r.protocol)
	if slices.Contains(r.channels, channel) {
		pushTexts(&out, "message", channel, text)
	}
	for _, pattern := range r.patterns {
		if glob.Match(pattern, channel) {
			pushTexts(&out, "pmessage", pattern, channel, text)
		}
	}
	return out.Bytes()
}

func pushTexts(out *resp.Reply, words ...string) {
	out.Push(len(words))
	for _, w := range words {
		out.Text(w)
	}
}
