package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"
)

// maxLearned is the maximum number of addresses that a sidecar uses in addition to the configured ones.
const maxLearned = 16

// nodes are the addresses at which the upstream may be reached: the configured ones, and those that the leader has named. One
// goroutine uses them.
type nodes struct {
	configured []string
	learned    []string // in the last answer of the leader, in its order
}

// all returns all addresses.
func (n *nodes) all() []string { return append(slices.Clip(n.configured), n.learned...) }

// learn replaces the learned addresses by those in an answer of the leader, and reports whether they differ. An address that
// is not named any more may belong to another server, which must not get the credentials.
func (n *nodes) learn(addrs []string) bool {
	var named []string
	for _, addr := range addrs {
		if !slices.Contains(n.configured, addr) && !slices.Contains(named, addr) {
			named = append(named, addr)
		}
	}
	named = named[:min(len(named), maxLearned)]
	if slices.Equal(named, n.learned) {
		return false
	}
	n.learned = named
	return true
}

// indexAfter returns the index of the address behind addr.
func (n *nodes) indexAfter(addr string) int { return slices.Index(n.all(), addr) + 1 }

// role is the information in a reply to ROLE.
type role struct {
	leader   string   // address of the leader; empty if the node is the leader, has no leader, or has refused the command
	replicas []string // addresses of the other nodes, if the node is the leader
	sentinel string   // name of the master, if the address is one for clients of Sentinel
}

// parseRole returns the information in a reply to ROLE.
func parseRole(reply any) (r role) {
	list, _ := reply.([]any)
	if len(list) < 2 {
		return r
	}
	switch list[0] {
	case "slave":
		r.leader = addressIn(list[1:])
	case "master":
		last, _ := list[len(list)-1].([]any)
		for _, replica := range last {
			fields, _ := replica.([]any)
			if addr := addressIn(fields); addr != "" {
				r.replicas = append(r.replicas, addr)
			}
		}
	case "sentinel":
		if names, _ := list[1].([]any); len(names) > 0 {
			r.sentinel, _ = names[0].(string)
		}
	}
	return r
}

// addressIn returns the address that starts with a host and a port, or an empty string. The port is a number or a text.
func addressIn(fields []any) string {
	if len(fields) < 2 {
		return ""
	}
	host, _ := fields[0].(string)
	port := fmt.Sprint(fields[1])
	if n, err := strconv.ParseUint(port, 10, 16); host == "" || err != nil || n == 0 {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// sentinelError means that an address is one for clients of Sentinel, which does not decide requests.
type sentinelError struct{ master string }

func (e *sentinelError) Error() string { return "the address is that of a Sentinel for " + e.master }

// openNode is like openProber, but an address for clients of Sentinel is replaced by that of the leader.
func openNode(ctx context.Context, c *Credentials, addr string) (*prober, error) {
	p, err := openProber(ctx, c, addr)
	sentinel := new(sentinelError)
	if !errors.As(err, &sentinel) {
		return p, err
	}
	leader, err := askSentinel(ctx, c, addr, sentinel.master)
	if err != nil {
		return nil, err
	}
	return openProber(ctx, c, leader)
}

// askSentinel returns the address of the leader according to a Sentinel.
func askSentinel(ctx context.Context, c *Credentials, addr, master string) (string, error) {
	conn, err := c.connect(ctx, addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	replies, err := newCommandConn(conn, addr).exchange([][]string{{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", master}})
	if err != nil {
		return "", err
	}
	fields, _ := replies[0].([]any)
	leader := addressIn(fields)
	if leader == "" {
		return "", fmt.Errorf("the Sentinel reports no leader of %s: %v", master, replies[0])
	}
	return leader, nil
}
