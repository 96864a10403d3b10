package persistence

import (
	"io"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// streamName replaces the name of the file in errors.
const streamName = "stream"

// Write writes the records of src to dst in the format of a snapshot file. It uses only the fields
// Program and Created of info. If Created is zero, Write uses the current time. It returns the
// complete Info of the snapshot. The error wraps the error of dst, or reports that a record is too large for
// the format. The caller is responsible for syncing and closing dst. Each record is written as it was at some
// moment of the write; different records may be from different moments.
//
// Write pauses for two thirds of the time to limit its effect on requests, until hurry is
// closed. If hurry is nil, it never pauses.
func Write(dst io.Writer, info Info, src Source, hurry <-chan struct{}) (Info, error) {
	if info.Created.IsZero() {
		info.Created = time.Now()
	}
	w := writer{dst: dst, blockSize: defaultBlock, tick: ignoreProgress}
	if hurry != nil {
		pace := newPacer(hurry)
		w.tick = func(int64, int64) error {
			pace.step()
			return nil
		}
	}
	return w.write(Info{Program: info.Program, Created: time.Unix(0, info.Created.UnixNano())}, src)
}

// Read reads a stream written by Write and calls visit for each record. A record is valid only
// during the call. Each block is verified before its records are visited. A visited record is
// therefore always intact, but only a nil error guarantees that all records were visited and that
// nothing follows them. The caller should read into a new state, so that an incomplete state can be
// discarded.
//
// Read reads src until EOF, since bytes after the last block are an error. If the stream is
// invalid or src fails, Read returns a [FileError] whose File is "stream". If visit returns an
// error, Read stops and returns this error.
func Read(src io.Reader, visit func(limiter.Record) error) (Info, error) {
	r := reader{src: src, file: streamName, tick: ignoreProgress}
	if !r.header() {
		return r.info, r.err
	}
	for record := range r.records() {
		if err := visit(record); err != nil {
			return r.info, err
		}
	}
	if r.err == nil && !r.info.possible() {
		r.damaged(r.offset-trailerSize, "the trailer has impossible values")
	}
	return r.info, r.err
}

func ignoreProgress(int64, int64) error { return nil }
