package cluster

import (
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

var errRaftSettings = errors.New("this version of Raft keeps its settings elsewhere")

// reload changes the settings of Raft that can be changed while it runs.
func (n *Node) reload(change func(*raft.ReloadableConfig)) error {
	n.pulse.reloading.Lock()
	defer n.pulse.reloading.Unlock()
	return n.reloadLocked(change)
}

// reloadLocked is reload with n.pulse.reloading held.
func (n *Node) reloadLocked(change func(*raft.ReloadableConfig)) error {
	settings := n.raft.ReloadableConfig()
	change(&settings)
	return n.raft.ReloadConfig(settings)
}

// retune makes Raft run with another heartbeat. Its own lease must neither be longer than the heartbeat nor
// shorter than that for which this node answers: it must not vote before that is over. n.pulse.reloading is
// held.
func (n *Node) retune(heartbeat time.Duration) error {
	old := n.heartbeat()
	if heartbeat < old {
		if err := setLeaderLease(n.raft, leaseOf(heartbeat)); err != nil {
			return err
		}
	}
	err := n.reloadLocked(func(s *raft.ReloadableConfig) {
		s.HeartbeatTimeout, s.ElectionTimeout = heartbeat, heartbeat
	})
	if err != nil {
		return fmt.Errorf("run with a heartbeat of %v: %w", heartbeat, err)
	}
	if heartbeat > old {
		if err := setLeaderLease(n.raft, leaseOf(heartbeat)); err != nil {
			return err
		}
	}
	n.pulse.running.Store(int64(heartbeat))
	return nil
}

// setLeaderLease changes LeaderLeaseTimeout while Raft runs. Raft reads it anew each time that it uses it, but has
// no call to change it, and starting Raft anew would forget which leader this node has acknowledged. So the
// value is put where ReloadConfig puts the others. The caller sees to it that ReloadConfig does not run meanwhile.
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
		return fmt.Errorf("a lease of %v: %w", lease, err)
	}
	conf.Store(settings)
	return nil
}
