package buckets

import (
	"encoding/binary"
	"math/bits"

	"github.com/throttledhq/throttled/limiter"
)

// record is the encoding of one key and its state in an arena:
//
//	kind     1 byte, with flags in its upper bits
//	gauge    1 byte: encodes the used share of the key's limit (see gauge)
//	expires  8 bytes, little endian: the time from which the record equals an absent one
//	size     of the key, a uvarint
//	key
//	size     of the state, a uvarint
//	state
//
// A Throttle record ends after the key, because the field expires is its complete state. The slice
// begins with the record, but may extend beyond it, up to the end of the arena.
type record []byte

const (
	// Flags in the kind byte. The numbers of all kinds are below the flags.
	deadFlag  = 0x80 // no slot refers to the record
	savedFlag = 0x40 // the undo log has an entry for the key from the open generation
	tailFlag  = 0x20 // the undo entry for the key holds only the tail of the previous state
	flags     = deadFlag | savedFlag | tailFlag

	gaugeAt   = 1
	expiresAt = gaugeAt + 1
	keySizeAt = expiresAt + 8
)

func (r record) kind() limiter.Kind { return limiter.Kind(r[0] &^ flags) }

func (r record) dead() bool { return r[0]&deadFlag != 0 }

// overwrite writes the gauge, the expiry time and the new tail of the state. The length of the
// record does not change.
func (r record) overwrite(c *limiter.Change, g gauge) {
	r.setGauge(g)
	r.setExpires(c.Expires)
	if len(c.Tail) > 0 {
		copy(r.state()[c.Keep:], c.Tail)
	}
}

// kill marks the record as dead: no slot refers to it.
func (r record) kill() { r[0] |= deadFlag }

func (r record) gauge() gauge { return gauge(r[gaugeAt]) }

func (r record) setGauge(g gauge) { r[gaugeAt] = byte(g) }

func (r record) expires() uint64 { return binary.LittleEndian.Uint64(r[expiresAt:]) }

func (r record) setExpires(t uint64) { binary.LittleEndian.PutUint64(r[expiresAt:], t) }

// swapExpiresLow overwrites the first four bytes of expires with n, and returns the previous value.
func (r record) swapExpiresLow(n uint32) (old uint32) {
	old = binary.LittleEndian.Uint32(r[expiresAt:])
	binary.LittleEndian.PutUint32(r[expiresAt:], n)
	return old
}

func (r record) key() []byte {
	start, end := sized(r, keySizeAt)
	return r[start:end]
}

// state returns the state without the expiry time, or nil for a Throttle record.
func (r record) state() []byte {
	if r.kind() == limiter.Throttle {
		return nil
	}
	start, end := sized(r, r.keyEnd())
	return r[start:end]
}

func (r record) keyEnd() int {
	_, end := sized(r, keySizeAt)
	return end
}

// sized returns the bounds of the bytes whose size, a uvarint, is at a position. Almost all sizes have one byte.
func sized(r record, at int) (start, end int) {
	if size := int(r[at]); size < 0x80 {
		return at + 1, at + 1 + size
	}
	size, n := binary.Uvarint(r[at:])
	return at + n, at + n + int(size)
}

func (r record) size() int {
	end := r.keyEnd()
	if r.kind() != limiter.Throttle {
		_, end = sized(r, end)
	}
	return end
}

// whole returns the record as a limiter.Record that refers to the memory of r.
func (r record) whole() limiter.Record {
	return limiter.Record{Kind: r.kind(), Key: r.key(), Expires: r.expires(), State: r.state(), Gauge: r[gaugeAt]}
}

// appendRecord appends a record to an arena.
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

// recordSize returns the size of a record in an arena.
func recordSize(rec *limiter.Record) int {
	size := keySizeAt + uvarintSize(len(rec.Key)) + len(rec.Key)
	if rec.Kind == limiter.Throttle {
		return size
	}
	return size + uvarintSize(len(rec.State)) + len(rec.State)
}

func uvarintSize(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 }
