package cluster

import "time"

// wallOffsetKey is the key of the wall offset in the stable store of Raft.
var wallOffsetKey = []byte("LogTimeByWall")

// wallOffset is the offset of log time from the wall clock of this node. It is used to derive log time after a majority
// of the nodes was down. The result is correct even if the wall clock is wrong, as long as its error has not changed.
//
// The wall time in the entries is not sufficient. It is the wall time of the leader when the entry was decided. That
// leader may be a different node, or its clock may have been adjusted since.
type wallOffset struct {
	known bool
	ahead time.Duration // log time minus wall time; can be negative
}

// The stored offset is replaced if the current offset is smaller by more than offsetBehind, or larger by more than
// offsetAhead. The offset becomes smaller after a change of leaders, for example, and larger after the wall clock was
// set back. offsetAhead is larger than offsetBehind, because a stored offset that is too small only makes log time fall
// behind.
const (
	offsetEvery  = 100 * time.Millisecond
	offsetBehind = time.Millisecond
	offsetAhead  = 100 * time.Millisecond
)

// fits reports whether o is close enough to ahead, the current offset, to be kept.
func (o wallOffset) fits(ahead time.Duration) bool {
	return o.known && ahead >= o.ahead-offsetBehind && ahead <= o.ahead+offsetAhead
}

// loadOffset loads the offset that the previous process stored, if there is one.
func (c *logClock) loadOffset() {
	if ahead, err := c.stable.GetUint64(wallOffsetKey); err == nil { // if the store has failed, Raft fails, too
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

// updateOffset replaces the stored offset if it does not fit any more (see fits) and this process is live.
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

// nextOffset returns the current offset, and reports whether the stored offset must be replaced with it.
func (c *logClock) nextOffset() (next wallOffset, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ahead := time.Duration(int64(c.estimate()) - c.wall().UnixNano())
	return wallOffset{true, ahead}, c.live && !c.offset.fits(ahead)
}

// byWall returns the log time according to the wall clock: the earlier of two estimates, one from the offset, and one
// from the wall time in the newest applied entry. last is the log time of that entry. The caller must hold c.mu.
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
