package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/failpoint"
)

// The bounds of a heartbeat. No voter starts an election earlier than minHeartbeat after the last message of the leader.
const (
	minHeartbeat = 100 * time.Millisecond
	maxHeartbeat = 5 * time.Second
)

// leaseOf returns how long after a confirmation no other node can lead, if all voters run with a heartbeat.
func leaseOf(heartbeat time.Duration) time.Duration { return heartbeat * 4 / 5 }

// heartbeats is the replicated state of the heartbeat. It is zero until the first heartbeat is set.
type heartbeats struct {
	Version uint64        `json:"version"` // index of the entry that has set Now; 0 if none has
	Now     time.Duration `json:"now"`     // heartbeat in force
	Least   time.Duration `json:"least"`   // shortest heartbeat that a voter may run with; at most Now
}

// set returns the state after the entry with an index has set the heartbeat.
func (h heartbeats) set(index uint64, now time.Duration) heartbeats {
	return heartbeats{Version: index, Now: now, Least: min(h.least(), now)}
}

// least returns the shortest heartbeat that a voter may run with.
func (h heartbeats) least() time.Duration {
	if h.Version == 0 {
		return minHeartbeat
	}
	return h.Least
}

// settled reports whether all voters run with the heartbeat in force.
func (h heartbeats) settled() bool { return h.Version > 0 && h.Least == h.Now }

// check returns an error if no sequence of entries leads to the state.
func (h heartbeats) check() error {
	if h != (heartbeats{}) && (h.Version == 0 || h.Least < minHeartbeat || h.Least > h.Now || h.Now > maxHeartbeat) {
		return fmt.Errorf("heartbeat of %v, at least %v, set by entry %d: %w", h.Now, h.Least, h.Version, errEntry)
	}
	return nil
}

// settings is an entry that changes values on which all nodes must agree. Like changes, it is void if it enters the log
// under another term than the one in which it was proposed.
type settings struct {
	Term      uint64 `json:"term"`
	Heartbeat int64  `json:"heartbeat_ms,omitempty"` // new heartbeat
	Settled   uint64 `json:"settled,omitempty"`      // version that all voters run with
}

func (s settings) entry() ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write settings: %w", err)
	}
	return append([]byte{settingsEntry}, b...), nil
}

func parseSettings(b []byte) (s settings, err error) {
	if err := json.Unmarshal(b[1:], &s); err != nil {
		return s, fmt.Errorf("settings: %w: %w", errEntry, err)
	}
	if s.Heartbeat != 0 && (s.Heartbeat < minHeartbeat.Milliseconds() || s.Heartbeat > maxHeartbeat.Milliseconds()) {
		return s, fmt.Errorf("settings: heartbeat of %d ms: %w", s.Heartbeat, errEntry)
	}
	return s, nil
}

// adopted is the heartbeat that a node has on its disk. A restarted node runs with it from the beginning, so no restart
// shortens a heartbeat that the node has acknowledged.
type adopted struct {
	Version uint64        `json:"version"`
	Now     time.Duration `json:"now"`
}

// adoptedKey is the key of the adopted heartbeat in the stable store of Raft.
var adoptedKey = []byte("Heartbeat")

var errAdopted = errors.New("the settings on disk are damaged; remove this node and add it under a new id")

// heartbeatSetting is the heartbeat of a node: the replicated value, and the value that Raft runs with.
type heartbeatSetting struct {
	option  time.Duration // value of the option raft-heartbeat
	changed chan struct{} // receives an element when the node may have to run with another heartbeat
	lease   atomic.Int64  // lease by the replicated value, in nanoseconds
	running atomic.Int64  // heartbeat that Raft runs with, in nanoseconds
	ceiling ceiling

	mu    sync.Mutex // guards state only
	state heartbeats // replicated value

	// reloading is held while settings of Raft, or the heartbeat on disk, are changed.
	reloading mutex
	adopted   adopted
	logged    adopted // last value that was logged
	ready     readiness

	// proposing is held while settings are proposed, or while a node gets a vote: a new voter must run with the version
	// that the leader knows.
	proposing mutex
}

// readiness is the finding of the leader of a term that all other voters run with a version of the heartbeat.
type readiness struct{ term, version uint64 }

func newHeartbeatSetting(option time.Duration) *heartbeatSetting {
	s := &heartbeatSetting{option: option, changed: make(chan struct{}, 1), reloading: newMutex(), proposing: newMutex()}
	s.running.Store(int64(option))
	s.restore(heartbeats{})
	return s
}

