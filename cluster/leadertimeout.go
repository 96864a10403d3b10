package cluster

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/raft"
)

// leaderTimeout makes Raft check whether the leader has timed out, before the next regular check of Raft.
type leaderTimeout struct {
	raft    *raftHandle
	tuner   *tuner
	setting *heartbeatSetting
	life    *lifetime
	log     *slog.Logger
}

// checkSoon makes Raft check whether the leader has timed out. It is called after a pre-vote request from another node.
// Without the call, Raft may check only one or two heartbeats later. Until then this node rejects the candidate, and
// the candidate also waits one or two heartbeats before it retries.
//
// With more than three voters, the check is delayed by a random time, so that the voters do not become candidates at
// the same time.
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

// check makes Raft check whether the leader has timed out, if this node is a follower and has not received a message
// from the leader for a heartbeat.
//
// Raft performs the check when its configuration is reloaded with a shorter timeout. The method therefore reloads the
// current timeout, and then a timeout that is one nanosecond shorter.
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
