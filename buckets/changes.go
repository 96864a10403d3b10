package buckets

import (
	"encoding/binary"
	"errors"

	"github.com/throttledhq/throttled/internal/fields"
	"github.com/throttledhq/throttled/limiter"
)

// ErrChanges is returned for changes that Collect cannot have produced, in this version of the program.
var ErrChanges = errors.New("malformed changes, or changes of a later version; run the same version on all nodes")

// Collect returns no bytes if nothing has changed. Otherwise it returns one byte for the version,
// which is 1, and a sequence of changes. The first byte of a change is its type. The fields that
// follow the type are listed after the colon:
//
//	0            clear of the table, without fields
//	64           delete of a key: key
//	1..31        put of a record whose kind has this number: expires, key, and, except for Throttle,
//	             the state
//	128 + 1..31  update of a record whose kind has the number 1..31 and whose state keeps its size:
//	             expires, key, size of the state, size of its unchanged prefix, the rest of the state
//	32 + 1..31   like 1..31, with the gauge before expires
//	160 + 1..31  like 128 + 1..31, with the gauge before expires
//
// Expires takes 8 bytes, little endian. A size is a uvarint. A key and the state of a put are
// preceded by their size. If a change has no gauge, the gauge of the record is unknown.
const (
	changesVersion = 1

	changeClear  = 0
	changeGauged = 0x20 // flag: the change contains the gauge
	changeDelete = 0x40 // delete of a key
	changeTail   = 0x80 // flag: update of the tail of a state, the part after its unchanged prefix
)

// change is one decoded change.
type change struct {
	op   byte // changeClear, changeDelete, changeTail or opPut
	rec  limiter.Record
	from int // for changeTail: size of the unchanged prefix of the state; rec.State holds the rest
}

// opPut is the op of a put. It is not encoded: the type of an encoded put is the kind of its
// record.
const opPut = 1

func appendDelete(buf, key []byte) []byte {
	buf = append(buf, changeDelete)
	buf = binary.AppendUvarint(buf, uint64(len(key)))
	return append(buf, key...)
}

// appendPut appends a put of rec. From expires on, the bytes are the same as in the arena.
func appendPut(buf []byte, rec record) []byte {
	buf = appendKind(buf, 0, rec)
	return append(buf, rec[expiresAt:rec.size()]...)
}

func appendTail(buf []byte, rec record, from int) []byte {
	state := rec.state()
	buf = appendKind(buf, changeTail, rec)
	buf = append(buf, rec[expiresAt:rec.keyEnd()]...)
	buf = binary.AppendUvarint(buf, uint64(len(state)))
	buf = binary.AppendUvarint(buf, uint64(from))
	return append(buf, state[from:]...)
}

// appendKind appends the type of a change, and the gauge if it is known. Versions of the program
// without support for gauges cannot decode a change with a gauge (see SetGauges).
func appendKind(buf []byte, typ byte, rec record) []byte {
	typ |= byte(rec.kind())
	if g := rec.gauge(); g != 0 {
		return append(buf, typ|changeGauged, byte(g))
	}
	return append(buf, typ)
}

// reader decodes the fields of changes.
type reader struct{ fields.Reader }

func readerOf(b []byte) reader { return reader{fields.Reader{Rest: b}} }

// size decodes the size of a key or a state.
func (r *reader) size() uint64 { return r.Number(maxArena) }

// change decodes the next change. The key and the state of the change are parts of the byte slice
// of the reader.
func (r *reader) change() (c change, err error) {
	typ := r.Byte()
	switch {
	case typ == changeClear:
		c.op = changeClear
	case typ == changeDelete:
		c.op = changeDelete
		c.rec.Key = r.Bytes(r.size())
	case typ >= changeTail:
		c.op = changeTail
		r.head(&c.rec, typ&^changeTail)
		r.tail(&c)
	default:
		c.op = opPut
		r.head(&c.rec, typ)
		r.state(&c.rec)
	}
	if r.Failed {
		return c, ErrChanges
	}
	return c, nil
}

// head decodes the fields of a record that precede its state.
func (r *reader) head(rec *limiter.Record, typ byte) {
	rec.Kind = limiter.Kind(typ &^ changeGauged)
	if typ&changeGauged != 0 {
		rec.Gauge = r.Byte()
	}
	rec.Expires, rec.Key = r.Fixed(), r.Bytes(r.size())
	r.Failed = r.Failed || !rec.Kind.Known()
}

func (r *reader) state(rec *limiter.Record) {
	if rec.Kind != limiter.Throttle {
		rec.State = r.Bytes(r.size())
	}
}

// tail decodes the fields of a changeTail that follow the fields decoded by the head method.
func (r *reader) tail(c *change) {
	size, from := r.size(), r.size()
	if from > size || c.rec.Kind == limiter.Throttle {
		r.Failed = true
		return
	}
	c.from, c.rec.State = int(from), r.Bytes(size-from)
}
