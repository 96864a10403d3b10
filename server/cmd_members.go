package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/server/forward"
	"github.com/throttledhq/throttled/topology"
)

// adminTimeout is the timeout for a change to the cluster. It is shorter than forward.ReplyTimeout, so that a node
// that forwarded the command still receives the reply.
const adminTimeout = forward.ReplyTimeout * 3 / 4

// cmdMembersStatus replies with the status of the cluster as seen by this node.
func cmdMembersStatus(c *client, _ [][]byte) error {
	if c.srv.cluster == nil {
		return errNotClustered
	}
	view, status := c.srv.cluster.View(), c.srv.cluster.Status()
	role := "follower"
	if view.Leading {
		role = "leader"
	}
	replyFields(&c.out, []field{
		{"cluster", view.Cluster}, {"self", view.Self}, {"role", role}, {"leader", view.Leader},
		{"term", decimal(view.Term)}, {"nodes", strconv.Itoa(len(view.Members))}, {"voters", strconv.Itoa(countVoters(view))},
		{"mode", status.Mode}, {"last-index", decimal(status.Last)}, {"commit-index", decimal(status.Committed)},
		{"applied-index", decimal(status.Applied)}, {"snapshot-index", decimal(status.Snapshot)},
		{"waiting", strconv.Itoa(status.Waiting)}, {"unflushed", status.Unflushed.String()},
		{"log-time", decimal(status.LogTime)}, {"log-time-behind", status.Behind.String()},
		{"last-contact", status.Contact.String()}, {"rollbacks", decimal(status.Rollbacks)},
		{"heartbeat", status.Heartbeat.String()}, {"heartbeat-settled", yesNo(status.Settled)},
	})
	return nil
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// cmdMembersNodes replies with one line per member. Only the leader reports the state of its followers.
func cmdMembersNodes(c *client, _ [][]byte) error {
	if c.srv.cluster == nil {
		return errNotClustered
	}
	view, status := c.srv.cluster.View(), c.srv.cluster.Status()
	lines := make([]string, len(view.Members))
	for i := range view.Members {
		lines[i] = describeMember(&view.Members[i], view, &status)
	}
	replyTexts(&c.out, lines)
	return nil
}

func describeMember(m *topology.Member, view *topology.View, status *topology.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s raft=%s role=", m.ID, m.Raft)
	switch {
	case m.ID == view.Leader:
		b.WriteString("leader")
	case m.Voter:
		b.WriteString("follower")
	default:
		b.WriteString("learner")
	}
	if m.ID == view.Self {
		b.WriteString(" self")
	}
	switch f := status.Follower(m.ID); {
	case f == nil:
	case f.Answers:
		fmt.Fprintf(&b, " answers=yes behind=%d", status.Last-min(f.Last, status.Last))
	default:
		b.WriteString(" answers=no")
	}
	if m.Host == "" {
		b.WriteString(" (has not announced its client addresses)")
		return b.String()
	}
	fmt.Fprintf(&b, " host=%s port=%d cluster-port=%d sentinel-port=%d leader-port=%d", m.Host, m.Port, m.ClusterPort, m.SentinelPort, m.LeaderPort)
	if t := m.TLS; t != (topology.Ports{}) {
		fmt.Fprintf(&b, " tls-port=%d tls-cluster-port=%d tls-sentinel-port=%d tls-leader-port=%d", t.Redis, t.Cluster, t.Sentinel, t.Leader)
	}
	return b.String()
}

// cmdMembersHash replies with the fingerprint of the state of this node.
func cmdMembersHash(c *client, _ [][]byte) error {
	if c.srv.cluster == nil {
		return errNotClustered
	}
	state := c.srv.cluster.Fingerprint()
	c.out.Map(4)
	c.out.Text("index")
	c.out.Int(int64(state.Index))
	c.out.Text("log-time")
	c.out.Int(int64(state.LogTime))
	c.out.Text("keys")
	c.out.Int(state.Keys)
	c.out.Text("sum")
	c.out.Text(fmt.Sprintf("%016x", state.Sum))
	return nil
}

// cmdMembersAdd adds a node to the cluster. The node may be started before or after it is added.
func cmdMembersAdd(c *client, args [][]byte) error {
	id, addr := string(args[2]), string(args[3])
	return c.administer(func(ctx context.Context, view *topology.View) error {
		if err := checkMember(view, id, addr); err != nil {
			return err
		}
		return c.srv.cluster.Add(ctx, id, addr)
	})
}

func cmdMembersRemove(c *client, args [][]byte) error {
	id := string(args[2])
	return c.administer(func(ctx context.Context, view *topology.View) error {
		if view.Find(id) == nil {
			return errUnknownNode(args[2])
		}
		return c.srv.cluster.Remove(ctx, id)
	})
}

// cmdMembersTransfer transfers leadership to a node, or to the most up-to-date voter if no node is given.
func cmdMembersTransfer(c *client, args [][]byte) error {
	id := ""
	switch len(args) {
	case 2:
	case 3:
		id = string(args[2])
	default:
		return errSubcommand(args)
	}
	return c.administer(func(ctx context.Context, view *topology.View) error {
		switch to := view.Find(id); {
		case id == "":
		case to == nil:
			return errUnknownNode(args[2])
		case id == view.Self:
			return replyError("ERR node " + quote(args[2]) + " is already the leader")
		case !to.Voter:
			return replyError("ERR node " + quote(args[2]) + " cannot become the leader: it has no vote yet. Try again when CL.CLUSTER NODES shows it as a follower")
		}
		return c.srv.cluster.Transfer(ctx, id)
	})
}

func errUnknownNode(id []byte) replyError {
	return replyError("ERR unknown node " + quote(id) + ": CL.CLUSTER NODES lists the nodes of the cluster")
}

// administer calls the function change with a timeout and the current view, and replies with OK on success. This node
// must be the leader.
func (c *client) administer(change func(ctx context.Context, view *topology.View) error) error {
	if c.srv.cluster == nil {
		return errNotClustered
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	err := change(ctx, c.srv.cluster.View())
	_, known := asReply(err)
	switch {
	case err == nil:
		c.out.OK()
		return nil
	case errors.Is(err, topology.ErrNoLeader):
		return limiter.ErrNotLeading // a different node may lead by now: the command is forwarded to it
	case known:
		return err
	}
	return replyError("ERR " + err.Error())
}

// checkMember returns the error that prevents a node from being added, or nil.
func checkMember(view *topology.View, id, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	n, isPort := resp.ParseInt([]byte(port))
	ip := net.ParseIP(host)
	switch {
	case topology.CheckName(id) != nil:
		return errInvalid("node id", []byte(id), "1 to 40 letters, digits and hyphens, without a hyphen at either end")
	case err != nil || host == "" || !isPort || n < 1 || n > 65535:
		return errInvalid("node address", []byte(addr), "host:port, with a port from 1 to 65535")
	case ip != nil && (ip.IsUnspecified() || ip.IsMulticast()):
		return errInvalid("node address", []byte(addr), "reachable from other nodes, not an unspecified or multicast address")
	}
	for i := range view.Members {
		switch m := &view.Members[i]; {
		case m.ID == id:
			return fmt.Errorf("add %s: %w", id, topology.ErrMember)
		case sameAddress(m.Raft, host, port):
			return fmt.Errorf("add %s: %s is the address of %s: %w", id, addr, m.ID, topology.ErrMember)
		}
	}
	return nil
}

func sameAddress(addr, host, port string) bool {
	h, p, err := net.SplitHostPort(addr)
	return err == nil && strings.EqualFold(h, host) && p == port
}
