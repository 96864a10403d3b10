package cluster

import (
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

var errRaftSettings = errors.New("this version of Raft stores its settings in another field")

// tuner changes settings of Raft while it runs.
type tuner struct {
	raft    *raftHandle
	setting *heartbeatSetting
}

// reload changes the settings that Raft can reload.
func (t *tuner) reload(change func(*raft.ReloadableConfig)) error {
	t.setting.reloading.Lock()
	defer t.setting.reloading.Unlock()
	return t.reloadLocked(change)
}

// reloadLocked is reload with t.setting.reloading held.
func (t *tuner) reloadLocked(change func(*raft.ReloadableConfig)) error {
	settings := t.raft.ReloadableConfig()
	change(&settings)
	return t.raft.ReloadConfig(settings)
}

// setHeartbeat makes Raft run with a heartbeat. Raft's lease must not be longer than the heartbeat at any time, nor
// shorter than the lease by which this node answers, as the node must not vote before that has passed.
// t.setting.reloading is held.
func (t *tuner) setHeartbeat(heartbeat time.Duration) error {
	old := t.setting.heartbeat()
	if heartbeat < old {
		if err := setLeaderLease(t.raft.Raft, leaseOf(heartbeat)); err != nil {
			return err
		}
	}
	err := t.reloadLocked(func(s *raft.ReloadableConfig) {
		s.HeartbeatTimeout, s.ElectionTimeout = heartbeat, heartbeat
	})
	if err != nil {
		return fmt.Errorf("set the heartbeat of Raft to %v: %w", heartbeat, err)
	}
	if heartbeat > old {
		if err := setLeaderLease(t.raft.Raft, leaseOf(heartbeat)); err != nil {
			return err
		}
	}
	t.setting.running.Store(int64(heartbeat))
	return nil
}

// setLeaderLease changes LeaderLeaseTimeout while Raft runs. Raft reads it before each use, but has no method to change
// it, and a restarted Raft would forget which leader this node has acknowledged. setLeaderLease therefore stores the
// value where ReloadConfig stores the others. The caller must prevent a concurrent ReloadConfig.
func setLeaderLease(r *raft.Raft, lease time.Duration) error {
	field := reflect.ValueOf(r).Elem().FieldByName("conf")
	if !field.IsValid() || field.Type() != reflect.TypeFor[atomic.Value]() {
		return errRaftSettings
	}
	conf := (*atomic.Value)(field.Addr().UnsafePointer())
	settings, ok := conf.Load().(raft.Config)
	if !ok {
		return errRaftSettings
	}
	settings.LeaderLeaseTimeout = lease
	if err := raft.ValidateConfig(&settings); err != nil {
		return fmt.Errorf("set the lease of Raft to %v: %w", lease, err)
	}
	conf.Store(settings)
	return nil
}
