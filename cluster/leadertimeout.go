package cluster

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/raft"
)

// candidateSteps is the number of nodes that check within a heartbeat whether a leader that has exited has timed out. The
// time between two checks is longer than an election usually takes.
const candidateSteps = 5

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
		if t.life.sleep(t.life.ctx, rand.N(t.setting.heartbeat()/2)) == nil { // #nosec G404 -- not a secret
			t.check()
		}
	})
}

// checkAfterExit makes Raft check whether the leader has timed out as soon as a heartbeat has passed since the process of
// the leader has exited, which is now. Without the call, Raft may check up to two heartbeats later. rank is the number of
// nodes that check earlier than this one; if it is negative, checkAfterExit does nothing. The nodes check one after another,
// so that only one of them becomes a candidate. checkAfterExit returns early if ctx is done.
func (t *leaderTimeout) checkAfterExit(ctx context.Context, rank int) {
	heartbeat := t.setting.heartbeat()
	if rank >= 0 && t.life.sleep(ctx, heartbeat+time.Duration(rank)*heartbeat/candidateSteps) == nil {
		t.check()
	}
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
