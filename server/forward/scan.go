package server

import (
	"bytes"
	"errors"

	"github.com/throttledhq/throttled/resp"
)

// What a reply of another node may be at the most. They are far more than any command answers
// with, and keep a stream that makes no sense from taking all memory.
const (
	maxReply     = 128 << 20 // bytes
	maxReplyLine = 64 << 10  // bytes of a status, an error or a head
	maxElements  = 16 << 20  // of all aggregates that are open
)

var errNoReply = errors.New("this is no reply")

// replyScanner finds the end of a reply of RESP2 or RESP3. It does not recurse, takes up a
// reply where its bytes ended, and takes no length that is announced for granted.
type replyScanner struct {
	at   int // bytes that are understood
	left int // elements that are yet to come; 0 between replies
}

// scan returns the size of the reply that b begins with, or 0 while the rest of it has yet to
// come. Until then, each call gets what the last one did and what has come since.
func (s *replyScanner) scan(b []byte) (size int, err error) {
	if s.left == 0 {
		s.left = 1
	}
	for s.left > 0 {
		n, more, err := scanElement(b[s.at:])
		if n == 0 || err != nil {
			return 0, err
		}
		s.at += n
		s.left += more - 1
		if s.at > maxReply || s.left > maxElements {
			return 0, errNoReply
		}
	}
	size, *s = s.at, replyScanner{}
	return size, nil
}

// scanElement returns the size of the element that b begins with, of an aggregate that of its
// head, and how many elements follow as a part of it. The size is 0 for one that is not whole.
func scanElement(b []byte) (size, more int, err error) {
	end := bytes.IndexByte(b[:min(len(b), maxReplyLine)], '\n')
	switch {
	case end < 0 && len(b) >= maxReplyLine:
		return 0, 0, errNoReply
	case end < 0:
		return 0, 0, nil
	case end < 2 || b[end-1] != '\r':
		return 0, 0, errNoReply
	}
	size = end + 1
	switch b[0] {
	case '+', '-', '_', '#', ',', '(':
		return size, 0, nil
	case ':':
		if _, ok := resp.ParseSigned(b[1 : end-1]); !ok {
			return 0, 0, errNoReply
		}
		return size, 0, nil
	}
	n, ok := resp.ParseInt(b[1 : end-1])
	switch {
	case !ok || n < -1 || n > maxReply:
		return 0, 0, errNoReply
	case n == -1 && (b[0] == '$' || b[0] == '*'):
		return size, 0, nil
	case n == -1:
		return 0, 0, errNoReply
	}
	return scanSized(b, size, int(n))
}

// scanSized is scanElement for one whose head says how much follows. Pushes are none: no stream
// between nodes has asked for any.
func scanSized(b []byte, head, n int) (size, more int, err error) {
	switch b[0] {
	case '$', '=', '!':
		size = head + n + len("\r\n")
		if size > len(b) {
			return 0, 0, nil
		}
		if b[size-2] != '\r' || b[size-1] != '\n' {
			return 0, 0, errNoReply
		}
		return size, 0, nil
	case '*', '~':
		return head, n, nil
	case '%':
		return head, 2 * n, nil
	case '|':
		return head, 2*n + 1, nil // what it says more of comes behind it
	}
	return 0, 0, errNoReply
}
