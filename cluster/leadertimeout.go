package cluster

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/raft"
)

// leaderTimeout makes Raft check whether the leader has timed out.
type leaderTimeout struct {
	raft    *raftHandle
	tuner   *tuner
	setting *heartbeatSetting
	life    *lifetime
	log     *slog.Logger
}

// checkSoon makes Raft check whether the leader has timed out, after another node has asked for a pre-vote. On its own
// Raft would check again only after another one to two heartbeats. Until then this node rejects the candidate, which
// then waits for as long.
//
// With more than three voters, each delays the check by a random time, so that they do not become candidates at the same
// time.
func (t *leaderTimeout) checkSoon(voters int) {
	if voters <= 3 {
		t.check()
		return
	}
	t.life.run(func() {
		if t.life.sleep(t.life.ctx, rand.N(t.setting.heartbeat()/2)) == nil {
			t.check()
		}
	})
}

// check makes Raft check whether the leader has timed out, if this node has followed a leader and has received nothing
// for a heartbeat.
//
// Raft checks when a shorter timeout is loaded. check therefore reloads the present timeout, and then one that is
// shorter by a nanosecond.
func (t *leaderTimeout) check() {
	leader, _ := t.raft.LeaderWithID()
	if leader == "" || t.raft.State() != raft.Follower || time.Since(t.raft.LastContact()) < t.setting.heartbeat() {
		return
	}
	t.setting.reloading.Lock()
	defer t.setting.reloading.Unlock()
	for _, timeout := range []time.Duration{t.setting.heartbeat(), t.setting.heartbeat() - 1} {
		if err := t.tuner.reloadLocked(func(s *raft.ReloadableConfig) { s.HeartbeatTimeout = timeout }); err != nil {
			t.log.Warn("cannot make Raft check the leader", "error", err)
			return
		}
	}
}
