package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/throttledhq/throttled/resp"
)

// verdict is what a reply says of its request.
type verdict uint8

const (
	unfinished verdict = iota // the reply goes on beyond the bytes there are
	passed
	denied
	failed
)

var errReply = errors.New("the target does not answer in the Redis protocol")

// scanner finds where replies end and what they say, without decoding the rest. It goes
// on where it stopped, so a long reply is looked at once however it arrives.
type scanner struct {
	limiter bool // arrays that begin with 1 deny

	lines   int // of this reply, so far
	missing int // elements that this reply still has to bring
	skip    int // bytes of a bulk string that still have to come
	array   bool
	said    verdict
	text    []byte // of an error, until the next call
}

// next looks at b and returns how many bytes of it are done with, and the verdict if
// a reply ends there. An unfinished one wants to see the bytes that are not done with
// again, with more behind them.
func (s *scanner) next(b []byte) (done int, v verdict, err error) {
	if s.missing == 0 {
		*s = scanner{limiter: s.limiter, missing: 1, said: passed}
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
	return done, s.said, nil
}

// line takes in one line, which still has its CR.
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
			s.said = denied
		}
		return nil
	case '+':
		return nil
	case '-':
		if s.lines == 1 {
			s.said, s.text = failed, line[1:]
		}
		return nil
	}
	return s.head(line)
}

// head takes in the line that says how long a bulk string or an array is. A length of
// -1 stands for null.
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
		s.missing++ // done when its bytes have come
		s.skip = int(n) + len("\r\n")
	}
	return nil
}
