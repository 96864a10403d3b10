package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/throttledhq/throttled/resp"
)

// verdict is the result of a request according to its reply.
type verdict uint8

const (
	unfinished verdict = iota // the reply is incomplete
	passed
	denied
	failed
)

var errReply = errors.New("the target does not speak the Redis protocol")

// scanner finds the ends and the verdicts of replies without decoding them fully. It is
// incremental: complete lines and skipped bytes are not scanned again when more input
// arrives.
type scanner struct {
	limiter bool // an array whose first element is 1 means denied

	lines   int // lines of this reply so far
	missing int // outstanding elements of this reply
	skip    int // outstanding bytes of a bulk string
	array   bool
	verdict verdict
	text    []byte // text of an error reply; valid until the next call
}

// next scans b. It returns the number of bytes consumed, and the verdict of the reply that
// ends there. If the verdict is unfinished, call next again with the remaining bytes
// followed by more input.
func (s *scanner) next(b []byte) (done int, v verdict, err error) {
	if s.missing == 0 {
		*s = scanner{limiter: s.limiter, missing: 1, verdict: passed}
	}
	for s.missing > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(b)-done)
			s.skip -= n
			done += n
			if s.skip > 0 {
				return done, unfinished, nil
			}
			s.missing--
			continue
		}
		end := bytes.IndexByte(b[done:], '\n')
		if end < 0 {
			return done, unfinished, nil
		}
		if err := s.line(b[done : done+end]); err != nil {
			return done, unfinished, err
		}
		done += end + 1
	}
	return done, s.verdict, nil
}

// line processes one line, which includes the CR but not the LF.
func (s *scanner) line(line []byte) error {
	if len(line) < 2 || line[len(line)-1] != '\r' {
		return fmt.Errorf("%w: %q", errReply, line)
	}
	line = line[:len(line)-1]
	s.lines++
	s.missing--
	switch line[0] {
	case ':':
		if s.limiter && s.array && s.lines == 2 && len(line) == 2 && line[1] == '1' {
			s.verdict = denied
		}
		return nil
	case '+':
		return nil
	case '-':
		if s.lines == 1 {
			s.verdict, s.text = failed, line[1:]
		}
		return nil
	}
	return s.head(line)
}

// head processes the header line of a bulk string or an array, which contains its
// length. A length of -1 is null.
func (s *scanner) head(line []byte) error {
	n, ok := resp.ParseInt(line[1:])
	if !ok || n < -1 || n > 1<<40 || line[0] != '$' && line[0] != '*' {
		return fmt.Errorf("%w: %q", errReply, line)
	}
	switch {
	case line[0] == '*':
		s.array = s.array || s.lines == 1
		s.missing += int(max(n, 0))
	case n >= 0:
		s.missing++ // the bulk string is outstanding until its bytes have been skipped
		s.skip = int(n) + len("\r\n")
	}
	return nil
}
