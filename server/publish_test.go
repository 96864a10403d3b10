package server

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/resp"
)

// TestPublish checks that a message is delivered once for each matching subscription, in RESP2 and in RESP3.
func TestPublish(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	old, modern, sender := s.dial(), s.dial(), s.dial()
	old.do("*3\r\n"+bulk("subscribe")+bulk("news")+":1\r\n", "SUBSCRIBE", "news")
	modern.ask("HELLO", "3")
	modern.do(">3\r\n"+bulk("psubscribe")+bulk("n*")+":1\r\n", "PSUBSCRIBE", "n*")
	modern.do(">3\r\n"+bulk("subscribe")+bulk("news")+":2\r\n", "SUBSCRIBE", "news")
	sender.do(":3\r\n", "PUBLISH", "news", "a\r\nb")
	old.expect(texts('*', "message", "news", "a\r\nb"))
	modern.expect(texts('>', "message", "news", "a\r\nb") + texts('>', "pmessage", "n*", "news", "a\r\nb"))
	sender.do(":1\r\n", "PUBLISH", "nothing", "")
	modern.expect(texts('>', "pmessage", "n*", "nothing", ""))
	sender.do(":0\r\n", "PUBLISH", "elsewhere", "x")
	modern.do("+PONG\r\n", "PING")

	modern.do(">3\r\n"+bulk("unsubscribe")+bulk("news")+":1\r\n", "UNSUBSCRIBE", "news")
	modern.ask("RESET")
	sender.do(":1\r\n", "PUBLISH", "news", "x")
	old.expect(texts('*', "message", "news", "x"))
	modern.do("+PONG\r\n", "PING")
}

// TestPublish_Own subscribes to a channel and publishes to it in the same pipeline. The message must precede the reply
// to PUBLISH. In a transaction, it must follow the reply to EXEC.
func TestPublish_Own(t *testing.T) {
	t.Parallel()
	p := start(t, nil).dial()
	p.ask("HELLO", "3")
	message := texts('>', "message", "own", "x")
	p.send(request("SUBSCRIBE", "own") + request("PUBLISH", "own", "x") + request("PUBSUB", "NUMSUB", "own"))
	p.expect(">3\r\n" + bulk("subscribe") + bulk("own") + ":1\r\n" + message + ":1\r\n" + "*2\r\n" + bulk("own") + ":1\r\n")
	p.send(request("MULTI") + request("PUBLISH", "own", "x") + request("UNWATCH") + request("PING") + request("EXEC"))
	p.expect("+OK\r\n" + strings.Repeat("+QUEUED\r\n", 3) + "*3\r\n:1\r\n+OK\r\n+PONG\r\n" + message)
}

// TestPublish_AfterConfirmation publishes immediately after a subscription is confirmed, on a
// connection with earlier subscriptions. No message may be lost.
func TestPublish_AfterConfirmation(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	reader, sender := s.dial(), s.dial()
	for i := range 1000 {
		channel := fmt.Sprint("c", i)
		reader.do(fmt.Sprintf("*3\r\n%s%s:%d\r\n", bulk("subscribe"), bulk(channel), i+1), "SUBSCRIBE", channel)
		sender.do(":1\r\n", "PUBLISH", channel, "x")
		reader.expect(texts('*', "message", channel, "x"))
	}
}

// TestPublish_Bounds checks that a subscriber is closed if its messages from one PUBLISH exceed feedQueue bytes in
// total, because many of its patterns match. The same must hold if the subscriber itself sends the PUBLISH.
func TestPublish_Bounds(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	greedy, own, sender := s.dial(), s.dial(), s.dial()
	patterns := []string{"PSUBSCRIBE"}
	for i := range 100 {
		patterns = append(patterns, strings.Repeat("*", i+1))
	}
	own.ask("HELLO", "3")
	for _, p := range []*peer{greedy, own} {
		p.send(request(patterns...))
		for range patterns[1:] {
			p.read()
		}
	}
	text := strings.Repeat("x", 400<<10)
	own.send(request("PUBLISH", "c", text))
	own.closed()
	sender.do(":0\r\n", "PUBLISH", "c", text)
	greedy.closed()
}

// TestPublish_Switch checks that clients cannot publish on the channels that announce a new leader.
func TestPublish_Switch(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	n := l.nodes["b"]
	watcher := n.at(n.sentinel)
	watcher.do("*3\r\n"+bulk("psubscribe")+bulk("*")+":1\r\n", "PSUBSCRIBE", "*")
	sender := n.dial()
	for _, channel := range switchChannels {
		sender.do(failure(errPublishSwitch), "PUBLISH", channel, "mymaster 127.0.0.1 1 127.0.0.1 2")
	}
	sender.do(":0\r\n", "PUBLISH", "other", "x")
	sender.do("*0\r\n", "PUBSUB", "CHANNELS")
	sender.do(":0\r\n", "PUBSUB", "NUMPAT")
	watcher.do(texts('*', "pong", ""), "PING")
}

// TestPublish_Counts subscribes two clients to the same channels and to the same pattern. PUBSUB must list each channel
// once and count the pattern once, and PUBSUB NUMSUB must count both clients.
func TestPublish_Counts(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.dial()
	for range 2 {
		q := s.dial()
		q.send(request("SUBSCRIBE", "a", "b"))
		q.send(request("PSUBSCRIBE", "n*"))
		for range 3 {
			q.read()
		}
	}
	p.await("stats", "pubsub_channels", 2)
	p.await("stats", "pubsub_patterns", 1)
	p.do(":1\r\n", "PUBSUB", "NUMPAT")
	p.do("*2\r\n"+bulk("a")+bulk("b"), "PUBSUB", "CHANNELS")
	p.do("*6\r\n"+bulk("b")+":2\r\n"+bulk("x")+":0\r\n"+bulk("b")+":2\r\n", "PUBSUB", "NUMSUB", "b", "x", "b")
}

// TestSharedCopy checks that broker.sharedCopy makes a new copy of the subscribers only after a change.
func TestSharedCopy(t *testing.T) {
	t.Parallel()
	b := broker{}
	s := &session{subscriptions: subscriptions{channels: []string{"a"}}}
	o := &output{session: s, out: &resp.Reply{}}
	b.register(o)
	first := b.sharedCopy()
	b.remove(&output{}) // not a subscriber
	if second := b.sharedCopy(); reflect.ValueOf(second).Pointer() != reflect.ValueOf(first).Pointer() {
		t.Error("the subscribers were copied although none had changed")
	}
	s.subscriptions.channels = append(s.subscriptions.channels, "b")
	b.register(o)
	if got := b.sharedCopy()[o].channels; len(got) != 2 || len(first[o].channels) != 1 {
		t.Errorf("the new copy has the channels %q, want 2 channels; the old copy has %q, want 1 channel", got, first[o].channels)
	}
	b.remove(o)
	if got := b.sharedCopy(); len(got) != 0 {
		t.Errorf("%d subscribers are left, want none", len(got))
	}
}
