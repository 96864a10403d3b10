package cluster

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/throttledhq/throttled/cluster/raftstore"
)

// An entry of the log is one of these kinds, by its first byte.
const (
	changesEntry = 1 // what a generation has changed
	memberEntry  = 2 // what a node has announced about itself, as JSON

	settingsEntry = 3 // what all nodes have to agree on, as JSON
)

// changes is the entry of a generation:
//
//	kind        1 byte
//	term        8 bytes, little endian like all numbers: that of Raft under which it was decided
//	epoch       8 bytes: counts the leaderships of the process that has submitted it
//	generation  8 bytes
//	time        8 bytes: log time in nanoseconds, at or after each decision in it
//	wall        8 bytes: wall time of the leader in nanoseconds
//	the rest    what buckets.Table.Collect has returned
type changes struct {
	term, epoch, generation uint64
	time                    uint64
	wall                    int64
	data                    []byte
}

const changesHeader = 1 + 5*8

// errEntry is an entry that no version up to this one has written. What follows it cannot be
// applied either: the node has to stop.
var errEntry = errors.New("unknown entry in the log")

// seal writes the header of an entry in front of its data: buf begins with room for it.
func (c *changes) seal(buf []byte) {
	buf[0] = changesEntry
	binary.LittleEndian.PutUint64(buf[1:], c.term)
	binary.LittleEndian.PutUint64(buf[9:], c.epoch)
	binary.LittleEndian.PutUint64(buf[17:], c.generation)
	binary.LittleEndian.PutUint64(buf[25:], c.time)
	binary.LittleEndian.PutUint64(buf[33:], uint64(c.wall))
}

func parseChanges(b []byte) (c changes, err error) {
	if len(b) < changesHeader {
		return c, fmt.Errorf("%d bytes: %w", len(b), errEntry)
	}
	return changes{
		term:       binary.LittleEndian.Uint64(b[1:]),
		epoch:      binary.LittleEndian.Uint64(b[9:]),
		generation: binary.LittleEndian.Uint64(b[17:]),
		time:       binary.LittleEndian.Uint64(b[25:]),
		wall:       int64(binary.LittleEndian.Uint64(b[33:])),
		data:       b[changesHeader:],
	}, nil
}

// Announcement is what a node tells the others about itself.
type Announcement struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"`       // of its data directory
	Boot        uint64 `json:"boot,omitempty"`    // counts the starts with that; 0: unknown
	Process     string `json:"process,omitempty"` // drawn at each start: two with one boot number are not the same
	// Line is of the starts that Boot counts. It is for those that judge the announcement, and is not kept.
	Line         raftstore.Line `json:"line,omitzero"`
	Host         string         `json:"host"`
	Port         int            `json:"port"`
	ClusterPort  int            `json:"cluster_port"`
	SentinelPort int            `json:"sentinel_port"`
	LeaderPort   int            `json:"leader_port"`
}

// kept returns what nodes keep of an announcement that they accept.
func (a Announcement) kept() Announcement {
	a.Line = raftstore.Line{}
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
