package server

import (
	"slices"

	"github.com/throttledhq/throttled/resp"
)

// subscriptions are the channels and patterns to which a connection has subscribed. They are supported because some
// client libraries subscribe when they connect, and require the confirmation. The code in publish.go delivers the
// messages of PUBLISH. On a node of a cluster, the code in broker.go also delivers announcements of a new leader.
//
// The lists are shared with the goroutines that publish, so elements may be appended but not changed.
type subscriptions struct {
	channels, patterns []string
}

func (s *subscriptions) any() bool { return s.count() > 0 }

func (s *subscriptions) count() int { return len(s.channels) + len(s.patterns) }

// of returns the list of patterns if pattern is set, and otherwise the list of channels.
func (s *subscriptions) of(pattern bool) *[]string {
	if pattern {
		return &s.patterns
	}
	return &s.channels
}

// subscribe adds the named channels or patterns, and confirms each one. event is the name of the command.
func (c *client) subscribe(event string, pattern bool, names [][]byte) error {
	defer c.updateSubscriptions()
	list := c.session.subscriptions.of(pattern)
	for _, name := range names {
		switch {
		case slices.Contains(*list, string(name)):
		case len(name) > maxName:
			return errChannelName
		case len(*list) >= maxSubscriptions:
			return errManyChannels
		default:
			*list = append(*list, string(name))
		}
		confirm(&c.out, event, string(name), int64(c.session.subscriptions.count()))
	}
	return nil
}

const maxSubscriptions = 1024 // per connection, for channels and for patterns

// unsubscribe removes the named channels or patterns, or all of them if names is empty, and confirms each one.
func (c *client) unsubscribe(event string, pattern bool, names [][]byte) error {
	defer c.updateSubscriptions()
	s := &c.session.subscriptions
	drop := slices.Clone(*s.of(pattern))
	if len(names) > 0 {
		drop = asStrings(names)
	}
	left := int64(s.count())
	dropped := s.drop(pattern, drop)
	for _, name := range drop {
		if dropped[name] {
			delete(dropped, name)
			left--
		}
		confirm(&c.out, event, name, left)
	}
	if len(drop) == 0 {
		c.out.Push(3)
		c.out.Text(event)
		c.out.Null()
		c.out.Int(left)
	}
	return nil
}

// drop removes names from the list of patterns if pattern is set, and otherwise from the list of channels. It returns
// the names that the list contained. It allocates a new list, since other goroutines may be reading the old list, and
// since the old list would keep the removed names in memory. It makes a single pass, since a command may have a large
// number of names.
func (s *subscriptions) drop(pattern bool, names []string) (dropped map[string]bool) {
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	list := s.of(pattern)
	dropped = map[string]bool{}
	var rest []string
	for _, name := range *list {
		if wanted[name] {
			dropped[name] = true
		} else {
			rest = append(rest, name)
		}
	}
	*list = rest
	return dropped
}

func asStrings(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

func confirm(out *resp.Reply, event, name string, subscribed int64) {
	out.Push(3)
	out.Text(event)
	out.Text(name)
	out.Int(subscribed)
}

// updateSubscriptions updates CLIENT LIST and the memory usage after a change of the subscriptions, and marks the
// subscriptions for registration with the broker.
func (c *client) updateSubscriptions() {
	s := &c.session
	s.subscriptionsChanged = true
	c.updateSettings()
	s.setInfo(func(i *clientInfo) {
		i.channels, i.patterns = len(s.subscriptions.channels), len(s.subscriptions.patterns)
	})
}

func cmdSubscribe(c *client, args [][]byte) error {
	return c.subscribe("subscribe", false, args[1:])
}

func cmdUnsubscribe(c *client, args [][]byte) error {
	return c.unsubscribe("unsubscribe", false, args[1:])
}

func cmdPsubscribe(c *client, args [][]byte) error {
	return c.subscribe("psubscribe", true, args[1:])
}

func cmdPunsubscribe(c *client, args [][]byte) error {
	return c.unsubscribe("punsubscribe", true, args[1:])
}
