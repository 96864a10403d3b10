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
	mu          sync.Mutex
	subscribers map[*output]subscriber
	shared      map[*output]subscriber // immutable copy of the field subscribers; nil after subscribers has changed
	lastLeader  leaderAddr             // the last known leader
	counting    sync.Mutex             // serializes the method count
}

// leaderAddr is the address of the leader for clients.
type leaderAddr struct {
	id, host      string
	plain, secure topology.Ports // see topology.Member.Ports
}

// ports returns the ports for clients with TLS (secure is true) or without.
func (a *leaderAddr) ports(secure bool) *topology.Ports {
	if secure {
		return &a.secure
	}
	return &a.plain
}

// subscriber is the feed and the subscriptions of a subscribed client.
type subscriber struct {
	listener           *listenerProfile
	feed               *feed
	channels, patterns []string
	protocol           int
	secure             bool // the client uses TLS
}

// register stores the current subscriptions of a client. A client without subscriptions is removed.
func (b *broker) register(o *output) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subscribers == nil {
		b.subscribers = map[*output]subscriber{}
	}
	b.shared = nil
	s := &o.session.subscriptions
	b.subscribers[o] = subscriber{o.listener, o.feed, s.channels, s.patterns, o.out.Protocol(), o.session.secure}
	if !s.any() {
		delete(b.subscribers, o)
	}
}

func (b *broker) remove(o *output) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, there := b.subscribers[o]; there {
		b.shared = nil
		delete(b.subscribers, o)
	}
}

// leader returns the address of the current or last known leader. known is false if no leader has been known yet.
func (b *broker) leader() (addr leaderAddr, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastLeader, b.lastLeader.host != ""
}

// replace stores the address of the leader and returns the previous one.
func (b *broker) replace(now leaderAddr) (old leaderAddr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, b.lastLeader = b.lastLeader, now
	return old
}

// sharedCopy returns the current subscribers in a map that must not be changed. The caller adds messages to the feeds
// of the subscribers without holding b.mu. Otherwise there could be a deadlock, since a client may hold the lock of its
// feed when it calls register, which locks b.mu.
func (b *broker) sharedCopy() map[*output]subscriber {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shared == nil {
		b.shared = maps.Clone(b.subscribers)
	}
	return b.shared
}

// switchChannels are the channels on which a new leader is announced. Redis Sentinel uses +switch-master. Some
// clients subscribe to switch-master.
var switchChannels = [...]string{"+switch-master", "switch-master"}

// announceLeader publishes a change of the leader in the format of Redis Sentinel. name is the name of the cluster for
// Sentinel clients. announceLeader ignores a view without a leader, and a view in which the leader has not announced its
// address.
func (b *broker) announceLeader(view *topology.View, name string) {
	m := view.Find(view.Leader)
	if m == nil || m.Host == "" || m.Ports(false).Redis == 0 {
		return
	}
	now := leaderAddr{m.ID, m.Host, m.Ports(false), m.Ports(true)}
	old := b.replace(now)
	if old.host == "" {
		return
	}
	for _, secure := range []bool{false, true} {
		from, to := old.ports(secure).Leader, now.ports(secure).Leader
		if old.host != now.host || from != to {
			b.publishSwitch(secure, fmt.Sprintf("%s %s %d %s %d", name, old.host, from, now.host, to))
		}
	}
}

// publishSwitch publishes the message about a new leader to the subscribers with TLS, or to those without.
func (b *broker) publishSwitch(secure bool, text string) {
	for _, channel := range switchChannels {
		for o, s := range b.sharedCopy() {
			if s.secure != secure {
				continue
			}
			if message, matches := s.message(channel, text); matches > 0 {
				s.feed.push(o.closing, message)
			}
		}
	}
}