// restore sets the replicated value, as from a snapshot.
func (s *heartbeatSetting) restore(h heartbeats) {
	s.mu.Lock()
	s.state = h
	s.mu.Unlock()
	s.lease.Store(int64(leaseOf(h.least())))
	s.wake()
}

// apply applies an entry to the replicated value.
func (s *heartbeatSetting) apply(index uint64, e settings) {
	h := s.known()
	switch {
	case e.Heartbeat > 0:
		h = h.set(index, time.Duration(e.Heartbeat)*time.Millisecond)
	case e.Settled == h.Version:
		h.Least = h.Now
	}
	s.restore(h)
}

// known returns the replicated value.
func (s *heartbeatSetting) known() heartbeats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// heartbeat returns the heartbeat that Raft runs with.
func (s *heartbeatSetting) heartbeat() time.Duration { return time.Duration(s.running.Load()) }

// shown returns the heartbeat of the cluster, or that of this node if the cluster has none.
func (s *heartbeatSetting) shown() time.Duration {
	if h := s.known(); h.Version > 0 {
		return h.Now
	}
	return s.heartbeat()
}

// leaseTime returns how long after a confirmation no other node can lead, as long as this node leads by Raft.
func (s *heartbeatSetting) leaseTime() time.Duration {
	if failpoint.Is(failpoint.OwnHeartbeat) {
		return leaseOf(s.option)
	}
	bound := s.ceiling.bound() // read before the lease: a shorter lease is stored before its bound is removed
	return time.Duration(min(bound, s.lease.Load()))
}

// wake makes the node check whether to run with another heartbeat.
func (s *heartbeatSetting) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// load loads the heartbeat that the previous process has adopted.
func (s *heartbeatSetting) load(from raft.StableStore) error {
	b, err := from.Get(adoptedKey)
	if err != nil || len(b) == 0 { // there is none, or Raft fails with the same error
		return nil
	}
	if err := json.Unmarshal(b, &s.adopted); err != nil {
		return fmt.Errorf("read the adopted heartbeat: %w", err)
	}
	if a := s.adopted; a.Version == 0 || a.Now < minHeartbeat || a.Now > maxHeartbeat {
		return fmt.Errorf("adopted heartbeat of %v, set by entry %d: %w", a.Now, a.Version, errAdopted)
	}
	s.running.Store(int64(s.target(heartbeats{}, false, 0)))
	return nil
}

// adopt stores the heartbeat in force on disk if it is not there. It does nothing while the node applies entries that
// are older than the adopted heartbeat. The version does not identify a heartbeat: after a recovery from a shorter log,
// another entry has its index. s.reloading is held.
func (s *heartbeatSetting) adopt(h heartbeats, applied uint64, to raft.StableStore) error {
	next := adopted{h.Version, h.Now}
	if h.Version == 0 || next == s.adopted || applied < s.adopted.Version {
		return nil
	}
	b, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := to.Set(adoptedKey, b); err != nil {
		return fmt.Errorf("adopt a heartbeat of %v: %w", h.Now, err)
	}
	s.adopted = next
	return nil
}

// target returns the heartbeat to run with. While other voters may run with a shorter one, the leader of a term sends
// heartbeats, and steps down, by that one. s.reloading is held.
func (s *heartbeatSetting) target(h heartbeats, leads bool, term uint64) time.Duration {
	switch {
	case s.adopted.Version == 0, failpoint.Is(failpoint.OwnHeartbeat):
		return s.option
	case leads && h.Version > 0 && !h.settled() && s.ready != (readiness{term, h.Version}):
		return min(s.adopted.Now, h.Least)
	}
	return s.adopted.Now
}

// ceiling bounds the lease in a term while changes of the heartbeat are proposed, as other nodes may apply them first. A
// proposal with an unknown outcome bounds it until the end of the term.
type ceiling struct {
	mu      sync.Mutex
	term    uint64
	pending int
	lease   atomic.Int64 // in nanoseconds; 0 if there is no bound
}

// begin begins a term. Proposals of other terms do not count in it.
func (c *ceiling) begin(term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.term != term {
		c.term, c.pending = term, 0
		c.lease.Store(0)
	}
}

// lower records that a heartbeat is about to be proposed.
func (c *ceiling) lower(heartbeat time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending++
	c.lease.Store(min(c.bound(), int64(leaseOf(heartbeat))))
}

// lift records that a proposal of a term has been applied.
func (c *ceiling) lift(term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.term != term {
		return
	}
	if c.pending--; c.pending == 0 {
		c.lease.Store(0)
	}
}

// bound returns the bound in nanoseconds.
func (c *ceiling) bound() int64 {
	if bound := c.lease.Load(); bound > 0 {
		return bound
	}
	return math.MaxInt64
}
