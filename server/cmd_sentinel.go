package server

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/topology"
)

// A Sentinel of Redis monitors masters, each of which has a name. Every node of a cluster acts as a Sentinel that
// monitors a single master: the leader of the cluster. The option sentinel-master sets the name of this master.

// sentinels returns the members that have announced an address for clients of Redis Sentinel.
func sentinels(view *topology.View) (list []topology.Member) {
	for _, m := range view.Members {
		if m.Host != "" && m.Ports(false).Sentinel != 0 {
			list = append(list, m)
		}
	}
	return list
}

// otherSentinels is like sentinels, but omits this node.
func otherSentinels(view *topology.View) []topology.Member {
	return slices.DeleteFunc(sentinels(view), func(m topology.Member) bool { return m.ID == view.Self })
}

// masterNamed returns the current or last known leader. The error is errNoMaster if name is not the name of the master,
// or if no leader has been known yet.
func masterNamed(s *Server, name []byte) (leaderAddr, error) {
	m, known := s.broker.leader()
	if !known || string(name) != s.opts.Get().SentinelMaster {
		return leaderAddr{}, errNoMaster
	}
	return m, nil
}

func cmdSentinelAddr(c *client, args [][]byte) error {
	m, err := masterNamed(c.srv, args[2])
	if err != nil {
		c.out.NullArray()
		return nil
	}
	replyTexts(&c.out, []string{m.host, strconv.Itoa(m.ports(c.session.secure).Leader)})
	return nil
}

func cmdSentinelMaster(c *client, args [][]byte) error {
	m, err := masterNamed(c.srv, args[2])
	if err == nil {
		replyFields(&c.out, describeMaster(c, m))
	}
	return err
}

func cmdSentinelMasters(c *client, _ [][]byte) error {
	m, known := c.srv.broker.leader()
	c.out.Array(countTrue(known))
	if known {
		replyFields(&c.out, describeMaster(c, m))
	}
	return nil
}

func cmdSentinelReplicas(c *client, args [][]byte) error {
	m, err := masterNamed(c.srv, args[2])
	if err != nil {
		return err
	}
	view, status := c.srv.cluster.View(), c.srv.cluster.Status()
	list := replicas(view, m.id)
	c.out.Array(len(list))
	for i := range list {
		replyFields(&c.out, describeReplica(c, &list[i], m, view, &status))
	}
	return nil
}

// cmdSentinelSentinels lists the other sentinels.
func cmdSentinelSentinels(c *client, args [][]byte) error {
	if _, err := masterNamed(c.srv, args[2]); err != nil {
		return err
	}
	list := otherSentinels(c.srv.cluster.View())
	c.out.Array(len(list))
	for i := range list {
		replyFields(&c.out, describeSentinel(c, &list[i]))
	}
	return nil
}

func cmdSentinelCkQuorum(c *client, args [][]byte) error {
	if _, err := masterNamed(c.srv, args[2]); err != nil {
		return err
	}
	view := c.srv.cluster.View()
	n := len(sentinels(view))
	if view.Leader == "" {
		return replyError(fmt.Sprintf("NOQUORUM %d usable Sentinels. The cluster has no leader at the moment", n))
	}
	c.out.Status(fmt.Sprintf("OK %d usable Sentinels. Quorum and failover authorization can be reached", n))
	return nil
}

// field is a name-value pair in the description of a node. All values are strings.
type field struct{ name, value string }

func replyFields(out *resp.Reply, fields []field) {
	out.Map(len(fields))
	for _, f := range fields {
		out.Text(f.name)
		out.Text(f.value)
	}
}

// instance returns the fields that masters, replicas and Sentinels have in common. Values that a Sentinel of Redis
// measures itself, such as ping times, are 0.
func instance(s *Server, name, id, host string, port int, flags string) []field {
	return []field{
		{"name", name}, {"ip", host}, {"port", strconv.Itoa(port)}, {"runid", s.nodeID(id)}, {"flags", flags},
		{"link-pending-commands", "0"}, {"link-refcount", "1"}, {"last-ping-sent", "0"},
		{"last-ok-ping-reply", "0"}, {"last-ping-reply", "0"},
		{"down-after-milliseconds", strconv.FormatInt(s.cluster.Status().Heartbeat.Milliseconds(), 10)},
	}
}

func reported(role string) []field {
	return []field{{"info-refresh", "0"}, {"role-reported", role}, {"role-reported-time", "0"}}
}

// masterFlags returns the flags of the leader. Clients consider a master down if it has the flag s_down or o_down.
// The flag s_down means that this Sentinel considers the master down; o_down would mean that several Sentinels do.
func masterFlags(view *topology.View) string {
	if view.Leader == "" {
		return "s_down,master,disconnected"
	}
	return "master"
}

func describeMaster(c *client, m leaderAddr) []field {
	s, view := c.srv, c.srv.cluster.View()
	fields := append(instance(s, s.opts.Get().SentinelMaster, m.id, m.host, m.ports(c.session.secure).Leader, masterFlags(view)), reported("master")...)
	return append(fields, []field{
		{"config-epoch", strconv.FormatUint(view.Term, 10)},
		{"num-slaves", strconv.Itoa(len(replicas(view, m.id)))},
		{"num-other-sentinels", strconv.Itoa(len(otherSentinels(view)))},
		{"quorum", strconv.Itoa(countVoters(view)/2 + 1)},
		{"failover-timeout", "1000"},
		{"parallel-syncs", "1"},
	}...)
}

func describeReplica(c *client, r *topology.Member, of leaderAddr, view *topology.View, status *topology.Status) []field {
	port, flags, link, downFor := r.Ports(c.session.secure).Leader, "slave", "ok", int64(0)
	if isDown(status, r.ID) {
		flags, link, downFor = "s_down,slave,disconnected", "err", status.Follower(r.ID).Silent.Milliseconds()
	}
	name := r.Host + ":" + strconv.Itoa(port)
	fields := append(instance(c.srv, name, r.ID, r.Host, port, flags), reported("slave")...)
	return append(fields, []field{
		{"master-link-down-time", strconv.FormatInt(downFor, 10)},
		{"master-link-status", link},
		{"master-host", of.host},
		{"master-port", strconv.Itoa(of.ports(c.session.secure).Leader)},
		{"slave-priority", "100"},
		{"slave-repl-offset", decimal(offsetOf(view, status, r.ID))},
		{"replica-announced", "1"},
	}...)
}

func describeSentinel(c *client, m *topology.Member) []field {
	return append(instance(c.srv, c.srv.nodeID(m.ID), m.ID, m.Host, m.Ports(c.session.secure).Sentinel, "sentinel"), []field{
		{"last-hello-message", "0"}, {"voted-leader", "?"}, {"voted-leader-epoch", "0"},
	}...)
}
