package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// link is one connection and the state of its requests. It is owned by the reading
// goroutine. In the open loop, however, the fields source, out and writeDeadline are owned
// by the writing goroutine.
type link struct {
	conn    net.Conn
	source  *source
	scanner scanner
	journal journal
	timeout time.Duration

	in           []byte // in[start:end] is read but not yet processed
	start, end   int
	readDeadline int64 // in nanoseconds since the start of the round
	arrived      int64 // in the open loop: time of the last read

	out           []byte
	writeDeadline int64 // in nanoseconds since the start of the round

	sent atomic.Int64 // in the open loop: number of writes; -1 until writing has ended
}

const inputSize = 16 << 10

var (
	errSilent  = errors.New("no reply from the target for longer than -timeout")
	errStuffed = errors.New("the target did not read requests")
	errExtra   = errors.New("the target sent more replies than requests")
)

// renew returns the deadline of an operation that begins at the time in the argument from,
// and reports whether the deadline must be set on the connection. The argument set is the
// present deadline of the connection. Setting a deadline costs more than encoding a request. Therefore a
// deadline has a margin of a quarter of the timeout, and later operations reuse it. A wait
// may exceed the timeout by up to 25 %.
func renew(set, from int64, timeout time.Duration) (by int64, stale bool) {
	if by = from + int64(timeout); set < by {
		return by + int64(timeout)/4, true
	}
	return set, false
}

// write sends l.out.
func (l *link) write(r *round, now int64) error {
	by, stale := renew(l.writeDeadline, now, l.timeout)
	if stale {
		if err := l.conn.SetWriteDeadline(r.start.Add(time.Duration(by))); err != nil {
			return err
		}
		l.writeDeadline = by
	}
	if _, err := l.conn.Write(l.out); errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w for %v", errStuffed, l.timeout)
	} else if err != nil {
		return lost(err)
	}
	return nil
}

// expect sets the read deadline. The timeout starts at the time in the argument from,
// which is in the future if the next request is not due yet.
func (l *link) expect(r *round, from int64) error {
	by, stale := renew(l.readDeadline, from, l.timeout)
	if !stale {
		return nil
	}
	l.readDeadline = by
	return l.conn.SetReadDeadline(r.start.Add(time.Duration(by)))
}

// read reads into l.in and blocks until at least one byte is available.
func (l *link) read() error {
	if l.start > 0 {
		copy(l.in, l.in[l.start:l.end])
		l.start, l.end = 0, l.end-l.start
	}
	if l.end == len(l.in) {
		return fmt.Errorf("%w: line of more than %d bytes", errReply, l.end)
	}
	n, err := l.conn.Read(l.in[l.end:])
	l.end += n
	switch {
	case n > 0:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSilent
	case err == nil:
		return io.ErrNoProgress
	}
	return lost(err)
}

func lost(err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("closed by the target")
	}
	return fmt.Errorf("connection lost: %w", err)
}

// take processes at most limit of the replies that have been read. If count is true, it
// records error replies in the journal.
func (l *link) take(limit int, count bool) (c counts, err error) {
	for l.start < l.end && limit > 0 {
		done, v, err := l.scanner.next(l.in[l.start:l.end])
		l.start += done
		if err != nil {
			return c, err
		}
		switch v {
		case unfinished:
			return c, nil
		case passed:
			c.passed++
		case denied:
			c.denied++
		case failed:
			c.failed++
			if count {
				l.journal.recorder.fail(l.scanner.text)
			}
		}
		limit--
	}
	return c, nil
}

// finished returns an error if input is left after the replies to all requests.
func (l *link) finished() error {
	if l.start < l.end {
		return errExtra
	}
	return nil
}
