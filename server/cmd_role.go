package server

import (
	"strconv"
	"time"

	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/topology"
)

func cmdRole(c *client, _ [][]byte) error {
	switch {
	case c.srv.cluster == nil:
		c.replyLeaderRole(0, nil)
	case c.elsewhere():
		c.replyFollowerRole()
	default:
		status := c.srv.cluster.Status()
		c.replyLeaderRole(status.Applied, replicas(c.srv.cluster.View()))
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

// replicas returns the members but for the leader that clients can reach.
func replicas(view *topology.View) (list []topology.Member) {
	for _, m := range view.Members {
		if m.ID != view.Leader && m.Host != "" && m.Port != 0 {
			list = append(list, m)
		}
	}
	return list
}

// replyLeaderRole says who follows. How far each of them is only the log knows, so what is said
// of them is how far most are.
func (c *client) replyLeaderRole(offset uint64, followers []topology.Member) {
	c.out.Array(3)
	c.out.Text("master")
	c.out.Int(int64(offset))
	c.out.Array(len(followers))
	for _, m := range followers {
		c.out.Array(3)
		c.out.Text(m.Host)
		c.out.Text(strconv.Itoa(m.Port))
		c.out.Text(strconv.FormatUint(c.srv.cluster.Status().Committed, 10))
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
// that are at the least: none of a server by itself.
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
	if c.awaitMost(time.Duration(ms) * time.Millisecond) {
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
	defer c.awaiting.Store(c.awaiting.Swap(true))
	began, ticket := time.Now(), c.srv.engine.Mark()
	done := make(chan error, 1)
	go func() { done <- c.srv.engine.Await(ticket) }() // until this node does not lead any more, at the latest
	select {
	case err := <-done:
		return err == nil && c.awaitFlush(began, timer.C)
	case <-timer.C:
	case <-c.srv.ended:
	}
	return false
}

// awaitFlush waits until all that was admitted before a moment is committed. In async mode
// that is later than what Await waits for.
func (c *client) awaitFlush(since time.Time, timeout <-chan time.Time) bool {
	ticker := time.NewTicker(flushTick)
	defer ticker.Stop()
	for {
		status := c.srv.cluster.Status()
		switch {
		case status.Mode != "async" || status.Waiting == 0 || status.Unflushed < time.Since(since):
			return true
		case c.elsewhere() || c.hungUp.Load():
			return false
		}
		select {
		case <-ticker.C:
		case <-timeout:
			return false
		case <-c.srv.ended:
			return false
		}
	}
}

const flushTick = 5 * time.Millisecond // how often to look whether all is committed
