package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	herdClients = 10_000
	herdRoom    = 1_000 // other clients
	herdStreams = 128   // streams to the leader that a follower keeps for its clients
	herdWithin  = 3.0   // s, from the loss of the leader until the last client has a decision
	herdGiveUp  = 30 * time.Second
	herdRetry   = 20 * time.Millisecond
)

// herd kills the leader of a cluster that has many clients. All of them reconnect to the other nodes concurrently, and
// charge a limit. These clients are measured, so they have the normal scheduling policy, not that of attackers.
func (a *abuser) herd() error {
	nodes, err := startGroupUnder(a.binary, "--raft-fsync", "no", "--maxclients", strconv.Itoa(herdClients+herdRoom))
	if err != nil {
		return err
	}
	err = withNormalPolicy(func() error { return a.killLeader(nodes) })
	return errors.Join(err, nodes.stop())
}

func (a *abuser) killLeader(nodes *group) error {
	leader, err := nodes.leader()
	if err != nil {
		return err
	}
	h := &idleHolder{addr: leader.addr}
	defer h.close()
	if err := h.hold(herdClients); err != nil {
		return err
	}
	before, err := nodes.heartbeats()
	if err != nil {
		return err
	}
	var left []*node
	for _, n := range nodes.nodes {
		if n != leader {
			left = append(left, n)
		}
	}
	usual, err := openFiles(left[0].pid())
	if err != nil {
		return err
	}
	began := make(chan time.Time, 1)
	var longest, retries atomic.Int64
	go func() {
		began <- time.Now()
		_ = leader.kill() // the error is that the process was killed
	}()
	begin := <-began
	err = together(herdClients, func(i int) error {
		if err := awaitClosed(h.conns[i]); err != nil {
			return err
		}
		tried, err := decideOnce(left[i%len(left)].addr, i)
		raise(&longest, int64(time.Since(begin)))
		retries.Add(tried)
		return err
	})
	if err != nil {
		return err
	}
	nodes.nodes = left
	after, err := nodes.heartbeats()
	if err != nil {
		return err
	}
	a.note("%d retries of all clients", retries.Load())
	a.atMost("time until all clients have a decision", time.Duration(longest.Load()).Seconds(), herdWithin, "s")
	a.atMost("elections", after.term-before.term, 1, "")
	return a.filesClosed(left[0], usual+herdStreams)
}

// awaitClosed waits until the server has closed a connection, and closes it.
func awaitClosed(c net.Conn) error {
	defer func() { _ = c.Close() }()
	if err := c.SetReadDeadline(time.Now().Add(herdGiveUp)); err != nil {
		return err
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		return errors.New("a reply without a request")
	}
	return nil
}

// decideOnce opens a connection and charges a limit. It retries after an error reply, since the cluster has no leader yet.
func decideOnce(addr string, i int) (retries int64, err error) {
	c, err := dialFrom(i/perLoopback, addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(herdGiveUp)); err != nil {
		return 0, err
	}
	replies := bufio.NewReader(c)
	for ; ; retries++ {
		if _, err := fmt.Fprintf(c, "CL.THROTTLE herd:%d 15 30 60\r\n", i); err != nil {
			return retries, err
		}
		var o outcome
		if err := o.read(replies); err != nil {
			return retries, fmt.Errorf("client %d: %w", i, err)
		}
		if o.failed == 0 {
			return retries, nil
		}
		time.Sleep(herdRetry) // the interval of a client that repeats a call
	}
}
