package buckets

import (
	"encoding/binary"
	"math/bits"

	"github.com/throttledhq/throttled/limiter"
)

// record is one key and its state as they lie in an arena:
//
//	kind     1 byte, with flags in its upper bits
//	gauge    1 byte: how much of its limit the key has used (see gauge)
//	expires  8 bytes, little endian: the time from which it equals an absent record
//	size     of the key, 7 bits a byte, the last byte below 128
//	key
//	size     of the state, in the same form
//	state
//
// A throttle record ends with the key, as the time in it is all the state there is. A
// record is a view: it runs on to the end of the arena.
type record []byte

const (
	// The flags in the byte of the kind. A kind is below all of them.
	deadFlag  = 0x80 // no slot points at the record
	notedFlag = 0x40 // the journal holds what it was before the open generation
	tailFlag  = 0x20 // of that, only how its state ended
	flags     = deadFlag | notedFlag | tailFlag

	gaugeAt   = 1
	expiresAt = gaugeAt + 1
	keySizeAt = expiresAt + 8
)

func (r record) kind() limiter.Kind { return limiter.Kind(r[0] &^ flags) }

func (r record) dead() bool { return r[0]&deadFlag != 0 }

// overwrite writes the gauge, the time and the new end of the state of a record that keeps its
// length.
func (r record) overwrite(c *limiter.Change, g gauge) {
	r.setGauge(g)
	r.setExpires(c.Expires)
	if len(c.Tail) > 0 {
		copy(r.state()[c.Keep:], c.Tail)
	}
}

// kill marks the record as one that no slot points at.
func (r record) kill() { r[0] |= deadFlag }

func (r record) gauge() gauge { return gauge(r[gaugeAt]) }

func (r record) setGauge(g gauge) { r[gaugeAt] = byte(g) }

func (r record) expires() uint64 { return binary.LittleEndian.Uint64(r[expiresAt:]) }

func (r record) setExpires(t uint64) { binary.LittleEndian.PutUint64(r[expiresAt:], t) }

// swap writes a number over the first bytes of the time, and returns what stood there.
func (r record) swap(n uint32) (old uint32) {
	old = binary.LittleEndian.Uint32(r[expiresAt:])
	binary.LittleEndian.PutUint32(r[expiresAt:], n)
	return old
}

func (r record) key() []byte {
	size, n := binary.Uvarint(r[keySizeAt:])
	return r[keySizeAt+n:][:size]
}

// state returns what the record holds besides the time: nothing in a throttle record.
func (r record) state() []byte {
	if r.kind() == limiter.Throttle {
		return nil
	}
	rest := r[r.keyEnd():]
	size, n := binary.Uvarint(rest)
	return rest[n:][:size]
}

func (r record) keyEnd() int {
	size, n := binary.Uvarint(r[keySizeAt:])
	return keySizeAt + n + int(size)
}

func (r record) size() int {
	end := r.keyEnd()
	if r.kind() != limiter.Throttle {
		size, n := binary.Uvarint(r[end:])
		end += n + int(size)
	}
	return end
}

// whole returns the record in the form in which it leaves the table. It borrows from r.
func (r record) whole() limiter.Record {
	return limiter.Record{Kind: r.kind(), Key: r.key(), Expires: r.expires(), State: r.state(), Gauge: r[gaugeAt]}
}

// appendRecord adds a record to an arena.
func appendRecord(arena []byte, rec *limiter.Record) []byte {
	arena = append(arena, byte(rec.Kind), rec.Gauge)
	arena = binary.LittleEndian.AppendUint64(arena, rec.Expires)
	arena = binary.AppendUvarint(arena, uint64(len(rec.Key)))
	arena = append(arena, rec.Key...)
	if rec.Kind == limiter.Throttle {
		return arena
	}
	arena = binary.AppendUvarint(arena, uint64(len(rec.State)))
	return append(arena, rec.State...)
}

// recordSize returns the size that a record has in an arena.
func recordSize(rec *limiter.Record) int {
	size := keySizeAt + uvarintSize(len(rec.Key)) + len(rec.Key)
	if rec.Kind == limiter.Throttle {
		return size
	}
	return size + uvarintSize(len(rec.State)) + len(rec.State)
}

func uvarintSize(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 }
