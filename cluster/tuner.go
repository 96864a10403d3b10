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

// tuner changes Raft settings while Raft is running.
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

// reloadLocked is like reload. The caller must hold t.setting.reloading.
func (t *tuner) reloadLocked(change func(*raft.ReloadableConfig)) error {
	settings := t.raft.ReloadableConfig()
	change(&settings)
	return t.raft.ReloadConfig(settings)
}

// setHeartbeat makes Raft run with a heartbeat. Raft's own lease must never be longer than the heartbeat, and never
// shorter than the lease during which this node answers from its table: an isolated leader steps down at the end of
// Raft's lease, and can then vote for another leader. The caller must hold t.setting.reloading.
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

// setLeaderLease changes LeaderLeaseTimeout while Raft is running. Raft reads the value before each use, but has no
// method to change it. Raft cannot be restarted instead: it would have no leader until the next message from the
// leader, and could vote for another node while the leader still holds its lease. setLeaderLease therefore stores the
// value by reflection, in the field in which ReloadConfig stores the other settings. It must not be called concurrently
// with ReloadConfig.
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
