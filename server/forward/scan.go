package forward

import (
	"bytes"
	"errors"

	"github.com/throttledhq/throttled/resp"
)

// Limits for a reply from another node. They are far larger than any actual reply, and prevent a corrupt stream from
// exhausting memory.
const (
	maxReply     = 128 << 20 // bytes
	maxReplyLine = 64 << 10  // bytes of a status, an error or a header
	maxElements  = 16 << 20  // elements that an incomplete reply still lacks, in all its arrays, sets and maps together
)

var errNoReply = errors.New("not a reply")

// replyScanner finds the end of a RESP2 or RESP3 reply. It does not recurse, continues an incomplete reply where the
// previous scan stopped, and does not allocate memory.
type replyScanner struct {
	scanned int // bytes of the reply that are scanned
	missing int // elements of the reply that are still missing; 0 between replies
}

// scan returns the size of the reply at the beginning of b, or 0 if the reply is incomplete. If the reply is
// incomplete, the next call must pass the same bytes, followed by the bytes received since.
func (s *replyScanner) scan(b []byte) (size int, err error) {
	if s.missing == 0 {
		s.missing = 1
	}
	for s.missing > 0 {
		n, more, err := scanElement(b[s.scanned:])
		if n == 0 || err != nil {
			return 0, err
		}
		s.scanned += n
		s.missing += more - 1
		if s.scanned > maxReply || s.missing > maxElements {
			return 0, errNoReply
		}
	}
	size, *s = s.scanned, replyScanner{}
	return size, nil
}

// scanElement scans the element at the beginning of b. For a simple element, size is its size and more is 0. For an
// aggregate, such as an array, size is the size of its header and more is the number of elements that follow. size is
// 0 if the element or header is incomplete.
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

// scanSized is like scanElement, for an element whose header contains a number. head is the size of the header, and n
// is the number: bytes of a string, elements of an array, or pairs of a map. A push is an error, since nodes never
// request pushes.
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
		return head, 2*n + 1, nil // n pairs, and the element that the attribute describes
	}
	return 0, 0, errNoReply
}

// splitArray returns the elements of an array reply as a non-nil slice. ok is false for any other reply, including a
// null array.
func splitArray(reply []byte) (elements [][]byte, ok bool) {
	size, n, err := scanElement(reply)
	if err != nil || size == 0 || reply[0] != '*' || string(reply[:size]) == "*-1\r\n" {
		return nil, false
	}
	elements = [][]byte{}
	for reply = reply[size:]; n > 0; n-- {
		var s replyScanner
		size, err := s.scan(reply)
		if size == 0 || err != nil {
			return nil, false
		}
		elements, reply = append(elements, reply[:size]), reply[size:]
	}
	return elements, true
}
