package server

import (
	"fmt"
	"strings"
	"testing"
)

// announced returns the message that is published when b replaces a as the leader.
func (l *lab) announced() string {
	return fmt.Sprintf("mymaster 127.0.0.1 %d 127.0.0.1 %d", l.nodes["a"].member().LeaderPort, l.nodes["b"].member().LeaderPort)
}

func texts(kind byte, words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%c%d\r\n", kind, len(words))
	for _, w := range words {
		b.WriteString(bulk(w))
	}
	return b.String()
}

// TestSwitchMaster checks that subscribers on all ports, in both versions of the protocol, are
// notified of a new leader on the channels +switch-master and switch-master.
func TestSwitchMaster(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	l.lead("a")
	n := l.nodes["c"]
	var told []*peer
	var want []string
	f := func(p *peer, version, command string, names ...string) {
		t.Helper()
		kind := byte('*')
		if version == "3" {
			p.ask("HELLO", "3")
			kind = '>'
		}
		for i, name := range names {
			p.do(fmt.Sprintf("%c3\r\n%s%s:%d\r\n", kind, bulk(strings.ToLower(command)), bulk(name), i+1), command, name)
		}
		expected := ""
		for _, channel := range []string{"+switch-master", "switch-master"} {
			for _, name := range names {
				switch {
				case command == "SUBSCRIBE" && name == channel:
					expected += texts(kind, "message", channel, l.announced())
				case command == "PSUBSCRIBE" && (name == "*" || name == "[-+]*" && channel[0] == '+'):
					expected += texts(kind, "pmessage", name, channel, l.announced())
				}
			}
		}
		told, want = append(told, p), append(want, expected)
	}
	f(n.at(n.sentinel), "2", "SUBSCRIBE", "+switch-master")
	f(n.at(n.sentinel), "3", "SUBSCRIBE", "switch-master", "+switch-master", "+sdown")
	f(n.at(n.sentinel), "2", "PSUBSCRIBE", "*")
	f(n.at(n.sentinel), "3", "PSUBSCRIBE", "[-+]*", "*", "x*")
	f(n.at(n.cluster), "2", "SUBSCRIBE", "+switch-master")
	f(n.dial(), "2", "SUBSCRIBE", "+switch-master")
	off := n.at(n.sentinel)
	off.ask("SUBSCRIBE", "+switch-master")
	off.ask("UNSUBSCRIBE", "+switch-master")
	changed := n.at(n.sentinel)
	changed.ask("HELLO", "3")
	changed.ask("SUBSCRIBE", "switch-master")
	changed.ask("HELLO", "2")
	reset := n.at(n.sentinel)
	reset.ask("SUBSCRIBE", "switch-master")
	reset.do("+RESET\r\n", "RESET")

	l.setViewLeader("c", "")
	l.setViewLeader("c", "b")
	for i, p := range told {
		p.expect(want[i])
	}
	changed.expect(texts('*', "message", "switch-master", l.announced()))
	off.do("+PONG\r\n", "PING")
	reset.do("+PONG\r\n", "PING")
	told[0].do(texts('*', "pong", ""), "PING")
	told[1].do("+PONG\r\n", "PING")
	l.setViewLeader("c", "") // no message if the same leader returns
	l.setViewLeader("c", "b")
	told[0].do(texts('*', "pong", ""), "PING")
}

// TestSlowReader checks that a subscriber that does not read is disconnected, and that other subscribers are still
// notified.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	n := l.nodes["a"]
	p, slow := n.at(n.sentinel), n.at(n.sentinel)
	p.ask("SUBSCRIBE", "switch-master")
	slow.ask("SUBSCRIBE", "switch-master")
	n.broker.mu.Lock()
	for o, r := range n.broker.subscribers {
		if o.socket.RemoteAddr().String() == slow.LocalAddr().String() {
			r.feed.mu.Lock()
			r.feed.queue.push(make([]byte, feedQueue)) // the queue stays full, since the goroutine that writes it is not woken
			r.feed.mu.Unlock()
		}
	}
	n.broker.mu.Unlock()
	l.setViewLeader("a", "b")
	p.expect(texts('*', "message", "switch-master", l.announced()))
	if got := slow.rest(); strings.Contains(got, "message") {
		t.Errorf("the slow subscriber got a message in %d bytes, want no message", len(got))
	}
}
