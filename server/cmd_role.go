package server

import (
	"slices"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/topology"
)

func cmdRole(c *client, _ [][]byte) error {
	switch {
	case !c.srv.clustered():
		replyLeaderRole(c, &topology.View{}, &topology.Status{})
	case !c.pipe.leads():
		leader, _ := c.srv.broker.leader()
		replyFollowerRole(c, leader)
	default:
		status := c.srv.cluster.Status()
		replyLeaderRole(c, c.srv.cluster.View(), &status)
	}
	return nil
}

// cmdSentinelRole implements ROLE for clients of Redis Sentinel.
func cmdSentinelRole(c *client, _ [][]byte) error {
	c.out.Array(2)
	c.out.Text("sentinel")
	replyTexts(&c.out, []string{c.srv.opts.Get().SentinelMaster})
	return nil
}

// replicas returns the members other than leader that have announced an address for clients.
func replicas(view *topology.View, leader string) (list []topology.Member) {
	for _, m := range view.Members {
		if m.ID != leader && m.Host != "" && m.Ports(false).Redis != 0 {
			list = append(list, m)
		}
	}
	return list
}

// connected returns the replicas that respond to this node, which must be the leader. Like Redis, it omits disconnected
// replicas.
func connected(view *topology.View, status *topology.Status) []topology.Member {
	return slices.DeleteFunc(replicas(view, view.Self), func(m topology.Member) bool {
		f := status.Follower(m.ID)
		return f == nil || !f.Answers
	})
}

// isDown reports whether this node is the leader and the member with the given id does not respond to it.
func isDown(status *topology.Status, id string) bool {
	f := status.Follower(id)
	return f != nil && !f.Answers
}

// offsetOf returns the replication offset of a member. For this node, it is the applied index. For a member in
// Status.Followers, it is the index of the last entry of the member, or the applied index of this node if this index is
// lower: monitoring tools expect that the offset of a follower is not higher than that of the leader. For any other
// member, it is the commit index.
func offsetOf(view *topology.View, status *topology.Status, id string) uint64 {
	f := status.Follower(id)
	switch {
	case id == view.Self:
		return status.Applied
	case f == nil:
		return status.Committed
	}
	return min(f.Last, status.Applied)
}

// replyLeaderRole appends the role of a leader, with the replication offset of each follower.
func replyLeaderRole(c *client, view *topology.View, status *topology.Status) {
	out := &c.out
	followers := connected(view, status)
	out.Array(3)
	out.Text("master")
	out.Int(int64(status.Applied))
	out.Array(len(followers))
	for _, m := range followers {
		replyTexts(out, []string{m.Host, strconv.Itoa(m.Ports(c.session.secure).Redis), decimal(offsetOf(view, status, m.ID))})
	}
}

func replyFollowerRole(c *client, leader leaderAddr) {
	out, cluster := &c.out, c.srv.cluster
	out.Array(5)
	out.Text("slave")
	out.Text(leader.host)
	out.Int(int64(leader.ports(c.session.secure).Redis))
	out.Text(linkWord(cluster.View(), "connected", "connect"))
	out.Int(int64(cluster.Status().Applied))
}

// linkWord returns the argument yes if a different node is the leader of the cluster, and otherwise the argument no.
func linkWord(view *topology.View, yes, no string) string {
	if view.Leader != "" && view.Leader != view.Self {
		return yes
	}
	return no
}

// cmdWait waits until a majority of the nodes has all earlier changes. It then replies with the number of nodes
// besides this one that are needed for a majority. It replies with 0 on a timeout, on a standalone server, within a
// transaction, and if a charge made by the client may have been rolled back.
func cmdWait(c *client, args [][]byte) error {
	if _, ok := resp.ParseInt(args[1]); !ok {
		return errNotInteger
	}
	ms, ok := resp.ParseInt(args[2])
	switch {
	case !ok || ms > int64(maxWait/time.Millisecond):
		return errTimeout
	case ms < 0:
		return replyError("ERR timeout is negative")
	case c.srv.cluster == nil || c.session.tx.running:
		c.out.Int(0)
		return nil
	}
	n := 0
	if awaitMajority(c.srv, time.Duration(ms)*time.Millisecond) && c.pipe.charged.holds(c.srv, c.pipe.leads()) {
		n = countVoters(c.srv.cluster.View()) / 2
	}
	c.out.Int(int64(n))
	return nil
}

// maxWait is the maximum timeout of WAIT. In Redis, timeout 0 means no timeout. Here it means maxWait. The effect is
// the same: a leader without a majority steps down much earlier, and WAIT then returns.
const maxWait = time.Hour

func countVoters(view *topology.View) (n int) {
	for i := range view.Members {
		n += countTrue(view.Members[i].Voter)
	}
	return n
}

// awaitMajority waits until a majority of the nodes has all earlier changes. It returns false on a timeout or an
// error, or if the server shuts down.
func awaitMajority(s *Server, timeout time.Duration) bool {
	if timeout == 0 {
		timeout = maxWait
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	done := make(chan error, 1)
	go func() { done <- awaitCommit(s) }() // ends at the latest when this node loses leadership
	select {
	case err := <-done:
		return err == nil
	case <-timer.C:
	case <-s.shutdownBegun:
	}
	return false
}

// awaitCommit waits until all earlier changes are committed, even in async mode.
func awaitCommit(s *Server) error {
	before := s.engine.LastWrite()
	err := s.engine.WaitCommitted(before)
	if err != nil || !s.isAsync() {
		return err
	}
	if err = s.cluster.Flush(); err == nil && s.engine.LastWrite().Epoch != before.Epoch {
		err = limiter.ErrUncertain // a new leadership has begun, so earlier changes may have been rolled back
	}
	return err
}

// isAsync reports whether the node is in async mode, in which replies do not wait for replication.
func (s *Server) isAsync() bool { return s.cluster.Status().Mode == "async" }
