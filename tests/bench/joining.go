package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

const (
	joinKeys   = 1_000_000
	joinWithin = 60 * time.Second
)

// joining puts load on a cluster with a million keys. It measures latencies while the leader takes
// snapshots, and the time until a new node has a vote.
func joining(s settings, b *board) error {
	return withPrograms(func(server string, g generator) error {
		nodes, err := startGroup(server, "--raft-fsync", "no")
		if err != nil {
			return err
		}
		return errors.Join(joinGroup(nodes, g, s, b), nodes.stop())
	})
}

func joinGroup(nodes *group, g generator, s settings, b *board) error {
	leader, err := nodes.leader()
	if err != nil {
		return err
	}
	if err := fillAll(leader.addr, keyspace{"m:", 16, 0, joinKeys}, roomy); err != nil {
		return err
	}
	var quiet, saving []latencies
	saves := 0
	for range s.rounds {
		l, err := g.run(leader.addr, joinKeys, tailTime, b)
		if err != nil {
			return err
		}
		quiet = append(quiet, l)
		if l, err = whileSaving(leader.addr, &saves, func() (latencies, error) { return g.run(leader.addr, joinKeys, tailTime, b) }); err != nil {
			return err
		}
		saving = append(saving, l)
	}
	b.latencies("without snapshots", quiet)
	b.latencies("while the leader takes snapshots", saving)
	b.note("%d snapshots taken", saves)
	b.atMost("p99 with snapshots, ratio to p99 without", middle(saving).p99/middle(quiet).p99, 2, "x")
	return joinOne(nodes, leader, g, b)
}

// whileSaving runs a load while the leader takes consecutive snapshots. It adds the number of
// snapshots to *saves.
func whileSaving(addr string, saves *int, load func() (latencies, error)) (l latencies, err error) {
	var over atomic.Bool
	saved := make(chan error, 1)
	go func() {
		for !over.Load() {
			if _, err := command(addr, "SAVE"); err != nil {
				saved <- err
				return
			}
			*saves++
		}
		saved <- nil
	}()
	l, err = load()
	over.Store(true)
	return l, errors.Join(err, <-saved)
}

// joinOne adds a node while the leader is under load.
func joinOne(nodes *group, leader *node, g generator, b *board) error {
	addrs, err := freeAddrs(2)
	if err != nil {
		return err
	}
	_, port, _ := strings.Cut(addrs[0], ":")
	var via string
	for i, arg := range leader.args {
		if arg == "--raft-addr" {
			via = leader.args[i+1]
		}
	}
	n := &node{id: "n4", addr: addrs[0], args: []string{
		leader.args[0], "--port", port, "--cluster-port", "0", "--sentinel-port", "0", "--data-dir", filepath.Join(nodes.dir, "n4"),
		"--cluster-id", "bench", "--node-id", "n4", "--raft-addr", addrs[1], "--raft-insecure", "yes", "--join", via, "--raft-fsync", "no",
	}}
	nodes.nodes = append(nodes.nodes, n)
	loaded := make(chan error, 1)
	var l latencies
	go func() {
		var err error
		l, err = g.run(leader.addr, joinKeys, tailTime, b)
		loaded <- err
	}()
	begun := time.Now()
	if err := n.start(); err != nil {
		return errors.Join(err, <-loaded)
	}
	err = awaitVote(leader.addr, "n4")
	took := time.Since(begun)
	if err = errors.Join(err, <-loaded); err != nil {
		return err
	}
	b.latencies("while a node joins", []latencies{l})
	b.atMost("from the start of a new node to its vote", took.Seconds(), 10, "s")
	return nil
}

// awaitVote waits until a node has a vote.
func awaitVote(addr, id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), joinWithin)
	defer cancel()
	ticker := time.NewTicker(10 * lookEvery)
	defer ticker.Stop()
	for {
		text, err := command(addr, "CL.CLUSTER NODES")
		if err == nil && votes(text, id) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not a voter after %v: %q", id, joinWithin, text), err)
		case <-ticker.C:
		}
	}
}

// votes reports whether the reply to CL.CLUSTER NODES lists a node as a voter.
func votes(nodes, id string) bool {
	for line := range strings.Lines(nodes) {
		if strings.HasPrefix(line, id+" ") {
			return strings.Contains(line, " role=follower ") || strings.Contains(line, " role=leader ")
		}
	}
	return false
}
