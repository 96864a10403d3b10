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
	case c.srv.cluster == nil:
		c.replyLeaderRole(&topology.View{}, &topology.Status{})
	case c.elsewhere():
		c.replyFollowerRole()
	default:
		status := c.srv.cluster.Status()
		c.replyLeaderRole(c.srv.cluster.View(), &status)
	}
	return nil
}

// cmdSentinelRole is ROLE for clients of a Sentinel.
func cmdSentinelRole(c *client, _ [][]byte) error {
	c.out.Array(2)
	c.out.Text("sentinel")
	c.replyTexts([]string{c.srv.opts.Get().SentinelMaster})
	return nil
}

// replicas returns the members but for a leader that clients can reach.
func replicas(view *topology.View, leader string) (list []topology.Member) {
	for _, m := range view.Members {
		if m.ID != leader && m.Host != "" && m.Port != 0 {
			list = append(list, m)
		}
	}
	return list
}

// connected returns the replicas of this node, which leads, that answer it. Redis forgets a replica, too,
// when its connection is gone.
func connected(view *topology.View, status *topology.Status) []topology.Member {
	return slices.DeleteFunc(replicas(view, view.Self), func(m topology.Member) bool {
		f := status.Follower(m.ID)
		return f == nil || !f.Answers
	})
}

// isDown reports whether a member is known not to answer the leader, which only that one knows.
func isDown(status *topology.Status, id string) bool {
	f := status.Follower(id)
	return f != nil && !f.Answers
}

// offsetOf returns how far a member is: this node, and what it knows of its followers, or else how far
// most are. Nobody is shown to be further than this node is itself: tools subtract.
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

// replyLeaderRole says who follows, and how far each is.
func (c *client) replyLeaderRole(view *topology.View, status *topology.Status) {
	followers := connected(view, status)
	c.out.Array(3)
	c.out.Text("master")
	c.out.Int(int64(status.Applied))
	c.out.Array(len(followers))
	for _, m := range followers {
		c.replyTexts([]string{m.Host, strconv.Itoa(m.Port), decimal(offsetOf(view, status, m.ID))})
	}
}

func (c *client) replyFollowerRole() {
	leader, _ := c.srv.news.leader()
	c.out.Array(5)
	c.out.Text("slave")
	c.out.Text(leader.host)
	c.out.Int(int64(leader.port))
	c.out.Text(linkWord(c.srv.cluster.View(), "connected", "connect"))
	c.out.Int(int64(c.srv.cluster.Status().Applied))
}

// linkWord says whether there is a leader to follow, in one of two words.
func linkWord(view *topology.View, yes, no string) string {
	if view.Leader != "" && view.Leader != view.Self {
		return yes
	}
	return no
}

// cmdWait waits until most nodes have all that was done before, and answers how many others
// that are at the least: none of a server by itself, or where what the client was charged may be lost.
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
	case c.srv.cluster == nil || c.tx.running:
		c.out.Int(0)
		return nil
	}
	n := 0
	if c.awaitMost(time.Duration(ms)*time.Millisecond) && c.holds() {
		n = countVoters(c.srv.cluster.View()) / 2
	}
	c.out.Int(int64(n))
	return nil
}

// maxWait is the longest timeout of WAIT. One that is meant to last for ever lasts as long: no
// node leads for so long without having most nodes follow.
const maxWait = time.Hour

func countVoters(view *topology.View) (n int) {
	for i := range view.Members {
		n += countTrue(view.Members[i].Voter)
	}
	return n
}

// awaitMost waits until most nodes have what was done before, and reports whether they have.
func (c *client) awaitMost(timeout time.Duration) bool {
	if timeout == 0 {
		timeout = maxWait
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	defer c.resume(c.pause())
	done := make(chan error, 1)
	go func() { done <- c.awaitCommit() }() // until this node does not lead any more, at the latest
	select {
	case err := <-done:
		return err == nil
	case <-timer.C:
	case <-c.srv.ended:
	}
	return false
}

// awaitCommit waits until what was done before is committed, which in async mode Await does not.
func (c *client) awaitCommit() error {
	before := c.srv.engine.Mark()
	err := c.srv.engine.Await(before)
	if err != nil || !c.srv.isAsync() {
		return err
	}
	if err = c.srv.cluster.Flush(); err == nil && c.srv.engine.Mark().Term != before.Term {
		err = limiter.ErrUncertain // what is committed is not what was there before
	}
	return err
}

// isAsync reports whether replies do not wait for replication.
func (s *Server) isAsync() bool { return s.cluster.Status().Mode == "async" }
