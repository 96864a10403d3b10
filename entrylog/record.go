package entrylog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

const (
	magic      = "frontv1\n"
	headerSize = 4 + 4 + 4
	fixedSize  = 8 + 8 + 1 + 8 // of a payload, before the lengths that vary
	// maxEntry is in bytes, and keeps lengths far from the end of a uint32.
	maxEntry = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// What is wrong with a record.
var (
	errCut     = errors.New("the file ends within a record")
	errHeader  = errors.New("the checksum of a record's header does not match")
	errPayload = errors.New("the checksum of a record does not match")
	errFields  = errors.New("a record has impossible fields")
	errOrder   = errors.New("a record does not follow the one before")
	errMagic   = errors.New("the file is not of a format that is known")
)

// appendRecord appends the record of an entry of at most maxEntry bytes.
func appendRecord(b []byte, entry *raft.Log) []byte {
	var header [headerSize]byte
	start := len(b)
	b = append(b, header[:]...)
	b = binary.LittleEndian.AppendUint64(b, entry.Index)
	b = binary.LittleEndian.AppendUint64(b, entry.Term)
	b = append(b, byte(entry.Type))
	b = binary.LittleEndian.AppendUint64(b, uint64(nanos(entry.AppendedAt)))
	b = binary.AppendUvarint(b, uint64(len(entry.Extensions)))
	b = append(b, entry.Extensions...)
	b = append(b, entry.Data...)
	seal(b[start:])
	return b
}

// seal fills in the header of a record.
func seal(record []byte) {
	payload := record[headerSize:]
	binary.LittleEndian.PutUint32(record, uint32(len(payload)))
	binary.LittleEndian.PutUint32(record[4:], crc32.Checksum(payload, castagnoli))
	binary.LittleEndian.PutUint32(record[8:], crc32.Checksum(record[:8], castagnoli))
}

// decodeRecord reads the record at the beginning of b and returns what comes after it. The
// entry shares memory with b. The error is errCut if b is too short, and another one if
// what is there is no record.
func decodeRecord(b []byte) (entry raft.Log, rest []byte, err error) {
	if len(b) < headerSize {
		return entry, nil, errCut
	}
	if crc32.Checksum(b[:8], castagnoli) != binary.LittleEndian.Uint32(b[8:]) {
		return entry, nil, errHeader
	}
	size, sum := uint64(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint32(b[4:])
	b = b[headerSize:]
	if uint64(len(b)) < size {
		return entry, nil, errCut
	}
	payload, rest := b[:size:size], b[size:]
	if crc32.Checksum(payload, castagnoli) != sum {
		return entry, nil, errPayload
	}
	entry, err = decodePayload(payload)
	return entry, rest, err
}

func decodePayload(b []byte) (entry raft.Log, err error) {
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
