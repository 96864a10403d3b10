package cluster

import "time"

// wallOffsetKey is the key of the wall offset in the stable store of Raft.
var wallOffsetKey = []byte("LogTimeByWall")

// wallOffset is the offset of log time from the node's own wall clock. After all nodes were down, the log time is derived
// from it. The wall clock may be wrong as long as its error has not changed. The wall time in the entries is not
// sufficient: it is that of the leader at the time, which may be another node, or may have adjusted its clock since.
type wallOffset struct {
	known bool
	ahead time.Duration
}

// The offset is updated when log time has fallen behind it, as after a change of leaders, or is far ahead of it, as
// after the wall clock was set back. In between, its error loses time.
const (
	offsetEvery  = 100 * time.Millisecond
	offsetBehind = time.Millisecond
	offsetAhead  = 100 * time.Millisecond
)

// fits reports whether the offset need not be updated if log time is ahead of the wall clock by the given time.
func (o wallOffset) fits(ahead time.Duration) bool {
	return o.known && ahead >= o.ahead-offsetBehind && ahead <= o.ahead+offsetAhead
}

// loadOffset loads the offset that the previous process has stored, if there is one.
func (c *logClock) loadOffset() {
	if ahead, err := c.stable.GetUint64(wallOffsetKey); err == nil { // Raft fails on other errors of the store
		c.offset = wallOffset{true, time.Duration(ahead)}
	}
}

// keepOffset updates the offset periodically until ended is closed.
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

// updateOffset updates the offset if it does not fit and this node knows the log time.
func (c *logClock) updateOffset() {
	next, due := c.nextOffset()
	if !due {
		return
	}
	if err := c.stable.SetUint64(wallOffsetKey, uint64(next.ahead)); err != nil {
		c.log.Warn("cannot store the offset of log time; check the disk of the data directory", "error", err)
		return
	}
	c.mu.Lock()
	c.offset = next
	c.mu.Unlock()
}

// nextOffset returns the present offset, and reports whether the stored one must be updated.
func (c *logClock) nextOffset() (next wallOffset, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ahead := time.Duration(int64(c.estimate()) - c.wall().UnixNano())
	return wallOffset{true, ahead}, c.live && !c.offset.fits(ahead)
}

// byWall returns the log time according to the wall clock: the earlier of the times by the offset and by the wall time in
// the newest entry. last is the log time of that entry. c.mu is held.
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
