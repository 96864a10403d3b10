package rules

import (
	"bytes"
	"hash/maphash"
)

// nameSet detects repeated names in a request. Its cost is linear in the number of names, and it does not allocate
// memory if an earlier request had as many names.
type nameSet struct {
	names [][]byte
	slots []uint32 // hash table with open addressing: position in names + 1. Empty if there are few names
}

// fewNames is the number of names up to which comparing them all is faster than hashing.
const fewNames = 8

// nameSeed makes the hashes unpredictable for clients.
var nameSeed = maphash.MakeSeed()

// reset removes all names.
func (s *nameSet) reset() {
	if len(s.names) == 0 {
		return
	}
	clear(s.names)
	s.names, s.slots = s.names[:0], s.slots[:0]
}

// add adds a name. It returns false if the name is in the set already.
func (s *nameSet) add(name []byte) bool {
	if len(s.names) < fewNames {
		for _, other := range s.names {
			if bytes.Equal(name, other) {
				return false
			}
		}
		s.names = append(s.names, name)
		return true
	}
	if 2*len(s.names) >= len(s.slots) {
		s.grow()
	}
	slot := s.slot(name)
	if s.slots[slot] != 0 {
		return false
	}
	s.names = append(s.names, name)
	s.slots[slot] = uint32(len(s.names))
	return true
}

// slot returns the slot with a name, or the empty slot for it.
func (s *nameSet) slot(name []byte) uint64 {
	mask := uint64(len(s.slots) - 1)
	at := maphash.Bytes(nameSeed, name) & mask
	for s.slots[at] != 0 && !bytes.Equal(s.names[s.slots[at]-1], name) {
		at = (at + 1) & mask
	}
	return at
}

// grow makes the table four times as large as the number of names.
func (s *nameSet) grow() {
	size := 4 * fewNames
	for size < 4*len(s.names) {
		size *= 2
	}
	if cap(s.slots) < size {
		s.slots = make([]uint32, size)
	}
	s.slots = s.slots[:size]
	clear(s.slots)
	for i, name := range s.names {
		s.slots[s.slot(name)] = uint32(i + 1)
	}
}
