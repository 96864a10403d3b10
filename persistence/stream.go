package persistence

import (
	"io"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// streamName stands for the name of the file in errors.
const streamName = "stream"

// Write writes the records of src to dst, in the bytes of a snapshot file. Of info it takes
// Program and, if it is set, Created; it returns what the first and the last block say. The
// errors are those of dst. That the bytes are durable, and that dst is closed, is left to
// the caller. As in a file, each record is as it was at some moment of the writing.
//
// It works a third of the time and rests for two, for the sake of those who are served, until
// hurry is closed. If that is nil it never rests.
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

// Read reads what Write has written, and visits its records, which are borrowed for the
// length of the visit. It checks each block before it visits what is in it. A record that
// was visited is thus what was written, but only a nil error says that all were visited and
// that nothing follows them: who must not keep half of a state reads into a new one.
//
// Read reads src to its end, since bytes behind the last block are an error. It returns a
// [FileError], whose File is "stream", or the error of visit, which ends the reading.
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
		r.damaged(r.offset-trailerSize, "its trailer tells what cannot be")
	}
	return r.info, r.err
}

func ignoreProgress(int64, int64) error { return nil }
