package wal

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// sector is the number of bytes that a disk writes atomically. Each record begins at a multiple of
	// sector, so that no sector with acknowledged data is written again.
	sector     = 512
	mark       = "frn2"
	headerSize = len(mark) + 4 + 4 + 4
	fixedSize  = 8 + 8 + 1 + 8 // size of the fields index, term, type and append time of an entry
	// maxStored is the maximum total size of the entries of a record, in bytes. It is far below the
	// maximum of the length fields, which are of type uint32.
	maxStored = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// mask is XORed with each sector of a record, except with the header. mask contains no zero byte, so data of
// zeros is not written as zeros. Recovery treats a sector of zeros in a file as never written. (A sector
// whose data equals the mask would be mistaken for such a sector.) The mask also changes data that contains
// the bytes of a record, so such data is not mistaken for a record of the file.
var mask = func() (m [sector]byte) {
	for i, x := 0, uint32(1); i < sector; i++ {
		x = x*1664525 + 1013904223
		m[i] = byte(x>>24) | 1
	}
	return m
}()

// The causes of an invalid record.
var (
	errCut     = errors.New("a record is truncated")
	errHeader  = errors.New("there is no record header")
	errPayload = errors.New("the checksum of a record does not match")
	errFields  = errors.New("a record has invalid fields")
	errOrder   = errors.New("the indexes of entries are not consecutive")
)

// appendRecord appends one record with all given entries to b. The length of b must be a multiple of
// sector, and the total size of the entries must not exceed maxStored.
func appendRecord(b []byte, entries ...*raft.Log) []byte {
	var header [headerSize]byte
	start := len(b)
	b = append(b, header[:]...)
	for _, entry := range entries {
		b = appendEntry(b, entry)
	}
	return seal(b, start)
}

func appendEntry(b []byte, entry *raft.Log) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, entry.Index)
	b = binary.LittleEndian.AppendUint64(b, entry.Term)
	b = append(b, byte(entry.Type))
	b = binary.LittleEndian.AppendUint64(b, uint64(nanos(entry.AppendedAt)))
	b = binary.AppendUvarint(b, uint64(len(entry.Extensions)))
	b = append(b, entry.Extensions...)
	b = append(b, entry.Data...)
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// seal completes the record that begins at start: it pads the last sector, scrambles the payload and sets
// the header.
func seal(b []byte, start int) []byte {
	size := len(b) - start
	b = append(b, zeros[:padded(size)-size]...)
	record := b[start:]
	scramble(record)
	copy(record, mark)
	binary.LittleEndian.PutUint32(record[4:], uint32(size-headerSize))
	binary.LittleEndian.PutUint32(record[8:], crc32.Checksum(record[headerSize:], castagnoli))
	binary.LittleEndian.PutUint32(record[12:], crc32.Checksum(record[:12], castagnoli))
	return b
}

// scramble scrambles the bytes of a record after its header. A second call restores them.
func scramble(record []byte) {
	for at := headerSize; at < len(record); at = (at/sector + 1) * sector {
		subtle.XORBytes(record[at:], record[at:], mask[at%sector:])
	}
}

// padded returns size rounded up to a multiple of sector.
func padded(size int) int { return (size + sector - 1) / sector * sector }

// hasHole reports whether a sector of b is all zeros. The last sector of b may be shorter than the
// others.
func hasHole(b []byte) bool {
	for part := range slices.Chunk(b, sector) {
		if isZero(part) {
			return true
		}
	}
	return false
}

// isZero reports whether b is all zeros. b must not be longer than a sector.
func isZero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }

var zeros [sector]byte

// header is the decoded header of a record.
type header struct {
	size int // size of the payload, in bytes
	sum  uint32
}

// decodeHeader decodes the header at the beginning of b. The error is errCut if b ends within the
// header, and errHeader if the header is invalid.
func decodeHeader(b []byte) (h header, err error) {
	if n := min(len(b), len(mark)); string(b[:n]) != mark[:n] {
		return h, errHeader
	}
	if len(b) < headerSize {
		return h, errCut
	}
	if crc32.Checksum(b[:12], castagnoli) != binary.LittleEndian.Uint32(b[12:]) {
		return h, errHeader
	}
	return header{int(binary.LittleEndian.Uint32(b[4:])), binary.LittleEndian.Uint32(b[8:])}, nil
}

// recordSize returns the size of the record in the file, in bytes.
func (h header) recordSize() int { return padded(headerSize + h.size) }

// decodeRecord decodes the record at the beginning of b and returns the bytes after it.
// The error is errCut if b is too short, and a different error if the record is invalid.
func decodeRecord(b []byte) (entries []raft.Log, rest []byte, err error) {
	h, err := decodeHeader(b)
	if err != nil {
		return nil, nil, err
	}
	if len(b) < h.recordSize() {
		return nil, nil, errCut
	}
	record, rest := b[:h.recordSize()], b[h.recordSize():]
	if crc32.Checksum(record[headerSize:], castagnoli) != h.sum {
		return nil, nil, errPayload
	}
	record = bytes.Clone(record)
	scramble(record)
	entries, err = decodePayload(record[headerSize : headerSize+h.size])
	return entries, rest, err
}

func decodePayload(b []byte) (entries []raft.Log, err error) {
	for len(b) >= 4 {
		size := uint64(binary.LittleEndian.Uint32(b))
		if b = b[4:]; size > uint64(len(b)) {
			return nil, errFields
		}
		entry, err := decodeEntry(b[:size:size])
		if err != nil {
			return nil, err
		}
		entries, b = append(entries, entry), b[size:]
	}
	if len(b) > 0 || len(entries) == 0 {
		return nil, errFields
	}
	return entries, nil
}

func decodeEntry(b []byte) (entry raft.Log, err error) {
	if len(b) <= fixedSize {
		return entry, errFields
	}
	entry.Index, entry.Term = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	entry.Type = raft.LogType(b[16])
	entry.AppendedAt = fromNanos(int64(binary.LittleEndian.Uint64(b[17:])))
	b = b[fixedSize:]
	size, n := binary.Uvarint(b)
	if n <= 0 || n > 1 && b[n-1] == 0 || size > uint64(len(b)-n) {
		return entry, errFields
	}
	b = b[n:]
	entry.Extensions, entry.Data = orNil(b[:size:size]), orNil(b[size:])
	return entry, nil
}

// orNil returns b, or nil if b is empty. In entries created by raft, empty fields are nil.
func orNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}
