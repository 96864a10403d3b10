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

// loadOffset loads the offset that the previous process has stored, if there is one.
func (c *logClock) loadOffset() {
	if ahead, err := c.stable.GetUint64(wallOffsetKey); err == nil { // Raft fails on other errors of the store
		c.offset = wallOffset{true, time.Duration(ahead)}
	}
}

// keepOffset updates the offset when that is due, until ended is closed.
func (c *logClock) keepOffset(ended <-chan struct{}) {
	ticker := time.NewTicker(offsetEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ticker.C:
			c.updateOffset()
		}
	}
}

// updateOffset updates the offset if it does not fit any more and this node knows the log time.
func (c *logClock) updateOffset() {
	next, due := c.nextOffset()
	if !due {
		return
	}
	if err := c.stable.SetUint64(wallOffsetKey, uint64(next.ahead)); err != nil {
		c.log.Warn("the log time is not noted", "error", err)
		return
	}
	c.mu.Lock()
	c.offset = next
	c.mu.Unlock()
}

// nextOffset returns the offset as it is now, and reports whether the stored one has to be updated.
func (c *logClock) nextOffset() (next wallOffset, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ahead := time.Duration(int64(c.estimate()) - c.wall().UnixNano())
	return wallOffset{true, ahead}, c.live && !c.offset.fits(ahead)
}

// byWall returns the log time by the wall clock, where last was that of the newest entry: the earlier one of those by
// the offset and by the wall time in that entry. c.mu is held.
func (c *logClock) byWall(last uint64) uint64 {
	wall := c.wall().UnixNano()
	if last == 0 {
		return uint64(max(0, wall))
	}
	now := int64(last) + max(0, wall-c.newest.wall)
	if c.offset.known {
		now = min(now, wall+int64(c.offset.ahead))
	}
	return max(last, uint64(max(0, now)))
}
