package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// groups is the workload of the scenario sidecars-rules: requests that charge several limits.
type groups struct {
	rules   *rulesKeys
	pairs   []windowKey  // CL.ALL charges two of them
	begun   int64        // time at which the load begins
	singles atomic.Int64 // requests of one limit that were sent
}

// newGroups makes groupsRules the rules of the cluster, and waits until the sidecars use them.
func newGroups(ctx context.Context, f *fleet) (workload, error) {
	err := await(ctx, startWithin, func() (bool, error) {
		_, err := askOnce(f.nodes[0].addr(), editWithin, "CL.RULES", "SET", groupsRules)
		return err == nil, err
	})
	for _, s := range f.sidecars {
		if err == nil {
			err = await(ctx, startWithin, func() (bool, error) {
				info, err := s.section(patience, "rules")
				return number(info, "rules_active_version") > 0, err
			})
		}
	}
	return &groups{rules: newRulesKeys(), pairs: pairs(), begun: f.clock.now()}, err
}

// The load: the largest number of requests of a pipeline, and the times after which the demand moves to the next path, user and
// pair. Some of the limits are exhausted while they are in demand.
const (
	groupsPiped = 12
	hotPath     = 6 * time.Second
	hotUser     = 2 * time.Second
	hotPair     = 5 * time.Second
)

// hot returns a number below n. More than half of the results are the number that is in demand at present.
func (g *groups) hot(c *client, n int, every time.Duration) int {
	if c.random.IntN(3) > 0 {
		return int((c.clock.now()-g.begun)/int64(every)) % n
	}
	return c.random.IntN(n)
}

// send sends a pipeline of groups. It sends a single one if not all requests of the last pipeline were decided: otherwise most of
// the recorded requests would be those of outages, of which it is not known whether they were charged.
func (g *groups) send(c *client) {
	list := []*group{g.next(c)}
	for range c.random.IntN(groupsPiped) {
		if !c.unsure {
			list = append(list, g.next(c))
		}
	}
	c.charge(list...)
}

// next returns a random group.
func (g *groups) next(c *client) *group {
	one := g.hot(c, len(g.pairs), hotPair)
	switch dice := c.random.IntN(100); {
	case dice < 30:
		return g.rules.check(g.hot(c, len(g.rules.paths), hotPath), g.hot(c, len(g.rules.users), hotUser), "")
	case dice < 60:
		return g.rules.check(g.hot(c, len(g.rules.paths), hotPath), g.hot(c, len(g.rules.users), hotUser), leasedAccount)
	case dice < 65:
		return g.rules.queued()
	case dice < 68:
		g.singles.Add(1)
		return oneOf(&g.pairs[one])
	}
	other := (one + 1 + c.random.IntN(2)*c.random.IntN(len(g.pairs)-1)) % len(g.pairs)
	return allOf(&g.pairs[one], &g.pairs[other])
}

// charge sends groups in one write, and records the decisions.
func (c *client) charge(list ...*group) {
	if !c.connected() {
		return
	}
	var commands [][]string
	for _, g := range list {
		commands = append(commands, g.words)
	}
	node := c.current
	call, answers := c.exchange(commands)
	c.unsure = false
	for i := range answers {
		a := &answers[i]
		o := history.Op{Client: c.id, Node: node, Quantity: 1, Call: call, Return: a.at}
		if a.fate == decided && isFailed(&a.reply) { // charged or not
			if a.fate = unknown; a.reply.list[0].n != 1 {
				c.complain("%v: admitted without a leader: %+v", list[i].words, a.reply)
			}
		}
		c.unsure = c.unsure || a.fate != decided
		switch a.fate {
		case unknown:
			o.Outcome, o.Return = history.Unknown, history.Never
			c.keepAll(list[i], o)
		case decided:
			c.recordGroup(list[i], o, &a.reply)
		}
	}
}

// keepAll records the same outcome for each limit of a group.
func (c *client) keepAll(g *group, o history.Op) {
	for _, l := range g.limits {
		o.Key = l.of
		c.ops = append(c.ops, o)
	}
}

// recordGroup records the decision on each limit of a group: an admitted group charges all live limits, and a refused one none of
// them. A shadow limit is charged unless it would refuse the request itself.
func (c *client) recordGroup(g *group, o history.Op, r *reply) {
	shown, err := g.read(r)
	if err != nil {
		c.complain("%v: %v", g.words, err)
		return
	}
	for i, l := range g.limits {
		o.Key, o.Outcome = l.of, history.Outcome(r.list[0].n)
		if l.shadow {
			if o.Outcome = history.Granted; shown[i].limited {
				o.Outcome = history.Limited
			}
		}
		c.ops = append(c.ops, o)
	}
}
