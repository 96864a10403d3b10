package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/throttledhq/throttled/cluster/raftstore"
	"github.com/throttledhq/throttled/topology"
)

// Announcement describes a node to the other nodes.
type Announcement struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"`       // random identifier of the data directory
	Boot        uint64 `json:"boot,omitempty"`    // number of starts with that directory; 0: unknown
	Process     string `json:"process,omitempty"` // random identifier of this process; processes with copies of one directory can have the same boot number
	// Lineage describes the starts that Boot counts. It is used to detect old copies of the data directory, and is not
	// stored with an applied announcement.
	Lineage      raftstore.Lineage `json:"line,omitzero"`
	Host         string            `json:"host"`
	Port         int               `json:"port"`
	ClusterPort  int               `json:"cluster_port"`
	SentinelPort int               `json:"sentinel_port"`
	LeaderPort   int               `json:"leader_port"`
	TLS          topology.Ports    `json:"tls,omitzero"`
}

// stored returns a copy without Lineage. This is the form in which applied announcements are stored.
func (a Announcement) stored() Announcement {
	a.Lineage = raftstore.Lineage{}
	return a
}

func (a *Announcement) entry() ([]byte, error) {
	b, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("announce %s: %w", a.ID, err)
	}
	return append([]byte{memberEntry}, b...), nil
}

func parseAnnouncement(b []byte) (a Announcement, err error) {
	if err := json.Unmarshal(b[1:], &a); err != nil {
		return a, fmt.Errorf("announcement: %w: %w", errEntry, err)
	}
	return a, nil
}

// announcements holds the latest applied announcement of each node. Only the fsm changes them.
type announcements struct {
	mu   sync.Mutex
	byID map[string]Announcement
}

func newAnnouncements() *announcements { return &announcements{byID: map[string]Announcement{}} }

// of returns the announcement of a node, or a zero Announcement if there is none.
func (s *announcements) of(id string) Announcement {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// set stores the announcement of a node.
func (s *announcements) set(a Announcement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[a.ID] = a
}

// replace replaces all announcements.
func (s *announcements) replace(list []Announcement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.byID)
	for _, a := range list {
		s.byID[a.ID] = a
	}
}

// all returns all announcements in no particular order.
func (s *announcements) all() []Announcement {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.byID))
}
