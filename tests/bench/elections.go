package main

import (
	"errors"
	"strconv"
)

// crowd is a load that takes all processor time of a machine with two cores that also runs
// three nodes.
var crowd = shape{"4000 connections, depth 16", []string{"-conns", "4000", "-depth", "16", "-duration", "20s"}}

// elections overloads the leader of a cluster of three, and checks that heartbeats are not delayed.
func elections(_ settings, b *board) error {
	return withPrograms(func(server string, g generator) error {
		nodes, err := startGroup(server, "--raft-fsync", "no")
		if err != nil {
			return err
		}
		return errors.Join(overload(nodes, g, b), nodes.stop())
	})
}

func overload(nodes *group, g generator, b *board) error {
	before, err := nodes.heartbeats()
	if err != nil {
		return err
	}
	leader, err := nodes.leader()
	if err != nil {
		return err
	}
	if _, err := g.figures(leader.addr, crowd.flags...); err != nil {
		return err
	}
	after, err := nodes.heartbeats()
	if err != nil {
		return err
	}
	answered := after.answered - before.answered
	b.note("%s: %.0f heartbeats answered, longest round trip since the start %.0f ms", crowd.name, answered, after.longest/1000)
	if answered == 0 {
		return errors.New("no heartbeat was answered")
	}
	b.atMost("overloaded: elections", after.term-before.term, 0, "")
	b.atMost("overloaded: slow heartbeats", 100*(after.slow-before.slow)/answered, 1, "%")
	return nil
}

// heartbeats holds figures about the heartbeats that the nodes of a cluster have sent. The fields
// answered and slow are sums over the nodes; longest and term are maxima.
type heartbeats struct {
	answered, slow float64
	longest        float64 // microseconds
	term           float64 // Raft term
}

func (g *group) heartbeats() (sum heartbeats, err error) {
	for _, n := range g.nodes {
		var h heartbeats
		for name, into := range map[string]*float64{
			"raft_heartbeats_answered": &h.answered, "raft_heartbeats_slow": &h.slow,
			"raft_heartbeat_longest_usec": &h.longest, "raft_term": &h.term,
		} {
			text, err := infoField(n.addr, "replication", name)
			if err != nil {
				return sum, err
			}
			if *into, err = strconv.ParseFloat(text, 64); err != nil {
				return sum, err
			}
		}
		sum.answered += h.answered
		sum.slow += h.slow
		sum.longest = max(sum.longest, h.longest)
		sum.term = max(sum.term, h.term)
	}
	return sum, nil
}
