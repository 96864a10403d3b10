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

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/failpoint"
)

// Limits of the heartbeat. No voter starts an election until minHeartbeat has passed since the last message from the
// leader, so the lease is based on minHeartbeat until the first heartbeat is settled.
const (
	minHeartbeat = 100 * time.Millisecond
	maxHeartbeat = 5 * time.Second
)

// leaseOf returns the length of the lease if all voters run with the given heartbeat or a longer one.
func leaseOf(heartbeat time.Duration) time.Duration { return heartbeat * 4 / 5 }

// heartbeats is the replicated state of the heartbeat. It is zero until the first heartbeat is set.
type heartbeats struct {
	Version uint64        `json:"version"` // index of the entry that has set Now; 0 if no entry has set it
	Now     time.Duration `json:"now"`     // current heartbeat
	Least   time.Duration `json:"least"`   // shortest heartbeat that any voter may be using; at most Now
}

// set returns the state after the entry with the given index has set the heartbeat.
func (h heartbeats) set(index uint64, now time.Duration) heartbeats {
	return heartbeats{Version: index, Now: now, Least: min(h.least(), now)}
}

// least returns the shortest heartbeat that any voter may be using.
func (h heartbeats) least() time.Duration {
	if h.Version == 0 {
		return minHeartbeat
	}
	return h.Least
}

// settled reports whether all voters are known to run with the current heartbeat.
func (h heartbeats) settled() bool { return h.Version > 0 && h.Least == h.Now }

// check returns an error if the state is invalid.
func (h heartbeats) check() error {
	if h != (heartbeats{}) && (h.Version == 0 || h.Least < minHeartbeat || h.Least > h.Now || h.Now > maxHeartbeat) {
		return fmt.Errorf("heartbeat of %v, at least %v, set by entry %d: %w", h.Now, h.Least, h.Version, errEntry)
	}
	return nil
}

// settings is an entry that changes values on which all nodes must agree. Like an entry of a generation, it is void if
// it was proposed in one term and appended to the log in a later one.
type settings struct {
	Term      uint64 `json:"term"`
	Heartbeat int64  `json:"heartbeat_ms,omitempty"` // new heartbeat
	Settled   uint64 `json:"settled,omitempty"`      // version of the heartbeat that all voters run with
	Leases    bool   `json:"leases,omitempty"`       // all voters can read records with leases
	// LeaseFormat is the format of leases that all voters can read. Earlier versions, which read CountLeases, do not set it.
	LeaseFormat buckets.LeaseFormat `json:"lease_format,omitempty"`
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

// adopted is the heartbeat that a node has stored on disk. A restarted node uses it immediately, so a restart never
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
	changed chan struct{} // signals that the node may have to run with a different heartbeat
	lease   atomic.Int64  // lease according to the replicated value, in nanoseconds
	running atomic.Int64  // heartbeat that Raft runs with, in nanoseconds
	ceiling ceiling
	format  atomic.Uint32 // the buckets.LeaseFormat that all voters can read, according to the log

	mu    sync.Mutex // guards state only
	state heartbeats // replicated value

	// reloading is held while Raft settings or the heartbeat on disk are changed. It guards the following fields.
	reloading mutex
	adopted   adopted
	logged    adopted             // last value that was logged
	readable  buckets.LeaseFormat // the format of leases that this node can read
	ready     readiness

	// proposing is held while settings are proposed and while a node is promoted to a voter: a new voter must run
	// with the current heartbeat.
	proposing mutex
}

// readiness is a term in which this node is the leader, and the version of the heartbeat that all other voters run with
// according to their answers in that term.
type readiness struct{ term, version uint64 }

func newHeartbeatSetting(option time.Duration) *heartbeatSetting {
	s := &heartbeatSetting{option: option, changed: make(chan struct{}, 1), reloading: newMutex(), proposing: newMutex(), readable: buckets.LatestLeases}
	s.running.Store(int64(option))
	s.restore(heartbeats{})
	return s
}

// restore sets the replicated value, for example from a snapshot.
func (s *heartbeatSetting) restore(h heartbeats) {
	s.mu.Lock()
	s.state = h
	s.mu.Unlock()
	s.lease.Store(int64(leaseOf(h.least())))
	s.wake()
}

