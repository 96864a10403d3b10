package persistence

import (
	"fmt"
	"io"
	"iter"

	"github.com/throttledhq/throttled/limiter"
)

// Snapshot is a snapshot file that is open for reading.
type Snapshot struct {
	file File
	path string
	info Info
	tick func(keys, bytes int64) error
	err  error
}

// OpenSnapshot opens a snapshot and reads its first and last block. It returns a
// [FileError] if a block is invalid, or an error of the file system. The rest of the file
// is verified only by iterating over Records.
func OpenSnapshot(path string) (*Snapshot, error) { return openSnapshot(Disk, path) }

func openSnapshot(fs FS, path string) (*Snapshot, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	s := &Snapshot{file: f, path: path, tick: func(int64, int64) error { return nil }}
	if err := s.readEnds(); err != nil {
		_ = f.Close() // the file was only read, so an error has no effect
		return nil, err
	}
	return s, nil
}

// readEnds reads the first block and, at the end of the file, the trailer.
func (s *Snapshot) readEnds() error {
	size, err := s.file.Size()
	if err != nil {
		return &FileError{File: s.path, Kind: ErrUnreadable, Err: err}
	}
	first := s.reader(0, size)
	if !first.header() {
		return first.err
	}
	s.info = first.info
	s.info.Size = size
	last := s.reader(max(size-trailerSize, first.offset), size)
	last.id = first.id
	at := last.offset
	if t, payload, ok := last.block(); ok && t == trailerBlock && parseTrailer(payload, &s.info) {
		if !s.info.possible() {
			last.damaged(at, "the trailer has impossible values")
		}
		return last.err
	}
	if last.err == nil || last.err.(*FileError).Kind == ErrDamaged {
		last.damaged(at, "the trailer is missing: the file was truncated, or its end was overwritten")
	}
	return last.err
}

// reader returns a reader for the bytes of the file in [from, to).
func (s *Snapshot) reader(from, to int64) *reader {
	return &reader{src: io.NewSectionReader(s.file, from, to-from), file: s.path, offset: from, tick: s.tick}
}

// Info returns the description of the snapshot, which was read from its first and last block.
func (s *Snapshot) Info() Info { return s.info }

// Records iterates over all records from the start of the file. A record is valid only
// during its iteration. Each block is verified before its records are yielded, and the
// iteration stops at the first invalid block; Err then returns the reason. A yielded
// record is therefore always intact, but the iteration is complete only if Err returns
// nil.
func (s *Snapshot) Records() iter.Seq[limiter.Record] {
	return func(yield func(limiter.Record) bool) {
		s.err = errStopped
		r := s.reader(0, s.info.Size+1) // one more byte, to detect that the file has grown
		if r.header() {
			r.records()(yield)
		}
		switch {
		case r.err != nil:
			s.err = r.err
		case r.done && r.info != s.info:
			s.err = &FileError{File: s.path, Kind: ErrDamaged, Err: errChanging}
		case r.done:
			s.err = nil
		}
	}
}

// Err returns the reason why the last iteration over Records was incomplete: a
// [FileError], or another error if the caller stopped the iteration. It returns nil if the
// whole file is valid.
func (s *Snapshot) Err() error { return s.err }

// Verify reads the whole file and returns an error if it is invalid.
func (s *Snapshot) Verify() error {
	for range s.Records() {
	}
	return s.err
}

// Close closes the file.
func (s *Snapshot) Close() error { return s.file.Close() }
