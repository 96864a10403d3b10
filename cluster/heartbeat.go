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

// The bounds of a heartbeat. No voter keeps still for less than the smaller one, whatever it was started with.
const (
	leastHeartbeat = 100 * time.Millisecond
	mostHeartbeat  = 5 * time.Second
)

// leaseOf returns for how long after a confirmation no other node can lead, if all voters keep still for a
// heartbeat.
func leaseOf(heartbeat time.Duration) time.Duration { return heartbeat * 4 / 5 }

// heartbeats is the replicated state of the heartbeat. The zero value says that none has been set.
type heartbeats struct {
	Version uint64        `json:"version"` // index of the entry that set Now; 0 if none has
	Now     time.Duration `json:"now"`     // in force, in nanoseconds
	Least   time.Duration `json:"least"`   // no voter keeps still for less; below Now until all run with that
}

// set returns the state after an entry of an index has set the heartbeat.
func (h heartbeats) set(index uint64, now time.Duration) heartbeats {
	return heartbeats{Version: index, Now: now, Least: min(h.least(), now)}
}

// least returns for how long each voter keeps still at the least.
func (h heartbeats) least() time.Duration {
	if h.Version == 0 {
		return leastHeartbeat
	}
	return h.Least
}

// settled reports whether all voters keep still for the heartbeat in force.
func (h heartbeats) settled() bool { return h.Version > 0 && h.Least == h.Now }

// settings is an entry that changes what all nodes have to agree on. It is void in another term than the one
// in which it was proposed, as changes are.
type settings struct {
	Term      uint64 `json:"term"`
	Heartbeat int64  `json:"heartbeat_ms,omitempty"` // the new one
	Settled   uint64 `json:"settled,omitempty"`      // the version with which all voters run
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
	if s.Heartbeat != 0 && (s.Heartbeat < leastHeartbeat.Milliseconds() || s.Heartbeat > mostHeartbeat.Milliseconds()) {
		return s, fmt.Errorf("settings: a heartbeat of %d ms: %w", s.Heartbeat, errEntry)
	}
	return s, nil
}

// check returns an error for a state that no entries lead to.
func (h heartbeats) check() error {
	if h != (heartbeats{}) && (h.Version == 0 || h.Least < leastHeartbeat || h.Least > h.Now || h.Now > mostHeartbeat) {
		return fmt.Errorf("a heartbeat of %v, at least %v, by entry %d: %w", h.Now, h.Least, h.Version, errEntry)
	}
	return nil
}

// adopted is the heartbeat that a node has on its disk. A node that is started again runs with it from the
// beginning, so that no restart makes it keep still for less than it has acknowledged.
type adopted struct {
	Version uint64        `json:"version"`
	Now     time.Duration `json:"now"`
}

// adoptedKey is where a node keeps what it has adopted, beside the term and the vote of Raft.
var adoptedKey = []byte("Heartbeat")

var errAdopted = errors.New("the node's settings on the disk are damaged; remove this node and add it under a new id")

// pulse is the heartbeat of a node: what the log says of it, and what the node itself runs with.
type pulse struct {
	option  time.Duration // with which the node was started
	changed chan struct{} // has one when the node may have to run with another
	lease   atomic.Int64  // by the log, in nanoseconds
	running atomic.Int64  // Raft's, in nanoseconds
	ceiling ceiling

	mu    sync.Mutex // guards state only
	state heartbeats // by the log

	// reloading is held while settings of Raft are changed, or what is on the disk.
	reloading mutex
	adopted   adopted
	logged    adopted // the newest that is in the log of the process
	ready     readiness

	// proposing is held while settings are written to the log, or a node gets a vote: that has to run with
	// the version that the leader knows.
	proposing mutex
}

// readiness says that all other voters run with a version, as the node that led in a term has found.
type readiness struct{ term, version uint64 }

func newPulse(option time.Duration) *pulse {
	p := &pulse{option: option, changed: make(chan struct{}, 1), reloading: newMutex(), proposing: newMutex()}
	p.running.Store(int64(option))
	p.restore(heartbeats{})
	return p
}

