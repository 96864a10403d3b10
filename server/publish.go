package server

import (
	"maps"
	"slices"

	"github.com/throttledhq/throttled/glob"
	"github.com/throttledhq/throttled/resp"
)

// cmdPublish delivers a message to the subscribers on this node. In a cluster those of other
// nodes do not get it.
func cmdPublish(c *client, args [][]byte) error {
	channel, text := string(args[1]), string(args[2])
	if slices.Contains(switchChannels[:], channel) {
		return errPublishSwitch
	}
	c.out.Int(c.publishOwn(channel, text) + c.srv.news.publish(channel, text, c))
	return nil
}

// publishOwn delivers a message to the client that has published it, and returns how many of its
// subscriptions match. The message comes before the reply to PUBLISH, or behind that to EXEC, of
// which it is no part. A client that makes the server hold too much of them is closed.
func (c *client) publishOwn(channel, text string) int64 {
	own := reader{channels: c.channels.channels, patterns: c.channels.patterns, protocol: c.out.Protocol()}
	b, matches := own.message(channel, text)
	if len(b) > feedQueue || c.out.Len()+len(c.tx.pushed)+len(b) > maxExecReply {
		c.cut = true
		return matches
	}
	if c.tx.running {
		c.tx.pushed = append(c.tx.pushed, b...)
	} else {
		c.out.Raw(b)
	}
	return matches
}

// publish delivers a message to all readers but one, and returns how many subscriptions match. A
// reader whose queue overflows is closed.
func (n *news) publish(channel, text string, publisher *client) (matches int64) {
	for c, r := range n.subscribers(publisher) {
		if b, m := r.message(channel, text); m > 0 && r.feed.showTo(c, b) {
			matches += m
		}
	}
	return matches
}

// subscribers returns the readers but one, as they are now. Those that came to the port for clients
// of Sentinel are left out: they get nothing from other clients.
func (n *news) subscribers(except *client) map[*client]reader {
	all := n.all()
	maps.DeleteFunc(all, func(c *client, _ reader) bool { return c == except || c.face.set&onData == 0 })
	return all
}

// subscriptionsOfAll counts the subscribers of each channel, or of each pattern.
func (c *client) subscriptionsOfAll(pattern bool) map[string]int64 {
	counts := map[string]int64{}
	count := func(s subscriptions) {
		for _, name := range *s.of(pattern) {
			counts[name]++
		}
	}
	count(c.channels)
	for _, r := range c.srv.news.subscribers(c) {
		count(subscriptions{r.channels, r.patterns})
	}
	return counts
}

func cmdPubsubChannels(c *client, args [][]byte) error {
	if len(args) > 3 {
		return errSubcommand(args)
	}
	pattern := "*"
	if len(args) == 3 {
		pattern = string(args[2])
	}
	var names []string
	size := 0
	for name := range c.subscriptionsOfAll(false) {
		if !glob.Match(pattern, name) {
			continue
		}
		if size += len(name) + perArgument; size > maxKeysReply {
			return errManyPubsub
		}
		names = append(names, name)
	}
	slices.Sort(names)
	c.replyTexts(names)
	return nil
}

func cmdPubsubNumSub(c *client, args [][]byte) error {
	counts := c.subscriptionsOfAll(false)
	c.replyNumSub(args[2:], func(name []byte) int64 { return counts[string(name)] })
	return nil
}

func (c *client) replyNumSub(names [][]byte, count func(name []byte) int64) {
	c.out.Array(2 * len(names))
	for _, name := range names {
		c.out.Bulk(name)
		c.out.Int(count(name))
	}
}

func cmdPubsubNumPat(c *client, _ [][]byte) error {
	c.out.Int(int64(len(c.subscriptionsOfAll(true))))
	return nil
}

func cmdPubsubShardChannels(c *client, args [][]byte) error {
	if len(args) > 3 {
		return errSubcommand(args)
	}
	c.replyTexts(nil)
	return nil
}

func cmdPubsubShardNumSub(c *client, args [][]byte) error {
	c.replyNumSub(args[2:], func([]byte) int64 { return 0 })
	return nil
}

// message renders a message as a reader gets it, once for each of its subscriptions that matches,
// and counts those. It stops as soon as that is more than a feed holds.
func (r *reader) message(channel, text string) (b []byte, matches int64) {
	var out resp.Reply
	out.SetProtocol(r.protocol)
	if slices.Contains(r.channels, channel) {
		pushTexts(&out, "message", channel, text)
		matches++
	}
	for _, pattern := range r.patterns {
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
