package server

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/topology"
)

func cmdNoCluster(_ *client, _ [][]byte) error { return errNoCluster }

// cmdOK implements READONLY, READWRITE and ASKING. They have no effect, since a follower redirects reads as well as
// writes.
func cmdOK(c *client, _ [][]byte) error {
	c.out.OK()
	return nil
}

// slotNodes returns the nodes that are reported to Redis Cluster clients. The first node is the current or last known
// leader, which serves all slots. If that leader is unknown or has not announced its address, slotNodes returns nil.
func (s *Server) slotNodes() (nodes []topology.Member) {
	view := s.cluster.View()
	leading := view.Leader
	if leading == "" {
		last, _ := s.broker.leader()
		leading = last.id
	}
	leader := view.Find(leading)
	if !inSlots(leader) {
		return nil
	}
	nodes = append(nodes, *leader)
	for i := range view.Members {
		if m := &view.Members[i]; m.ID != leading && inSlots(m) {
			nodes = append(nodes, *m)
		}
	}
	return nodes
}

func (s *Server) nodeID(member string) string { return clusterNodeID(s.cluster.View().Cluster, member) }

// cmdClusterSlots replies with the nodes that serve the slots. On the leader, it omits nodes that do not respond, as
// Redis does. Otherwise some clients would not start, because they require that all reported nodes are reachable. A
// follower has no record of which nodes respond.
func cmdClusterSlots(c *client, _ [][]byte) error {
	status := c.srv.cluster.Status()
	nodes := slices.DeleteFunc(c.srv.slotNodes(), func(m topology.Member) bool { return isDown(&status, m.ID) })
	if len(nodes) == 0 {
		c.out.Array(0)
		return nil
	}
	c.out.Array(1)
	c.out.Array(2 + len(nodes))
	c.out.Int(0)
	c.out.Int(slotCount - 1)
	for _, m := range nodes {
		c.out.Array(4)
		c.out.Text(m.Host)
		c.out.Int(int64(m.Ports(c.session.secure).Cluster))
		c.out.Text(c.srv.nodeID(m.ID))
		c.out.Map(0) // no networking metadata
	}
	return nil
}

func cmdClusterShards(c *client, _ [][]byte) error {
	nodes := c.srv.slotNodes()
	if len(nodes) == 0 {
		c.out.Array(0)
		return nil
	}
	c.out.Array(1)
	c.out.Map(2)
	c.out.Text("slots")
	c.out.Array(2)
	c.out.Int(0)
	c.out.Int(slotCount - 1)
	c.out.Text("nodes")
	c.out.Array(len(nodes))
	view, status := c.srv.cluster.View(), c.srv.cluster.Status()
	for i, m := range nodes {
		replyShardNode(&c.out, c.srv.nodeID(m.ID), &m, i == 0, offsetOf(view, &status, m.ID), isDown(&status, m.ID))
	}
	return nil
}

func replyShardNode(out *resp.Reply, id string, m *topology.Member, master bool, offset uint64, down bool) {
	texts := func(name, value string) {
		out.Text(name)
		out.Text(value)
	}
	numbers := func(name string, value int64) {
		out.Text(name)
		out.Int(value)
	}
	out.Map(6 + countTrue(m.ClusterPort != 0) + countTrue(m.TLS.Cluster != 0))
	texts("id", id)
	if m.ClusterPort != 0 {
		numbers("port", int64(m.ClusterPort))
	}
	if m.TLS.Cluster != 0 {
		numbers("tls-port", int64(m.TLS.Cluster))
	}
	texts("ip", m.Host)
	texts("endpoint", m.Host)
	texts("role", [...]string{"replica", "master"}[countTrue(master)])
	numbers("replication-offset", int64(offset))
	texts("health", [...]string{"online", "fail"}[countTrue(down)])
}

// cmdClusterNodes returns one line per node in the format of the nodes.conf file of Redis. The port after the @ is the
// port of the Raft address.
func cmdClusterNodes(c *client, _ [][]byte) error {
	nodes, view, status := c.srv.slotNodes(), c.srv.cluster.View(), c.srv.cluster.Status()
	var b strings.Builder
	for i, m := range nodes {
		flags, master, link, slots := "master", "-", "connected", fmt.Sprintf(" 0-%d", slotCount-1)
		if i > 0 {
			flags, master, slots = "slave", c.srv.nodeID(nodes[0].ID), ""
		}
		if m.ID == view.Self {
			flags = "myself," + flags
		}
		if isDown(&status, m.ID) {
			flags, link = flags+",fail", "disconnected"
		}
		_, bus, _ := net.SplitHostPort(m.Raft) // cannot fail: addresses in the log have been validated
		fmt.Fprintf(&b, "%s %s:%d@%s %s %s 0 0 %d %s%s\n", c.srv.nodeID(m.ID), m.Host, m.Ports(c.session.secure).Cluster, bus, flags, master, view.Term, link, slots)
	}
	c.out.Verbatim(b.String())
	return nil
}

func cmdClusterInfo(c *client, _ [][]byte) error {
	nodes, view := c.srv.slotNodes(), c.srv.cluster.View()
	state, assigned := "ok", slotCount
	if view.Leader == "" || len(nodes) == 0 {
		state = "fail"
	}
	if len(nodes) == 0 {
		assigned = 0
	}
	w := infoWriter{listener: c.listener}
	w.field("cluster_state", state)
	w.field("cluster_slots_assigned", assigned)
	w.field("cluster_slots_ok", assigned)
	w.field("cluster_slots_pfail", 0)
	w.field("cluster_slots_fail", 0)
	w.field("cluster_known_nodes", len(nodes))
	w.field("cluster_size", min(1, len(nodes)))
	w.field("cluster_current_epoch", view.Term)
	w.field("cluster_my_epoch", view.Term)
	w.field("cluster_stats_messages_sent", 0)
	w.field("cluster_stats_messages_received", 0)
	w.field("total_cluster_links_buffer_limit_exceeded", 0)
	c.out.Verbatim(w.String())
	return nil
}

func cmdClusterMyID(c *client, _ [][]byte) error {
	c.out.Text(c.srv.nodeID(c.srv.cluster.View().Self))
	return nil
}

func cmdClusterKeySlot(c *client, args [][]byte) error {
	c.out.Int(int64(slotOf(args[2])))
	return nil
}

// cmdClusterCountKeys replies with an error, since keys are not counted by slot.
func cmdClusterCountKeys(_ *client, args [][]byte) error {
	slot, ok := resp.ParseInt(args[2])
	switch {
	case !ok:
		return errNotInteger
	case slot < 0 || slot >= slotCount:
		return errSlot
	}
	return errSlotKeys
}
