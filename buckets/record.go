package buckets

import (
	"encoding/binary"
	"math/bits"

	"github.com/throttledhq/throttled/limiter"
)

// record is one key and its state as they lie in an arena:
//
//	kind  1 byte
//	tat   8 bytes, little endian
//	size  of the key, 7 bits a byte, the last byte below 128
//	key
//
// A record is a view: it runs on to the end of the arena.
type record []byte

const (
	tatAt     = 1
	keySizeAt = tatAt + 8
)

func (r record) kind() limiter.Kind { return limiter.Kind(r[0]) }

func (r record) tat() uint64 { return binary.LittleEndian.Uint64(r[tatAt:]) }

func (r record) set(kind limiter.Kind, tat uint64) {
	r[0] = byte(kind)
	binary.LittleEndian.PutUint64(r[tatAt:], tat)
}

func (r record) key() []byte {
	size, n := binary.Uvarint(r[keySizeAt:])
	return r[keySizeAt+n:][:size]
}

func (r record) size() int {
	size, n := binary.Uvarint(r[keySizeAt:])
	return keySizeAt + n + int(size)
}

// appendRecord adds a record to an arena.
func appendRecord(arena []byte, kind limiter.Kind, tat uint64, key []byte) []byte {
	arena = append(arena, byte(kind))
	arena = binary.LittleEndian.AppendUint64(arena, tat)
	arena = binary.AppendUvarint(arena, uint64(len(key)))
	return append(arena, key...)
}

// recordSize returns the size of a record with a key of n bytes.
func recordSize(n int) int {
	return keySizeAt + (bits.Len(uint(n)|1)+6)/7 + n
}
