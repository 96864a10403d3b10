package persistence

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// magic begins every snapshot. As in PNG, a first byte above 127 and the line endings CR LF
// and LF reveal a file that was changed by a transfer as text.
const magic = "\x89THR\r\n\x1a\n"

// format is the format version that is written. The package comment describes compatibility.
const format = 1

// blockType is the type of a block.
type blockType byte

const (
	headerBlock  blockType = 1
	recordsBlock blockType = 2
	trailerBlock blockType = 3
)

// A block consists of its type, the length of its payload, its payload and its checksum. In memory, the place
// of the block precedes these fields. The place is the offset of the block in the file, and the checksum of
// the file's header. The checksum of the block also covers the place, so a block that is moved, repeated,
// omitted or taken from a different file is detected.
const (
	placeSize = 8 + 4             // in memory only
	headSize  = placeSize + 1 + 4 // place, type, length
	sumSize   = 4
	frameSize = headSize - placeSize + sumSize // bytes of a block besides its payload

	trailerPayload = 3 * 8
	trailerSize    = frameSize + trailerPayload
	minHeader      = 2 + 8 + 8 + 1

	defaultBlock = 64 << 10 // bytes of records after which a block is written
	keptBuffer   = 1 << 20  // bytes; larger buffers, grown for a huge record, are released
	maxPayload   = 1 << 30  // bytes; a record must fit in a block
)

// CRC32C is hardware-accelerated on amd64 and arm64.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Info describes a snapshot: the values in its first and last block, and its size.
type Info struct {
	Format  int       // version of the format
	Program string    // version of the program that wrote the snapshot
	Created time.Time // wall time at the start of writing
	Begun   uint64    // limiter time in nanoseconds at the start of writing
	Ended   uint64    // limiter time in nanoseconds at the end of writing; at least Begun
	Keys    int64
	Blocks  int64 // blocks of records
	Size    int64 // size of the file in bytes
}

// possible reports whether the values are within their bounds. Callers rely on these bounds
// if they allocate memory for Keys, or set a clock to Ended, before the whole file is read.
func (i *Info) possible() bool {
	return i.Keys >= 0 && i.Keys <= i.Size/minRecord && i.Blocks >= 0 && i.Blocks <= i.Keys &&
		i.Begun <= i.Ended && i.Ended <= math.MaxInt64
}

const minRecord = 1 + 8 + 1 // bytes of a record with an empty key and no gauge

// gauged is added to the kind of a record with a gauge.
const gauged = 1 << 5

// kindOf returns the kind of a record whose first byte is b.
func kindOf(b byte) limiter.Kind { return limiter.Kind(b &^ gauged) }

// appendPlace begins a block in memory with its place. The argument file is the checksum of
// the file's header, or 0 for the header itself.
func appendPlace(b []byte, offset int64, file uint32) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(offset))
	return binary.LittleEndian.AppendUint32(b, file)
}

// seal completes a block in memory whose payload has been appended: it sets the type and the
// length and appends the checksum.
func seal(b []byte, t blockType) []byte {
	b[placeSize] = byte(t)
	binary.LittleEndian.PutUint32(b[placeSize+1:], uint32(len(b)-headSize))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// sumOf returns the checksum at the end of a block.
func sumOf(b []byte) uint32 { return binary.LittleEndian.Uint32(b[len(b)-sumSize:]) }

func appendHeader(b []byte, i *Info) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(i.Format))
	b = binary.LittleEndian.AppendUint64(b, uint64(i.Created.UnixNano()))
	b = binary.LittleEndian.AppendUint64(b, i.Begun)
	b = binary.AppendUvarint(b, uint64(len(i.Program)))
	return append(b, i.Program...)
}

// parseHeader parses a header and reports whether it is valid. If the format is not
// supported, it parses only the format number.
func parseHeader(b []byte, i *Info) bool {
	if len(b) < 2 {
		return false
	}
	i.Format = int(binary.LittleEndian.Uint16(b))
	if i.Format != format {
		return true
	}
	if len(b) < minHeader {
		return false
	}
	i.Created = time.Unix(0, int64(binary.LittleEndian.Uint64(b[2:])))
	i.Begun = binary.LittleEndian.Uint64(b[10:])
	program, rest, ok := cutField(b[18:])
	i.Program = string(program)
	return ok && len(rest) == 0
}

func appendTrailer(b []byte, i *Info) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(i.Keys))
	b = binary.LittleEndian.AppendUint64(b, uint64(i.Blocks))
	return binary.LittleEndian.AppendUint64(b, i.Ended)
}

func parseTrailer(b []byte, i *Info) bool {
	if len(b) != trailerPayload {
		return false
	}
	i.Keys = int64(binary.LittleEndian.Uint64(b))
	i.Blocks = int64(binary.LittleEndian.Uint64(b[8:]))
	i.Ended = binary.LittleEndian.Uint64(b[16:])
	return true
}

// hasState reports whether records of kind k have a State field.
func hasState(k limiter.Kind) bool { return k != limiter.Throttle }

// maxRecordSize returns an upper bound for the encoded size of r in bytes.
func maxRecordSize(r *limiter.Record) int {
	return 1 + 1 + 8 + 2*binary.MaxVarintLen32 + len(r.Key) + len(r.State)
}

func appendRecord(b []byte, r *limiter.Record) []byte {
	if r.Gauge == 0 {
		b = append(b, byte(r.Kind))
	} else {
		b = append(b, byte(r.Kind)|gauged, r.Gauge)
	}
	b = binary.LittleEndian.AppendUint64(b, r.Expires)
	b = binary.AppendUvarint(b, uint64(len(r.Key)))
	b = append(b, r.Key...)
	if hasState(r.Kind) {
		b = binary.AppendUvarint(b, uint64(len(r.State)))
		b = append(b, r.State...)
	}
	return b
}

// parseRecord parses the first record of b and reports whether it is complete. The record
// aliases b.
func parseRecord(b []byte) (r limiter.Record, rest []byte, ok bool) {
	if len(b) < minRecord {
		return r, b, false
	}
	first := b[0]
	r.Kind, b = kindOf(first), b[1:]
	if first&gauged != 0 {
		r.Gauge, b = b[0], b[1:]
	}
	if len(b) < 8 {
		return r, b, false
	}
	r.Expires = binary.LittleEndian.Uint64(b)
	r.Key, rest, ok = cutField(b[8:])
	if ok && hasState(r.Kind) {
		r.State, rest, ok = cutField(rest)
	}
	return r, rest, ok
}

// cutField splits a field off b: a uvarint length and that many bytes. It reports whether the
// field is complete.
func cutField(b []byte) (field, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > math.MaxInt32 || int(size) > len(b)-n {
		return nil, b, false
	}
	end := n + int(size)
	return b[n:end:end], b[end:], true
}
