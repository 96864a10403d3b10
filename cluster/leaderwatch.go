package cluster

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"
)

// The pause before a node dials the leader again doubles each time, from the first to the last of these.
const (
	firstWatchPause = 5 * time.Millisecond
	lastWatchPause  = time.Second
)

// leaderTerm is a leader and the term of Raft in which it leads.
type leaderTerm struct {
	leader string
	term   uint64
}

// raftLeader returns the present leader by Raft. Its leader is empty if none is known.
func (n *Node) raftLeader() leaderTerm {
	_, leader := n.raft.LeaderWithID()
	return leaderTerm{string(leader), n.raft.CurrentTerm()}
}

// refusal records that a leader refused a connection.
type refusal struct {
	leaderTerm
	at time.Time
}

// isGone reports whether the process of a leader has ended: its system has refused a connection, and Raft has received
// nothing since, apart from messages that were in flight. A process that accepts connections again is a new one, which
// does not lead in that term.
func (n *Node) isGone(l leaderTerm) bool {
	refused := n.refused.Load()
	inFlight := n.heartbeat() / 10 // the shortest time between two heartbeats
	return refused != nil && refused.leaderTerm == l && !n.raft.LastContact().After(refused.at.Add(inFlight))
}

// watchLeader watches the leader until this node is closed.
func (n *Node) watchLeader() {
	for {
		changed, l := n.View().Changed, n.raftLeader()
		if l.leader == "" || l.leader == n.config.Self.ID {
			if !n.awaitView(changed) {
				return
			}
			continue
		}
		if !n.watchWhile(l, changed) {
			return
		}
	}
}

// watchWhile watches a leader until another one is known, and returns false when this node is closed.
func (n *Node) watchWhile(l leaderTerm, changed <-chan struct{}) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n.running.Go(func() { n.watchOne(ctx, l) })
	for n.raftLeader() == l {
		if !n.awaitView(changed) {
			return false
		}
		changed = n.View().Changed
	}
	return true
}

// awaitView waits for a view to change, and reports false if this node ends.
func (n *Node) awaitView(changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	case <-n.ended:
		return false
	}
}

// watchOne keeps a stream to a leader open, on which nothing is sent: it breaks as soon as the process of the leader
// ends, long before anybody misses a heartbeat. A stream can end for other reasons, so the leader is gone only if
// another one is refused. If Raft receives something between two refusals, a firewall may be the reason.
func (n *Node) watchOne(ctx context.Context, l leaderTerm) {
	var before time.Time // of the last refusal; zero if the stream was open since
	for pause := firstWatchPause; ctx.Err() == nil; pause = min(2*pause, lastWatchPause) {
		begun := time.Now()
		switch err := n.holdStream(ctx, l); {
		case err == nil:
			before = time.Time{}
		case errors.Is(err, syscall.ECONNREFUSED):
			if before.IsZero() || !n.raft.LastContact().After(before) {
				n.refused.Store(&refusal{l, time.Now()})
				n.refresh()
			}
			before = time.Now()
		}
		if time.Since(begun) > lastWatchPause { // it has been there
			pause = firstWatchPause
			continue
		}
		if n.wait(ctx, pause) != nil {
			return
		}
	}
}

// holdStream opens a stream to a leader, and waits for its end or that of ctx. It returns an error if there is none.
func (n *Node) holdStream(ctx context.Context, l leaderTerm) error {
	dialing, cancel := context.WithTimeout(ctx, n.heartbeat())
	defer cancel()
	conn, err := n.Dial(dialing, l.leader)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = io.Copy(io.Discard, conn) // the end is all that matters
	_ = conn.Close()
	return nil
}
