package persistence

import (
	"errors"
	"fmt"
	"io"

	"github.com/throttledhq/throttled/limiter"
)

// writer writes a stream of blocks. It holds one block at a time.
type writer struct {
	dst       io.Writer
	blockSize int
	// tick is called after each block of records with the number of keys and bytes
	// written. An error stops the writer.
	tick func(keys, bytes int64) error

	buf  []byte // the block being built: its place, space for its type and length, its payload
	file uint32 // checksum of the header, once it has been written
	info Info   // describes the blocks written; Size is the offset of the block in buf
}

var errRecordSize = errors.New("record does not fit a block")

// write writes the records of src as one snapshot. It uses only the fields Program and Created
// of info, and returns the complete Info.
func (w *writer) write(info Info, src Source) (Info, error) {
	w.info = info
	w.info.Format, w.info.Begun = format, src.Now()
	n, err := io.WriteString(w.dst, magic)
	w.info.Size = int64(n)
	if err != nil {
		return w.info, fmt.Errorf("write the magic: %w", err)
	}
	w.open()
	w.buf = appendHeader(w.buf, &w.info)
	if err := w.close(headerBlock); err != nil {
		return w.info, err
	}
	if err := w.records(src); err != nil {
		return w.info, err
	}
	w.info.Ended = src.Now()
	w.buf = appendTrailer(w.buf, &w.info)
	err = w.close(trailerBlock)
	return w.info, err
}

func (w *writer) records(src Source) error {
	for r := range src.Records() {
		if err := w.add(&r); err != nil {
			return err
		}
	}
	return w.flush()
}

// add appends a record to the block. A record that is larger than blockSize gets its own
// block.
func (w *writer) add(r *limiter.Record) error {
	size := maxRecordSize(r)
	if size > maxPayload {
		return fmt.Errorf("key of %d bytes with %d bytes of state: %w", len(r.Key), len(r.State), errRecordSize)
	}
	if len(w.buf)-headSize+size > w.blockSize {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.buf = appendRecord(w.buf, r)
	w.info.Keys++
	return nil
}

// flush writes the block if it contains records.
func (w *writer) flush() error {
	if len(w.buf) == headSize {
		return nil
	}
	w.info.Blocks++
	if err := w.close(recordsBlock); err != nil {
		return err
	}
	return w.tick(w.info.Keys, w.info.Size)
}

// open begins a block.
func (w *writer) open() {
	if cap(w.buf) > keptBuffer {
		w.buf = nil
	}
	w.buf = appendPlace(w.buf[:0], w.info.Size, w.file)
	w.buf = append(w.buf, make([]byte, headSize-placeSize)...)
}

// close completes the block, writes it, and begins the next one.
func (w *writer) close(t blockType) error {
	w.buf = seal(w.buf, t)
	n, err := w.dst.Write(w.buf[placeSize:])
	if err == nil && n < len(w.buf)-placeSize {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write at byte %d: %w", w.info.Size, err)
	}
	if t == headerBlock {
		w.file = sumOf(w.buf)
	}
	w.info.Size += int64(n)
	w.open()
	return nil
}
