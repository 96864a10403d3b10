package raftstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// errKeyNotFound is the error if a key is absent. Raft identifies it by its text.
var errKeyNotFound = raftboltdb.ErrKeyNotFound

// stable is a raft.StableStore, backed by a database, for the term and the vote. A checksum of
// key and value is appended to each value.
type stable struct {
	file  *guarded
	inner raft.StableStore
}

// Set stores a value.
func (s *stable) Set(key, value []byte) error {
	value = value[:len(value):len(value)]
	value = binary.LittleEndian.AppendUint32(value, valueSum(key, value))
	return s.file.write("store a value", func() error { return s.inner.Set(key, value) })
}

// Get returns a value, or an error with the text "not found".
func (s *stable) Get(key []byte) (value []byte, err error) {
	err = s.file.try("read a value", func() error {
		value, err = s.inner.Get(key)
		if err != nil {
			return err
		}
		if err = checkValue(key, value); err == nil {
			value = value[:len(value)-sumSize]
		}
		return err
	})
	return value, err
}

// SetUint64 stores a number.
func (s *stable) SetUint64(key []byte, n uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, n))
}

// GetUint64 returns a number, or an error with the text "not found".
func (s *stable) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("the value of %q has %d bytes, and a number has 8 bytes", key, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// checkValue verifies a value in its stored form. All values are verified when the file is
// opened, because a value whose key is corrupt would otherwise appear never to have been
// stored.
func checkValue(key, stored []byte) error {
	n := len(stored) - sumSize
	if n < 0 || binary.LittleEndian.Uint32(stored[n:]) != valueSum(key, stored[:n]) {
		return fmt.Errorf("value of %q is %w: checksum does not match", key, ErrDamaged)
	}
	return nil
}

func valueSum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}
