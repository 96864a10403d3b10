package forward

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
)

// wholeReplies contains complete replies of every type.
var wholeReplies = []string{
	"+OK\r\n", "-ERR no\r\n", ":1\r\n", ":-1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(123456789012345678901\r\n",
	"$0\r\n\r\n", "$5\r\na\r\nb\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "~0\r\n", "%0\r\n", "!5\r\nERR x\r\n",
	"=8\r\ntxt:abcd\r\n", "*2\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n", "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n", "~1\r\n%1\r\n:1\r\n:2\r\n",
	"|1\r\n+k\r\n+v\r\n:1\r\n", "*2\r\n|0\r\n:1\r\n:2\r\n", strings.Repeat("*1\r\n", 5000) + ":1\r\n",
}

// noReplies contains texts that are not replies.
var noReplies = []string{
	"\r\n", "x\r\n", "\n", "OK\r\n", ">1\r\n+x\r\n", "*1\r\n>1\r\n+x\r\n", "$1\r\nabc", "$x\r\n", "$\r\n", "$-2\r\n", "*-2\r\n", "%-1\r\n", "~-1\r\n",
	"$01\r\n", "*+1\r\n", "+OK\n", "$9223372036854775807\r\n", "*9223372036854775807\r\n", "$18446744073709551617\r\n", "*134217728\r\n*134217728\r\n",
	"*?\r\n", "$?\r\n", "=3\r\nabcde", "$134217729\r\n", strings.Repeat("*100000\r\n", 300), "+" + strings.Repeat("x", maxReplyLine),
}

// scanAll scans a text that is received in two pieces. cut is the length of the first piece.
func scanAll(t *testing.T, text string, cut int) (size int, err error) {
	t.Helper()
	var s replyScanner
	size, err = s.scan([]byte(text[:cut]))
	if size == 0 && err == nil {
		size, err = s.scan([]byte(text))
	}
	if size > 0 && s != (replyScanner{}) {
		t.Errorf("%.50q: the scanner is not ready for the next reply", text)
	}
	return size, err
}

// TestReplyScanner checks that scan finds the end of a reply that is received in two pieces, that an incomplete reply
// is not an error, and that a text that is not a reply is an error.
func TestReplyScanner(t *testing.T) {
	t.Parallel()
	for _, text := range wholeReplies {
		step := max(1, len(text)/100)
		for cut := 0; cut < len(text); cut += step {
			if size, err := scanAll(t, text+"+next\r\n", cut); size != len(text) || err != nil {
				t.Fatalf("%.50q, cut at %d: got size %d, error %v, want the size of this reply and no error", text, cut, size, err)
			}
			var s replyScanner
			if size, err := s.scan([]byte(text[:cut])); size != 0 || err != nil {
				t.Fatalf("incomplete reply %.50q: got size %d, error %v, want 0 and no error", text[:cut], size, err)
			}
		}
	}
	for _, text := range noReplies {
		if size, err := scanAll(t, text, 0); size != 0 || err == nil {
			t.Errorf("%.50q, which is not a reply: got size %d, error %v, want 0 and an error", text, size, err)
		}
	}
}

// sizeOf is a simple scanner for complete replies of the types +, -, :, $, *, % and ~. It returns -1 for other types.
func sizeOf(b []byte) int {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 1 {
		return -1
	}
	size := end + 2
	n, _ := strconv.Atoi(string(b[1:end]))
	switch b[0] {
	case '+', '-', ':':
		return size
	case '$':
		if n < 0 {
			return size
		}
		return size + n + 2
	case '%':
		n *= 2
	case '*', '~':
	default:
		return -1
	}
	for range n {
		element := sizeOf(b[size:])
		if element < 0 {
			return -1
		}
		size += element
	}
	return size
}

// FuzzReplyScanner compares the scanner with sizeOf, and checks that the result does not depend on where the input is
// split.
func FuzzReplyScanner(f *testing.F) {
	for _, text := range append(wholeReplies, noReplies...) {
		f.Add([]byte(text[:min(len(text), 300)]), uint(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint) {
		size, err := scanAll(t, string(b), int(cut%uint(len(b)+1)))
		if again, fails := scanAll(t, string(b), 0); size != again || (err == nil) != (fails == nil) {
			t.Fatalf("%q in two pieces: got size %d, error %v; in one piece: size %d, error %v", b, size, err, again, fails)
		}
		if size == 0 || bytes.ContainsAny(b[:size], "|!#(_=>,") {
			return // sizeOf does not support these types
		}
		if want := sizeOf(b); size != want {
			t.Fatalf("%q: the size is %d, want %d", b, size, want)
		}
	})
}
