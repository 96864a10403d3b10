package entrylog

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
	// sector is what a disk writes whole or not at all, in bytes. Each record begins at a
	// multiple of it, so that nothing that was acknowledged is in a sector that is written again.
	sector     = 512
	mark       = "frn2"
	headerSize = len(mark) + 4 + 4 + 4
	fixedSize  = 8 + 8 + 1 + 8 // of an entry, before the lengths that vary
	// maxStored bounds a record, in bytes, and keeps lengths far from the end of a uint32.
	maxStored = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// mask is what each sector is scrambled with, so that none is written that has nothing but zeros, or
// but a bit, and none begins like a record: those that have were never written.
var mask = func() (m [sector]byte) {
	for i, x := 0, uint32(1); i < sector; i++ {
		x = x*1664525 + 1013904223
		m[i] = byte(x>>24) | 1
	}
	return m
}()

// What is wrong with a record.
var (
	errCut     = errors.New("the file ends within a record")
	errHeader  = errors.New("no record begins there")
	errPayload = errors.New("the checksum of a record does not match")
	errFields  = errors.New("a record has impossible fields")
	errOrder   = errors.New("an entry does not follow the one before")
)

// appendRecord appends the record of entries that are written at once, to b, whose length is a
// multiple of sector. They have at most maxStored bytes.
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

// seal fills up the last sector of the record that begins at start, scrambles it and fills in its header.
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

// scramble scrambles what is behind the header of a record, or takes that back.
func scramble(record []byte) {
	for at := headerSize; at < len(record); at = (at/sector + 1) * sector {
		subtle.XORBytes(record[at:], record[at:], mask[at%sector:])
	}
}

// padded is how much of a file so many bytes occupy.
func padded(size int) int { return (size + sector - 1) / sector * sector }

// hasHole reports whether a sector has nothing but zeros. The last one may be cut.
func hasHole(b []byte) bool {
	for part := range slices.Chunk(b, sector) {
		if isZero(part) {
			return true
		}
	}
	return false
}

// isZero reports whether at most a sector has nothing but zeros.
func isZero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }

var zeros [sector]byte

// header is that of a record.
type header struct {
	size int // of the payload, in bytes
	sum  uint32
}

// decodeHeader reads the header at the beginning of b. The error is errCut or errHeader.
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

// recordSize is how many bytes of the file the record occupies.
func (h header) recordSize() int { return padded(headerSize + h.size) }

// decodeRecord reads the record at the beginning of b and returns what comes after it. The error
// is errCut if b is too short, and another one if what is there is no record.
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

// orNil returns nil for no bytes, as what raft makes for an entry that has none.
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
