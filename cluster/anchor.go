package cluster

import (
	"time"
)

// anchorKey is where a node keeps its anchor, beside the term and the vote of Raft.
var anchorKey = []byte("LogTimeByWall")

// anchor is how far log time is ahead of the node's own wall clock. After all nodes were down it tells
// what the log time is, by a clock that may be wrong as long as it is as wrong as it was. What the entries
// say of the wall clock of the node that led does not: it may have been another, or put right since.
type anchor struct {
	set   bool
	ahead time.Duration
}

// An anchor is moved when log time has fallen behind it, as it does when leaders change, or is far ahead
// of it, as when the wall clock was put back. In between it errs to the side on which time is lost.
const (
	anchorEvery  = 100 * time.Millisecond
	anchorBehind = time.Millisecond
	anchorAhead  = 100 * time.Millisecond
)

// fits reports whether an anchor need not be moved to where log time is now.
func (a anchor) fits(ahead time.Duration) bool {
	return a.set && ahead >= a.ahead-anchorBehind && ahead <= a.ahead+anchorAhead
}

// readAnchor reads the anchor of the process before, if there is one.
func (n *Node) readAnchor() {
	if ahead, err := n.config.Stable.GetUint64(anchorKey); err == nil { // what else is wrong there Raft finds out
		n.anchor = anchor{true, time.Duration(ahead)}
	}
}

// keepAnchor moves the anchor whenever that is due, until the node ends.
func (n *Node) keepAnchor() {
	ticker := time.NewTicker(anchorEvery)
	defer ticker.Stop()
	for {
		select {
		case <-n.ended:
			return
		case <-ticker.C:
			n.moveAnchor()
		}
	}
}

// moveAnchor moves the anchor if need be, while this node knows the log time.
func (n *Node) moveAnchor() {
	n.mu.Lock()
	old, live := n.anchor, n.live
	ahead := time.Duration(int64(n.clock.estimate()) - n.config.Wall().UnixNano())
	n.mu.Unlock()
	if !live || old.fits(ahead) {
		return
	}
	if err := n.config.Stable.SetUint64(anchorKey, uint64(ahead)); err != nil {
		n.log.Warn("the log time is not noted", "error", err)
		return
	}
	n.mu.Lock()
	n.anchor = anchor{true, ahead}
	n.mu.Unlock()
}

// byWall returns what the log time is by the wall clock, where last was that of the newest entry: by the
// anchor and by what that entry says, whichever is less. n.mu is held.
func (n *Node) byWall(last uint64) uint64 {
	wall := n.config.Wall().UnixNano()
	if last == 0 {
		return uint64(max(0, wall))
	}
	now := int64(last) + max(0, wall-n.lastWall)
	if n.anchor.set {
		now = min(now, wall+int64(n.anchor.ahead))
	}
	return max(last, uint64(max(0, now)))
}
