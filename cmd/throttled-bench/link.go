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

// link is one connection with its requests. The goroutine that reads from it owns it; in
// the open loop out, requests and wroteBy belong to the one that writes.
type link struct {
	conn    net.Conn
	source  *source
	scanner scanner
	journal journal
	timeout time.Duration

	in         []byte // what has been read is in[start:end]
	start, end int
	readBy     int64 // the deadline that is set for reading
	arrived    int64 // when the last bytes came, in the open loop

	out     []byte
	wroteBy int64 // the deadline that is set for writing

	sent atomic.Int64 // in the open loop, once writing has ended: writes; until then -1
}

const inputSize = 16 << 10

var (
	errSilent  = errors.New("the target owes replies and sends nothing for longer than -timeout")
	errStuffed = errors.New("the target has stopped taking requests")
	errExtra   = errors.New("the target sends more replies than there were requests")
)

// renew returns the deadline for what begins at a time, and whether it has to be set. It
// is set now and then only, since that costs more than to encode a request. A wait may
// therefore last up to a quarter longer than the timeout.
func renew(set, from int64, timeout time.Duration) (by int64, stale bool) {
	if by = from + int64(timeout); set < by {
		return by + int64(timeout)/4, true
	}
	return set, false
}

// write sends what is in out.
func (l *link) write(r *round, now int64) error {
	by, stale := renew(l.wroteBy, now, l.timeout)
	if stale {
		if err := l.conn.SetWriteDeadline(r.start.Add(time.Duration(by))); err != nil {
			return err
		}
		l.wroteBy = by
	}
	if _, err := l.conn.Write(l.out); errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w for %v", errStuffed, l.timeout)
	} else if err != nil {
		return lost(err)
	}
	return nil
}

// expect sets the deadline for reading: the timeout counts from a time at which replies
// came last or are due next.
func (l *link) expect(r *round, from int64) error {
	by, stale := renew(l.readBy, from, l.timeout)
	if !stale {
		return nil
	}
	l.readBy = by
	return l.conn.SetReadDeadline(r.start.Add(time.Duration(by)))
}

// read waits for bytes and reads them.
func (l *link) read() error {
	if l.start > 0 {
		copy(l.in, l.in[l.start:l.end])
		l.start, l.end = 0, l.end-l.start
	}
	if l.end == len(l.in) {
		return fmt.Errorf("%w: a line of over %d bytes", errReply, l.end)
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
		err = errors.New("the target closed it")
	}
	return fmt.Errorf("connection lost: %w", err)
}

// take looks at the replies that have been read, at most limit of them. Errors are noted
// if they are to count.
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
				l.journal.to.fail(l.scanner.text)
			}
		}
		limit--
	}
	return c, nil
}
