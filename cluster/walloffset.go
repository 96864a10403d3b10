package cluster

import (
	"time"
)

// wallOffsetKey is where a node stores its wall offset, beside the term and the vote of Raft.
var wallOffsetKey = []byte("LogTimeByWall")

// wallOffset is by how much log time is ahead of the node's own wall clock. After all nodes were down the log time is
// derived from it, by a clock that may be wrong as long as its error has not changed. The wall time in the entries
// would not do alone: it is that of the node that led then, which may be another one, or have had its clock set since.
type wallOffset struct {
	known bool
	ahead time.Duration
}

// The offset is updated when log time has fallen behind it, as after a change of leaders, or is far ahead of it, as
// after the wall clock was set back. In between its error is on the side on which time is lost.
const (
	offsetEvery  = 100 * time.Millisecond
	offsetBehind = time.Millisecond
	offsetAhead  = 100 * time.Millisecond
)

// fits reports whether the offset may stay as it is if log time is ahead by so much now.
func (o wallOffset) fits(ahead time.Duration) bool {
	return o.known && ahead >= o.ahead-offsetBehind && ahead <= o.ahead+offsetAhead
}

// loadWallOffset loads the offset that the previous process has stored, if there is one.
func (n *Node) loadWallOffset() {
	if ahead, err := n.config.Stable.GetUint64(wallOffsetKey); err == nil { // Raft fails on other errors of the store
		n.offset = wallOffset{true, time.Duration(ahead)}
	}
}

// keepWallOffset updates the offset when that is due, until the node is closed.
func (n *Node) keepWallOffset() {
	ticker := time.NewTicker(offsetEvery)
	defer ticker.Stop()
	for {
		select {
		case <-n.ended:
			return
		case <-ticker.C:
			n.updateWallOffset()
		}
	}
}

// updateWallOffset updates the offset if it does not fit any more and this node knows the log time.
func (n *Node) updateWallOffset() {
	n.mu.Lock()
	old, live := n.offset, n.live
	ahead := time.Duration(int64(n.clock.estimate()) - n.config.Wall().UnixNano())
	n.mu.Unlock()
	if !live || old.fits(ahead) {
		return
	}
	if err := n.config.Stable.SetUint64(wallOffsetKey, uint64(ahead)); err != nil {
		n.log.Warn("the log time is not noted", "error", err)
		return
	}
	n.mu.Lock()
	n.offset = wallOffset{true, ahead}
	n.mu.Unlock()
}

// byWall returns the log time by the wall clock, where last was that of the newest entry: the earlier one of those by
// the offset and by the wall time in that entry. n.mu is held.
func (n *Node) byWall(last uint64) uint64 {
	wall := n.config.Wall().UnixNano()
	if last == 0 {
		return uint64(max(0, wall))
	}
	now := int64(last) + max(0, wall-n.lastWall)
	if n.offset.known {
		now = min(now, wall+int64(n.offset.ahead))
	}
	return max(last, uint64(max(0, now)))
}
