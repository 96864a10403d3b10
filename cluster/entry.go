package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kinds of entries. The kind is the first byte of an entry.
const (
	changesEntry  = 1 // changes of a generation
	memberEntry   = 2 // announcement of a node, as JSON
	settingsEntry = 3 // values on which all nodes must agree, as JSON
	// The entries of rules are proposed only after all members have confirmed that they can read them, see
	// proposer.askMembers.
	rulesChunkEntry   = 4 // part of the text of a rule set
	rulesVersionEntry = 5 // makes the text in the chunks before it the next version of the rules, as JSON
	usersEntry        = 6 // text of the users; proposed like the entries of rules, see usersProposals.append
)

// changes is the entry of a generation:
//
//	kind        1 byte
//	term        8 bytes: Raft term in which the generation was decided
//	epoch       8 bytes: epoch of the leadership that has submitted the entry
//	generation  8 bytes
//	time        8 bytes: log time in nanoseconds; no decision in the entry is later
//	wall        8 bytes: wall time of the leader in nanoseconds
//	data        remaining bytes: changes returned by buckets.Table.Collect
//
// All numbers are little-endian.
type changes struct {
	term, epoch, generation uint64
	time                    uint64
	wall                    int64
	data                    []byte
}

const changesHeader = 1 + 5*8

// errEntry is wrapped by the error for an entry that was written by a later version or is damaged. Entries after it
// cannot be applied either, so the process exits.
var errEntry = errors.New("unknown entry in the log; run the same version on all nodes")

// seal writes the header of an entry to the first changesHeader bytes of buf.
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