// restore takes the state of a snapshot over.
func (p *pulse) restore(h heartbeats) {
	p.mu.Lock()
	p.state = h
	p.mu.Unlock()
	p.lease.Store(int64(leaseOf(h.least())))
	p.wake()
}

// apply applies an entry.
func (p *pulse) apply(index uint64, s settings) {
	h := p.known()
	switch {
	case s.Heartbeat > 0:
		h = h.set(index, time.Duration(s.Heartbeat)*time.Millisecond)
	case s.Settled == h.Version:
		h.Least = h.Now
	}
	p.restore(h)
}

// known returns the state by the log.
func (p *pulse) known() heartbeats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// wake makes the node check whether to run with another heartbeat.
func (p *pulse) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// load reads what the process before has adopted.
func (p *pulse) load(from raft.StableStore) error {
	b, err := from.Get(adoptedKey)
	if err != nil || len(b) == 0 { // there is none yet, or Raft will fail as well
		return nil
	}
	if err := json.Unmarshal(b, &p.adopted); err != nil {
		return fmt.Errorf("read the heartbeat that this node has adopted: %w", err)
	}
	if a := p.adopted; a.Version == 0 || a.Now < leastHeartbeat || a.Now > mostHeartbeat {
		return fmt.Errorf("this node has adopted a heartbeat of %v by entry %d: %w", a.Now, a.Version, errAdopted)
	}
	p.running.Store(int64(p.target(heartbeats{}, false, 0)))
	return nil
}

// keep adopts the heartbeat in force if that is due. It is not due while the node applies entries from before the
// one that it has adopted. The version alone does not identify a heartbeat: after a recovery from a shorter log
// another entry has its index. p.reloading is held.
func (p *pulse) keep(h heartbeats, applied uint64, to raft.StableStore) error {
	next := adopted{h.Version, h.Now}
	if h.Version == 0 || next == p.adopted || applied < p.adopted.Version {
		return nil
	}
	b, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := to.Set(adoptedKey, b); err != nil {
		return fmt.Errorf("adopt a heartbeat of %v: %w", h.Now, err)
	}
	p.adopted = next
	return nil
}

// target returns the heartbeat to run with. A node that leads in a term sends heartbeats, and steps down, for
// those voters that run with an older one, until no other does. p.reloading is held.
func (p *pulse) target(h heartbeats, leads bool, term uint64) time.Duration {
	switch {
	case p.adopted.Version == 0, failpoint.Is(failpoint.OwnHeartbeat):
		return p.option
	case leads && h.Version > 0 && !h.settled() && p.ready != (readiness{term, h.Version}):
		return min(p.adopted.Now, h.Least)
	}
	return p.adopted.Now
}

// ceiling bounds the lease in a term while changes of the heartbeat are on their way: other nodes may apply them
// first. A proposal of which the outcome is unknown bounds it until the term is over.
type ceiling struct {
	mu      sync.Mutex
	term    uint64
	pending int
	lease   atomic.Int64 // in nanoseconds; 0 if there is none
}

// enter begins a term, in which no proposal of another counts.
func (c *ceiling) enter(term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.term != term {
		c.term, c.pending = term, 0
		c.lease.Store(0)
	}
}

// lower notes that a heartbeat is about to be proposed.
func (c *ceiling) lower(heartbeat time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending++
	c.lease.Store(min(c.bound(), int64(leaseOf(heartbeat))))
}

// lift notes that a proposal of a term has been applied.
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

// heartbeat returns the heartbeat with which this node runs.
func (n *Node) heartbeat() time.Duration { return time.Duration(n.pulse.running.Load()) }

// lease returns for how long after a confirmation no other node can lead, as long as this one leads by the log.
func (n *Node) lease() time.Duration {
	if failpoint.Is(failpoint.OwnHeartbeat) {
		return leaseOf(n.pulse.option)
	}
	bound := n.pulse.ceiling.bound() // read before the lease: a shorter lease is stored before its bound is lifted
	return time.Duration(min(bound, n.pulse.lease.Load()))
}
