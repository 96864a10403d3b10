package persistence

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"slices"

	"github.com/throttledhq/throttled/limiter"
)

// reader parses a stream of blocks. It holds one block at a time and allocates memory as
// bytes arrive, regardless of the length that a block claims.
type reader struct {
	src  io.Reader
	file string // name of the file in errors
	// tick is called after each block of records with the number of keys and bytes read.
	// An error stops the reader.
	tick func(keys, bytes int64) error

	buf    []byte // the current block, preceded by its place (see format.go), because the checksum covers both
	id     uint32 // checksum of the header, once it has been read
	offset int64  // of the next block
	info   Info   // describes the blocks read
	done   bool   // the trailer has been read and is valid
	err    error
}

// header reads the magic and the header, and reports whether they are valid.
func (r *reader) header() bool {
	r.buf = r.buf[:0]
	if !r.fill(len(magic)) {
		return false
	}
	if string(r.buf) != magic {
		return r.damaged(0, "the file does not begin like a snapshot")
	}
	r.offset = int64(len(magic))
	at := r.offset
	t, payload, ok := r.block()
	switch {
	case !ok:
		return false
	case t != headerBlock || !parseHeader(payload, &r.info):
		return r.damaged(at, "the first block is not a header")
	case r.info.Format != format:
		return r.fail(at, ErrUnknown, fmt.Errorf("the file has format %d, this version of throttled reads format %d: use the version that wrote it", r.info.Format, format))
	}
	r.id = sumOf(r.buf)
	return true
}

// records iterates over the records, which alias the buffer of the reader, and then
// checks the trailer. The stream is valid only if r.done is true after the iteration.
func (r *reader) records() iter.Seq[limiter.Record] {
	return func(yield func(limiter.Record) bool) {
		for r.err == nil && !r.done {
			at := r.offset
			t, payload, ok := r.block()
			switch {
			case !ok:
				return
			case t == trailerBlock:
				r.trailer(at, payload)
			case t != recordsBlock:
				r.fail(at, ErrUnknown, fmt.Errorf("unknown block type %d", t))
			case !r.visit(at, payload, yield):
				return
			}
		}
	}
}

// visit yields the records of one block and reports whether to continue.
func (r *reader) visit(at int64, payload []byte, yield func(limiter.Record) bool) bool {
	for rest := payload; len(rest) > 0; {
		pos := at + int64(headSize-placeSize+len(payload)-len(rest))
		if !kindOf(rest[0]).Known() {
			return r.fail(pos, ErrUnknown, fmt.Errorf("unknown record kind %d: use the version that wrote it", rest[0]))
		}
		var rec limiter.Record
		var ok bool
		if rec, rest, ok = parseRecord(rest); !ok {
			return r.damaged(pos, "a record overruns its block")
		}
		r.info.Keys++
		if !yield(rec) {
			return false
		}
	}
	r.info.Blocks++
	if err := r.tick(r.info.Keys, r.offset); err != nil {
		r.err = err
	}
	return r.err == nil
}

// trailer compares the counts of the trailer with the blocks read, and checks that no bytes
// follow the trailer.
func (r *reader) trailer(at int64, payload []byte) {
	var want Info
	if !parseTrailer(payload, &want) {
		r.damaged(at, "the trailer has %d bytes instead of %d", len(payload), trailerPayload)
		return
	}
	if r.info.Keys != want.Keys || r.info.Blocks != want.Blocks {
		r.damaged(at, "the file has %d keys in %d blocks, but its trailer states %d keys in %d blocks",
			r.info.Keys, r.info.Blocks, want.Keys, want.Blocks)
		return
	}
	var extra [1]byte
	if n, err := io.ReadFull(r.src, extra[:]); n > 0 {
		r.damaged(r.offset, "more bytes follow the trailer")
		return
	} else if err != io.EOF {
		r.fail(r.offset, ErrUnreadable, err)
		return
	}
	r.info.Ended, r.info.Size = want.Ended, r.offset
	r.done = true
}

// block reads the next block and verifies its checksum. The payload is valid until the
// next call.
func (r *reader) block() (blockType, []byte, bool) {
	if cap(r.buf) > keptBuffer {
		r.buf = nil
	}
	r.buf = appendPlace(r.buf[:0], r.offset, r.id)
	if !r.fill(headSize - placeSize) {
		return 0, nil, false
	}
	size := int64(binary.LittleEndian.Uint32(r.buf[placeSize+1:]))
	if size > maxPayload {
		return 0, nil, r.damaged(r.offset, "a block has an invalid length of %d bytes", size)
	}
	if !r.fill(int(size) + sumSize) {
		return 0, nil, false
	}
	body := r.buf[:headSize+size]
	if crc32.Checksum(body, castagnoli) != sumOf(r.buf) {
		return 0, nil, r.damaged(r.offset, "checksum does not match")
	}
	r.offset += frameSize + size
	return blockType(body[placeSize]), body[headSize:], true
}

// fill reads n bytes and appends them to the buffer. It allocates memory as bytes arrive,
// since n may come from a damaged length field.
func (r *reader) fill(n int) bool {
	for n > 0 {
		step := min(n, max(cap(r.buf)-len(r.buf), len(r.buf), defaultBlock))
		r.buf = slices.Grow(r.buf, step)
		got, err := io.ReadFull(r.src, r.buf[len(r.buf):len(r.buf)+step])
		r.buf = r.buf[:len(r.buf)+got]
		n -= got
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return r.damaged(r.position(), "the file is truncated")
		case err != nil:
			return r.fail(r.position(), ErrUnreadable, err)
		}
	}
	return true
}

// position returns the offset after the last byte read.
func (r *reader) position() int64 {
	if r.offset == 0 {
		return int64(len(r.buf)) // unlike a block, the magic is not preceded by a place
	}
	return r.offset + int64(len(r.buf)-placeSize)
}

func (r *reader) damaged(at int64, problem string, args ...any) bool {
	return r.fail(at, ErrDamaged, fmt.Errorf(problem, args...))
}

// fail sets the error. It returns false for the convenience of its callers.
func (r *reader) fail(at int64, kind, err error) bool {
	r.err = &FileError{File: r.file, Offset: at, Kind: kind, Err: err}
	return false
}
