package server

import (
	"iter"
	"maps"
	"slices"

	"github.com/throttledhq/throttled/internal/glob"
	"github.com/throttledhq/throttled/resp"
)

// cmdPublish delivers a message only to subscribers on this node, even in a cluster.
func cmdPublish(c *client, args [][]byte) error {
	channel, text := string(args[1]), string(args[2])
	if slices.Contains(switchChannels[:], channel) {
		return errPublishSwitch
	}
	c.out.Int(c.publishOwn(channel, text) + c.srv.broker.publish(channel, text, &c.conn.output))
	return nil
}

// publishOwn delivers a message to the client that published it, and returns the number of the client's subscriptions
// that match. The message precedes the reply to PUBLISH; within a transaction it follows the reply to EXEC. If too much
// output is pending, the client is disconnected.
func (c *client) publishOwn(channel, text string) int64 {
	s := &c.session
	own := subscriber{channels: s.subscriptions.channels, patterns: s.subscriptions.patterns, protocol: c.out.Protocol()}
	b, matches := own.message(channel, text)
	if len(b) > feedQueue || c.out.Len()+len(s.tx.pushed)+len(b) > maxExecReply {
		c.pipe.abort()
		return matches
	}
	if s.tx.running {
		s.tx.pushed = append(s.tx.pushed, b...)
	} else {
		c.out.Raw(b)
	}
	return matches
}

// publish delivers a message to all subscribers except the publisher, and returns the number of matching subscriptions.
// A subscriber whose queue overflows is disconnected.
func (b *broker) publish(channel, text string, publisher *output) (matches int64) {
	for o, s := range b.others(publisher) {
		if message, m := s.message(channel, text); m > 0 && s.feed.push(o.closing, message) {
			matches += m
		}
	}
	return matches
}

// others returns the current subscribers, without the one whose output is the except parameter. It also omits
// clients of the Sentinel port, which do not receive messages from other clients.
func (b *broker) others(except *output) iter.Seq2[*output, subscriber] {
	return func(yield func(*output, subscriber) bool) {
		for o, s := range b.sharedCopy() {
			if o != except && s.listener.set&onData != 0 && !yield(o, s) {
				return
			}
		}
	}
}

// names returns the patterns of the subscribers if pattern is set, and otherwise their channels. It omits the subscriber
// whose output is the except parameter. Names may be repeated.
func (b *broker) names(pattern bool, except *output) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, s := range b.others(except) {
			list := subscriptions{s.channels, s.patterns}
			for _, name := range *list.of(pattern) {
				if !yield(name) {
					return
				}
			}
		}
	}
}

// subscriptionsOfAll returns the patterns of this client and of all other subscribers if pattern is set, and otherwise
// their channels. Names may be repeated.
func (c *client) subscriptionsOfAll(pattern bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, name := range *c.session.subscriptions.of(pattern) {
			if !yield(name) {
				return
			}
		}
		c.srv.broker.names(pattern, &c.conn.output)(yield)
	}
}

func cmdPubsubChannels(c *client, args [][]byte) error {
	if len(args) > 3 {
		return errSubcommand(args)
	}
	pattern := "*"
	if len(args) == 3 {
		pattern = string(args[2])
	}
	found, size := map[string]bool{}, 0
	for name := range c.subscriptionsOfAll(false) {
		if found[name] || !glob.Match(pattern, name) {
			continue
		}
		if size += len(name) + perArgument; size > maxKeysReply {
			return errManyPubsub
		}
		found[name] = true
	}
	replyTexts(&c.out, slices.Sorted(maps.Keys(found)))
	return nil
}

func cmdPubsubNumSub(c *client, args [][]byte) error {
	counts := make(map[string]int64, len(args)-2)
	for _, name := range args[2:] {
		counts[string(name)] = 0
	}
	for name := range c.subscriptionsOfAll(false) {
		if n, asked := counts[name]; asked {
			counts[name] = n + 1
		}
	}
	replyNumSub(&c.out, args[2:], func(name []byte) int64 { return counts[string(name)] })
	return nil
}

func replyNumSub(out *resp.Reply, names [][]byte, count func(name []byte) int64) {
	out.Array(2 * len(names))
	for _, name := range names {
		out.Bulk(name)
		out.Int(count(name))
	}
}

func cmdPubsubNumPat(c *client, _ [][]byte) error {
	c.out.Int(int64(distinct(c.subscriptionsOfAll(true))))
	return nil
}

// distinct returns the number of distinct names.
func distinct(names iter.Seq[string]) int {
	seen := map[string]struct{}{}
	for name := range names {
		seen[name] = struct{}{}
	}
	return len(seen)
}

// count returns the number of distinct patterns of all subscribers if pattern is set, and otherwise the number of their
// distinct channels. Calls are serialized to limit the memory that they use.
func (b *broker) count(pattern bool) int {
	b.counting.Lock()
	defer b.counting.Unlock()
	return distinct(b.names(pattern, nil))
}

func cmdPubsubShardChannels(c *client, args [][]byte) error {
	if len(args) > 3 {
		return errSubcommand(args)
	}
	replyTexts(&c.out, nil)
	return nil
}

func cmdPubsubShardNumSub(c *client, args [][]byte) error {
	replyNumSub(&c.out, args[2:], func([]byte) int64 { return 0 })
	return nil
}

// message encodes a message for a subscriber, once for each matching subscription, and returns the number of matching
// subscriptions. It stops when the result is larger than feedQueue, since no feed accepts a larger result.
func (s *subscriber) message(channel, text string) (b []byte, matches int64) {
	var out resp.Reply
	out.SetProtocol(s.protocol)
	if slices.Contains(s.channels, channel) {
		pushTexts(&out, "message", channel, text)
		matches++
	}
	for _, pattern := range s.patterns {
		if out.Len() <= feedQueue && glob.Match(pattern, channel) {
			pushTexts(&out, "pmessage", pattern, channel, text)
			matches++
		}
	}
	return out.Bytes(), matches
}

func pushTexts(out *resp.Reply, words ...string) {
	out.Push(len(words))
	for _, w := range words {
		out.Text(w)
	}
}
