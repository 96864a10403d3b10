package server

import "slices"

// subscriptions are the channels that a connection waits on. Client libraries subscribe as part of
// connecting, and expect the confirmation. What is published there is in publish.go and, on a node
// of a cluster, in news.go.
//
// The lists are shared with the goroutines that publish: their elements are appended to and never changed.
type subscriptions struct {
	channels, patterns []string
}

func (s *subscriptions) any() bool { return len(s.channels)+len(s.patterns) > 0 }

// of returns the list that a command is about.
func (s *subscriptions) of(pattern bool) *[]string {
	if pattern {
		return &s.patterns
	}
	return &s.channels
}

// subscribe adds the named channels and confirms each.
func (c *client) subscribe(event string, pattern bool, names [][]byte) error {
	defer c.showSubscriptions()
	list := c.channels.of(pattern)
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
		c.confirm(event, string(name))
	}
	return nil
}

const maxSubscriptions = 1024 // of a kind, on one connection

// unsubscribe drops the named channels, or all of them, and confirms each.
func (c *client) unsubscribe(event string, pattern bool, names [][]byte) error {
	list := c.channels.of(pattern)
	drop := make([]string, 0, len(names))
	for _, name := range names {
		drop = append(drop, string(name))
	}
	if len(names) == 0 {
		drop = slices.Clone(*list)
	}
	for _, name := range drop {
		*list = without(*list, name)
		c.confirm(event, name)
	}
	if len(drop) == 0 {
		c.out.Push(3)
		c.out.Text(event)
		c.out.Null()
		c.out.Int(c.subscribed())
	}
	c.showSubscriptions()
	return nil
}

// without returns a list without a name. It leaves the elements of list as they are.
func without(list []string, name string) []string {
	i := slices.Index(list, name)
	switch {
	case i < 0:
		return list
	case len(list) == 1:
		return nil
	case i == 0:
		return list[1:] // as when all are dropped, which would otherwise copy the list for each
	}
	return slices.Concat(list[:i], list[i+1:])
}

func (c *client) confirm(event, name string) {
	c.out.Push(3)
	c.out.Text(event)
	c.out.Text(name)
	c.out.Int(c.subscribed())
}

func (c *client) subscribed() int64 {
	return int64(len(c.channels.channels) + len(c.channels.patterns))
}

func (c *client) showSubscriptions() {
	c.retune = true
	c.noteSettings()
	c.show(func(p *profile) {
		p.channels, p.patterns = len(c.channels.channels), len(c.channels.patterns)
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
