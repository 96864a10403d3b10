package cluster

import "github.com/throttledhq/throttled/internal/failpoint"

// stepDown ends the current leadership, if there is one.
func (d *leader) stepDown() {
	if l := d.current(); l != nil {
		d.stepDownFrom(l)
	}
}

// stepDownFrom ends a leadership. It does nothing if the leadership has already ended.
func (d *leader) stepDownFrom(l *leadership) {
	d.state.Lock()
	defer d.state.Unlock()
	d.stepDownLocked(l)
}

// stepDownLocked ends a leadership: it rolls back the uncommitted generations and unblocks their waiters. It does nothing
// if the leadership has already ended. The caller must hold d.state.
func (d *leader) stepDownLocked(l *leadership) {
	if !d.finish(l) {
		return
	}
	if failpoint.Is(failpoint.NoUndo) {
		generation, _ := d.table.Collect(nil)
		d.table.Commit(generation, d.clock.lastApplied())
	}
	d.table.Follow()
	d.clock.stop()
	d.rollbacks.Add(1)
	close(l.over)
	d.setting.wake()
	d.view.publish()
	d.wake() // the node may still be the Raft leader
}

// stepDownCurrentLocked ends the current leadership, if there is one. The caller must hold d.state.
func (d *leader) stepDownCurrentLocked() {
	if l := d.current(); l != nil {
		d.stepDownLocked(l)
	}
}
