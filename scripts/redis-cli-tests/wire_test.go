package rediscli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/resp"
)

// patience is the timeout of a reply.
const patience = 2 * time.Minute

// wire is a raw connection that returns replies in the format of scripts.
type wire struct {
	conn net.Conn
	out  []byte // commands of the next write
	in   *bufio.Reader
	seen bytes.Buffer // the bytes of the current reply
}

func dial(addr string) (*wire, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, in: bufio.NewReader(conn)}, nil
}

// send adds a command, given as a line of words, to the next write.
func (w *wire) send(line string) error {
	words, err := resp.SplitLine(nil, []byte(line))
	if err != nil {
		return fmt.Errorf("split %q: %w", line, err)
	}
	w.out = fmt.Appendf(w.out, "*%d\r\n", len(words))
	for _, word := range words {
		w.out = fmt.Appendf(w.out, "$%d\r\n%s\r\n", len(word), word)
	}
	return nil
}

// sendRaw sends words unchanged, each in a separate write.
func (w *wire) sendRaw(line string) error {
	words, err := resp.SplitLine(nil, []byte(line))
	if err != nil {
		return fmt.Errorf("split %q: %w", line, err)
	}
	for _, word := range words {
		w.out = append(w.out, word...)
		if err := w.flush(); err != nil {
			return err
		}
	}
	return nil
}

// flush sends all buffered commands in one write.
func (w *wire) flush() error {
	out := w.out
	w.out = nil
	if len(out) == 0 {
		return nil
	}
	_, err := w.conn.Write(out)
	return err
}

// ask sends a command and returns its reply.
func (w *wire) ask(line string) (string, error) {
	if err := w.send(line); err != nil {
		return "", err
	}
	text, _, err := w.reply(patience)
	return text, err
}

func (w *wire) mustAsk(t testing.TB, line, want string) {
	t.Helper()
	if got, err := w.ask(line); err != nil || !(variables{}).match(want, got) {
		t.Fatalf("%s returns %s (error %v), want %s", line, got, err, want)
	}
}

// errSilent is returned if no byte of a reply is received within the timeout.
var errSilent = errors.New("no reply")

// reply reads one reply, and also returns its bytes. If the connection is closed, the
// reply is "closed".
func (w *wire) reply(within time.Duration) (text string, raw []byte, err error) {
	if err := w.flush(); err != nil {
		return "", nil, err
	}
	if err := w.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", nil, err
	}
	w.seen.Reset()
	b, err := w.readValue(nil, false)
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout() && w.seen.Len() == 0:
		return "", nil, errSilent
	case w.seen.Len() == 0 && err != nil:
		return closed, nil, nil
	case err != nil:
		return "", nil, fmt.Errorf("read reply after %q: %w", w.seen.Bytes(), err)
	}
	return string(b), bytes.Clone(w.seen.Bytes()), nil
}

func (w *wire) readLine() (string, error) {
	line, err := w.in.ReadString('\n')
	w.seen.WriteString(line)
	if err == nil && !strings.HasSuffix(line, "\r\n") {
		err = fmt.Errorf("line without CR LF: %q", line)
	}
	return strings.TrimSuffix(line, "\r\n"), err
}

// readValue reads the next value and appends it in the format of scripts.
func (w *wire) readValue(dst []byte, nested bool) ([]byte, error) {
	line, err := w.readLine()
	if err != nil {
		return dst, err
	}
	if line == "" {
		return dst, errors.New("empty line")
	}
	head, rest := line[0], line[1:]
	switch {
	case line == "$-1":
		return append(dst, "nil"...), nil
	case line == "*-1":
		return append(dst, "nil[]"...), nil
	case line == "_":
		return append(dst, "null"...), nil
	case head == ':':
		return append(dst, rest...), nil
	case (head == '+' || head == '-') && (nested && strings.ContainsAny(rest, " []{}:\"") || strings.HasSuffix(rest, " ")):
		return appendQuoted(append(dst, head), rest), nil
	case head == '+' || head == '-':
		return append(dst, line...), nil
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 0 {
		return dst, fmt.Errorf("%q is not the start of a reply", line)
	}
	switch head {
	case '$', '=':
		return w.readBulk(dst, head, n)
	case '*', '~', '>', '%':
		return w.readAggregate(dst, head, n)
	}
	return dst, fmt.Errorf("%q is not the start of a reply", line)
}

// readBulk reads a string of n bytes and appends it in the format of scripts.
func (w *wire) readBulk(dst []byte, head byte, n int) ([]byte, error) {
	b := make([]byte, n+len("\r\n"))
	got, err := io.ReadFull(w.in, b)
	w.seen.Write(b[:got])
	if err != nil {
		return dst, err
	}
	s, ended := strings.CutSuffix(string(b), "\r\n")
	if !ended {
		return dst, fmt.Errorf("string of %d bytes without CR LF", n)
	}
	if head == '=' {
		kind, text, _ := strings.Cut(s, ":")
		return appendQuoted(append(dst, kind...), text), nil
	}
	return appendQuoted(dst, s), nil
}

var brackets = map[byte][2]string{'*': {"[", "]"}, '~': {"~[", "]"}, '>': {"push[", "]"}, '%': {"{", "}"}}

func (w *wire) readAggregate(dst []byte, head byte, n int) ([]byte, error) {
	if head == '%' {
		n *= 2
	}
	dst = append(dst, brackets[head][0]...)
	for i := range n {
		switch {
		case i > 0 && head == '%' && i%2 == 1:
			dst = append(dst, ':')
		case i > 0:
			dst = append(dst, ' ')
		}
		var err error
		if dst, err = w.readValue(dst, true); err != nil {
			return dst, err
		}
	}
	return append(dst, brackets[head][1]...), nil
}

// appendQuoted appends a quoted string in the format of redis-cli.
func appendQuoted(dst []byte, s string) []byte {
	escapes := map[byte]string{
		'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\a': `\a`, '\b': `\b`,
	}
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case escapes[c] != "":
			dst = append(dst, escapes[c]...)
		case c < ' ' || c > '~':
			dst = fmt.Appendf(dst, `\x%02x`, c)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
