package cluster

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/acl"
)

// usersHeader is the size of an entry of the users without the text:
//
//	kind  1 byte
//	base  8 bytes, little-endian: version on which the text is based
//	text  remaining bytes
const usersHeader = 1 + 8

// usersEntryOf returns an entry that replaces the given version of the users. The entry is void if a different version is
// the newest one when it is applied. It need not contain the term in which it was proposed: unlike decisions, it depends
// only on that version.
func usersEntryOf(base uint64, text string) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{usersEntry}, base)
	return append(b, text...)
}

func parseUsersEntry(b []byte) (base uint64, text string, err error) {
	if len(b) < usersHeader || len(b) > usersHeader+acl.MaxText {
		return 0, "", fmt.Errorf("users, %d bytes: %w", len(b), errEntry)
	}
	return binary.LittleEndian.Uint64(b[1:]), string(b[usersHeader:]), nil
}

// usersVersion is a version of the users. Number is the index of the entry that has set it, 0 if there is none.
type usersVersion struct {
	Number uint64 `json:"number"`
	Size   int    `json:"size"` // of text, in bytes
	// Created has the creation number of each user, in the order of the text and separated by spaces. It is "" if all are 0.
	// Earlier programs omit the numbers. They need not be the same on all nodes, because each login belongs to one node.
	Created string `json:"created,omitempty"`
	text    string
}

// usersState is the part of the applied state that belongs to the users. fsm.state guards it, except for changed.
type usersState struct {
	usersVersion
	// behind is the version that the previous process has stored. Until the entry with this index is applied, the state is
	// older than that version. Then behind becomes 0.
	behind  uint64
	changed chan struct{} // signals that newest returns a different version
}

// apply applies an entry of the users.
func (s *usersState) apply(log *raft.Log) error {
	base, text, err := parseUsersEntry(log.Data)
	if err == nil && base == s.Number {
		s.usersVersion = usersVersion{log.Index, len(text), s.createdAfter(log.Index, text), text}
		s.signal()
	}
	return err
}

// reached records that all entries up to an index are applied.
func (s *usersState) reached(index uint64) {
	if s.behind > 0 && index >= s.behind {
		s.behind = 0
		s.signal()
	}
}

func (s *usersState) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// sum returns a checksum of the version, or 0 if there are no users.
func (s *usersState) sum() uint64 {
	if s.Number == 0 {
		return 0
	}
	return xxhash.Sum64String(fmt.Sprintf("users %d %s", s.Number, s.text))
}

// readUsers reads the text of the users that follows the rules in a snapshot.
func readUsers(r io.Reader, h *head) (v usersVersion, err error) {
	if h.Version < usersSnapshotVersion {
		return v, nil
	}
	v = h.Users
	if v.Size < 0 || v.Size > acl.MaxText {
		return v, fmt.Errorf("users of %d bytes: %w", v.Size, errHead)
	}
	text := make([]byte, v.Size)
	if _, err = io.ReadFull(r, text); err != nil {
		return v, fmt.Errorf("users: %w: %w", errHead, err)
	}
	v.text = string(text)
	return v, nil
}

// restore replaces the version by that of a snapshot.
func (s *usersState) restore(v usersVersion) {
	s.usersVersion = v
	s.signal()
}
