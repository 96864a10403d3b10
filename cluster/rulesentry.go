package cluster

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/throttledhq/throttled/ruleset"
)

// rulesChunk is an entry with a part of the compressed text of a rule set. The chunks of a set precede the entry that
// activates it (rulesVersion):
//
//	kind    1 byte
//	term    8 bytes: Raft term in which the set was proposed
//	id      8 bytes: random number of the proposal
//	offset  8 bytes: position of the data in the compressed text
//	data    remaining bytes
//
// All numbers are little-endian.
type rulesChunk struct {
	term, id, offset uint64
	data             []byte
}

const (
	chunkHeader = 1 + 3*8
	// chunkSize is the maximum size of the data in an entry, in bytes. An entry of this size delays the entries with
	// changes behind it by a few milliseconds.
	chunkSize = 256 << 10
	// maxRulesData is the maximum size of a compressed text. Text that cannot be compressed grows by less than 64 KiB.
	maxRulesData = ruleset.MaxText + 64<<10
)

func (c *rulesChunk) entry() []byte {
	b := make([]byte, 0, chunkHeader+len(c.data))
	b = append(b, rulesChunkEntry)
	for _, n := range []uint64{c.term, c.id, c.offset} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return append(b, c.data...)
}

func parseRulesChunk(b []byte) (c rulesChunk, err error) {
	if len(b) < chunkHeader {
		return c, fmt.Errorf("part of rules, %d bytes: %w", len(b), errEntry)
	}
	return rulesChunk{
		term:   binary.LittleEndian.Uint64(b[1:]),
		id:     binary.LittleEndian.Uint64(b[9:]),
		offset: binary.LittleEndian.Uint64(b[17:]),
		data:   b[chunkHeader:],
	}, nil
}

// rulesVersion is the entry that makes the text in the chunks before it the next version of the rules. It is void, and
// so are the chunks, if it was proposed in one term and appended to the log in a later one, if a chunk is missing, or if
// its version is not the next one.
type rulesVersion struct {
	Term    uint64          `json:"term"`
	ID      uint64          `json:"id"`   // of the proposal
	Size    int             `json:"size"` // of the data in all chunks, in bytes
	Version ruleset.Version `json:"version"`
}

func (v *rulesVersion) entry() ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write a version of the rules: %w", err)
	}
	return append([]byte{rulesVersionEntry}, b...), nil
}

func parseRulesVersion(b []byte) (v rulesVersion, err error) {
	if err := json.Unmarshal(b[1:], &v); err != nil {
		return v, fmt.Errorf("version of the rules: %w: %w", errEntry, err)
	}
	return v, nil
}
