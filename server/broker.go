package server

import (
	"fmt"
	"maps"
	"sync"

	"github.com/throttledhq/throttled/topology"
)

// broker delivers messages to subscribers: messages published by clients and, on a cluster node, announcements of a new
// leader.
type broker struct {
	mu       sync.Mutex
	readers  map[*output]reader
	shared   map[*output]reader // immutable copy of the field readers; nil after a change of readers
	master   master             // the last known leader
	counting sync.Mutex         // serializes the method count
}

// master is the address of the leader for clients.
type master struct {
	id, host string
	port     int // port for Redis clients
	named    int // port that commands of Sentinel report; see topology.Member.NamedPort
}

// reader is the feed and the subscriptions of a subscribed client.
type reader struct {
	listener           *listenerProfile
	feed               *feed
	channels, patterns []string
	protocol           int
}

// register stores the current subscriptions of a client. A client without subscriptions is removed.
func (b *broker) register(o *output) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.readers == nil {
		b.readers = map[*output]reader{}
	}
	b.shared = nil
	s := &o.session.subscriptions
	b.readers[o] = reader{o.listener, o.feed, s.channels, s.patterns, o.out.Protocol()}
	if !s.any() {
		delete(b.readers, o)
	}
}

func (b *broker) remove(o *output) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, there := b.readers[o]; there {
		b.shared = nil
		delete(b.readers, o)
	}
}

// leader returns the address of the current or last known leader. known is false if no leader has been known yet.
func (b *broker) leader() (m master, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.master, b.master.host != ""
}

// replace stores the address of the leader and returns the previous one.
func (b *broker) replace(now master) (old master) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, b.master = b.master, now
	return old
}

// all returns the current readers in a map that must not be changed. The caller adds messages to the feeds of the
// readers without holding b.mu. Otherwise there would be a deadlock: a client calls register, which locks b.mu, while
// it holds the lock of its feed.
func (b *broker) all() map[*output]reader {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shared == nil {
		b.shared = maps.Clone(b.readers)
	}
	return b.shared
}

// switchChannels are the channels on which a new leader is announced. Redis Sentinel uses +switch-master. Some
// clients subscribe to switch-master.
var switchChannels = [...]string{"+switch-master", "switch-master"}

// follow publishes a change of the leader in the format of Redis Sentinel. name is the name of the cluster for
// Sentinel clients. follow ignores a view without a leader, and a view in which the leader has not announced its
// address.
func (b *broker) follow(view *topology.View, name string) {
	m := view.Find(view.Leader)
	if m == nil || m.Host == "" || m.Port == 0 {
		return
	}
	now := master{m.ID, m.Host, m.Port, m.NamedPort()}
	old := b.replace(now)
	if old.host == "" || old.host == now.host && old.named == now.named {
		return
	}
	readers := b.all()
	text := fmt.Sprintf("%s %s %d %s %d", name, old.host, old.named, now.host, now.named)
	for _, channel := range switchChannels {
		for o, r := range readers {
			if message, matches := r.message(channel, text); matches > 0 {
				r.feed.push(o.closing, message)
			}
		}
	}
}
