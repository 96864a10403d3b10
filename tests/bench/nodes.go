package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// group is a cluster of throttled processes on loopback.
type group struct {
	dir   string
	nodes []*node
}

// node is one process of a group.
type node struct {
	id, addr string
	raft     string // address for the other nodes
	args     []string
	cmd      *exec.Cmd
}

const (
	formWithin = 20 * time.Second
	lookEvery  = 5 * time.Millisecond
)

// freeAddrs returns n free loopback addresses.
func freeAddrs(n int) ([]string, error) {
	addrs := make([]string, n)
	for i := range addrs {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = ln.Close() }()
		addrs[i] = ln.Addr().String()
	}
	return addrs, nil
}

// groupSize is the number of nodes in a group.
const groupSize = 3

// startGroup starts the nodes of a group with data in a new directory, and waits until one
// of them is the leader.
func startGroup(binary string, args ...string) (*group, error) {
	return startGroupUnder([]string{binary}, args...)
}

// startGroupUnder is like startGroup. The last element of line is the binary, the elements before it are a command that runs it.
func startGroupUnder(line []string, args ...string) (*group, error) {
	dir, err := os.MkdirTemp("", "throttled-bench-")
	if err != nil {
		return nil, err
	}
	g := &group{dir: dir}
	addrs, err := freeAddrs(2 * groupSize)
	if err != nil {
		return nil, errors.Join(err, g.stop())
	}
	list := ""
	for i := range groupSize {
		list += fmt.Sprintf(" n%d=%s", i+1, addrs[groupSize+i])
	}
	for i := range groupSize {
		id := fmt.Sprintf("n%d", i+1)
		_, port, _ := strings.Cut(addrs[i], ":")
		g.nodes = append(g.nodes, &node{id: id, addr: addrs[i], raft: addrs[groupSize+i], args: slices.Concat(line, []string{
			"--port", port, "--cluster-port", "0", "--sentinel-port", "0", "--data-dir", filepath.Join(dir, id),
			"--cluster-id", "bench", "--node-id", id, "--raft-addr", addrs[groupSize+i], "--raft-insecure", "yes", "--bootstrap", strings.TrimSpace(list),
		}, args)})
	}
	for _, n := range g.nodes {
		if err := n.start(); err != nil {
			return nil, errors.Join(err, g.stop())
		}
	}
	if _, err := g.leader(); err != nil {
		return nil, errors.Join(err, g.stop())
	}
	return g, nil
}

func (n *node) start() error {
	n.cmd = exec.Command(n.args[0], n.args[1:]...)
	logs, err := n.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := n.cmd.Start(); err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, bufio.NewReader(logs)) }()
	return nil
}

func (n *node) kill() error {
	err := n.cmd.Process.Kill()
	_ = n.cmd.Wait() // the error is that the process was killed
	n.cmd = nil
	return err
}

func (n *node) pid() int { return n.cmd.Process.Pid }

// role returns the role in INFO, or "" if the node does not answer.
func (n *node) role() string {
	text, err := infoField(n.addr, "replication", "role")
	if err != nil {
		return ""
	}
	return text
}

// leader waits for a leader and returns it.
func (g *group) leader() (*node, error) {
	ctx, cancel := context.WithTimeout(context.Background(), formWithin)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		for _, n := range g.nodes {
			if n.cmd != nil && n.role() == "master" {
				return n, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, errors.New("no node is the leader")
		case <-ticker.C:
		}
	}
}

// other returns a node that is not n.
func (g *group) other(n *node) *node {
	return g.nodes[slices.IndexFunc(g.nodes, func(m *node) bool { return m != n })]
}

// electionsDuring returns the number of elections while f runs.
func (g *group) electionsDuring(f func() error) (float64, error) {
	before, err := g.heartbeats()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := g.heartbeats()
	return after.term - before.term, err
}

// raftConnections returns the open connections between the nodes.
func (g *group) raftConnections() (map[socket]bool, error) {
	var addrs []string
	for _, n := range g.nodes {
		addrs = append(addrs, n.raft)
	}
	return connectionsTo(addrs...)
}

// awaitLink waits until a follower has a leader.
func (n *node) awaitLink() error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for end := time.Now().Add(formWithin); time.Now().Before(end); <-ticker.C {
		if link, err := infoField(n.addr, "replication", "master_link_status"); err == nil && link == "up" {
			return nil
		}
	}
	return fmt.Errorf("node %s has no leader", n.id)
}

// stop stops all nodes, and removes their data.
func (g *group) stop() error {
	var errs []error
	for _, n := range g.nodes {
		if n.cmd != nil {
			errs = append(errs, n.cmd.Process.Signal(syscall.SIGTERM))
		}
	}
	for _, n := range g.nodes {
		if n.cmd != nil {
			errs = append(errs, n.cmd.Wait())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(g.dir))...)
}