// apply changes the replicated value as specified in an entry. index is the index of the entry.
func (s *heartbeatSetting) apply(index uint64, e settings) {
	if e.Leases {
		s.setLeases(formatOf(e.Leases, e.LeaseFormat))
		return
	}
	h := s.replicated()
	switch {
	case e.Heartbeat > 0:
		h = h.set(index, time.Duration(e.Heartbeat)*time.Millisecond)
	case e.Settled == h.Version:
		h.Least = h.Now
	}
	s.restore(h)
}

// leases returns the format of leases that all voters can read.
func (s *heartbeatSetting) leases() buckets.LeaseFormat { return buckets.LeaseFormat(s.format.Load()) }

func (s *heartbeatSetting) setLeases(f buckets.LeaseFormat) { s.format.Store(uint32(f)) }

// formatOf returns the format of leases that a message of any version states.
func formatOf(leases bool, f buckets.LeaseFormat) buckets.LeaseFormat {
	if !leases {
		return buckets.NoLeases
	}
	return max(buckets.CountLeases, f)
}

// replicated returns the replicated value.
func (s *heartbeatSetting) replicated() heartbeats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// heartbeat returns the heartbeat that Raft runs with.
func (s *heartbeatSetting) heartbeat() time.Duration { return time.Duration(s.running.Load()) }

// shown returns the replicated heartbeat, or the heartbeat of this node if none has been replicated.
func (s *heartbeatSetting) shown() time.Duration {
	if h := s.replicated(); h.Version > 0 {
		return h.Now
	}
	return s.heartbeat()
}

// leaseTime returns the current length of the lease. It is valid only while this node is the Raft leader.
func (s *heartbeatSetting) leaseTime() time.Duration {
	if failpoint.Is(failpoint.OwnHeartbeat) {
		return leaseOf(s.option)
	}
	bound := s.ceiling.bound() // must be read before the lease: a shorter lease is stored before the ceiling is lifted
	return time.Duration(min(bound, s.lease.Load()))
}

// wake makes the node check whether it must run with a different heartbeat.
func (s *heartbeatSetting) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// load loads the heartbeat that the previous process adopted.
func (s *heartbeatSetting) load(from raft.StableStore) error {
	b, err := from.Get(adoptedKey)
	if err != nil || len(b) == 0 { // no heartbeat is stored, or Raft will fail with the same error
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

// adopt stores the replicated heartbeat h on disk, unless it is already stored. applied is the index of the newest
// applied entry. After a restart, adopt does nothing until the node has applied the entry that set the stored
// heartbeat. A version is the index of an entry, and after a recovery from a shorter log a different entry can have
// that index. adopt therefore compares the heartbeats, not only their versions. The caller must hold s.reloading.
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

// target returns the heartbeat that Raft must run with. Until all voters are known to run with the current heartbeat,
// the leader runs with the shortest heartbeat that any voter may be using. It then sends messages often enough for all
// voters, and steps down early enough if they do not answer. The caller must hold s.reloading.
func (s *heartbeatSetting) target(h heartbeats, leads bool, term uint64) time.Duration {
	switch {
	case s.adopted.Version == 0, failpoint.Is(failpoint.OwnHeartbeat):
		return s.option
	case leads && h.Version > 0 && !h.settled() && s.ready != (readiness{term, h.Version}):
		return min(s.adopted.Now, h.Least)
	}
	return s.adopted.Now
}

// ceiling limits the lease while a proposed heartbeat is not applied on this node, because other nodes may apply it
// earlier. A proposal whose outcome is unknown limits the lease until the end of the term.
type ceiling struct {
	mu      sync.Mutex
	term    uint64
	pending int          // number of proposals in this term that are not applied yet
	lease   atomic.Int64 // maximum lease in nanoseconds; 0 if there is no limit
}

// begin begins a term. Proposals from other terms no longer count.
func (c *ceiling) begin(term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.term != term {
		c.term, c.pending = term, 0
		c.lease.Store(0)
	}
}

// lower limits the lease to the length that a heartbeat permits. It is called before the heartbeat is proposed.
func (c *ceiling) lower(heartbeat time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending++
	c.lease.Store(min(c.bound(), int64(leaseOf(heartbeat))))
}

// lift records that a proposal from the given term has been applied. It removes the limit if no other proposal is
// pending.
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

// bound returns the maximum lease in nanoseconds.
func (c *ceiling) bound() int64 {
	if bound := c.lease.Load(); bound > 0 {
		return bound
	}
	return math.MaxInt64
}
