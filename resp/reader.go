package resp

import (
	"bytes"
	"encoding/binary"
	"io"
	"unsafe"
)

// Limits bounds the requests that a Reader accepts. A request that exceeds a limit causes a ProtocolError.
type Limits struct {
	Args            int  // arguments of one command, its name included
	Bulk            int  // bytes of one argument
	Inline          int  // bytes of one line without its LF: an inline request, or a count or length
	Query           int  // bytes of one command on the wire
	Unauthenticated bool // the client is not authenticated; the errors for counts and lengths mention this
}

const (
	firstBuffer = 2 << 10  // enough for a connection with few requests
	fullBuffer  = 16 << 10 // a deep pipeline is read in pieces of this size
	fullArgs    = 256      // memory for more arguments than this is freed after the command
)

// Reader splits the bytes of one connection into commands.
type Reader struct {
	limits Limits
	buf    []byte // buf[start:end] has been read but not yet returned
	start  int
	end    int

	// The state of the command that begins at buf[start]. Offsets are relative to start, so that they stay valid when
	// the bytes are moved within the buffer or to another one.
	parsed  int    // bytes that have been parsed
	scanned int    // bytes after the parsed ones that are known to contain no line end
	missing int    // number of arguments that are not complete; 0 between commands
	length  int    // bytes of the next argument; -1 until its length has been parsed
	spans   []span // positions of the complete arguments

	args [][]byte // the result of Next
	err  error    // the error of Next, which is final
}

type span struct{ from, to int }

const (
	spanSize = int(unsafe.Sizeof(span{}))
	argSize  = int(unsafe.Sizeof([]byte{}))
)

// NewReader returns a Reader that accepts requests within l.
func NewReader(l Limits) *Reader {
	return &Reader{limits: l, length: -1}
}

// SetLimits changes the limits for bytes that are not parsed yet. If it is called after Next has returned a command,
// the new limits apply from the next command on. If a command is incomplete at the time of the call, its parsed part
// was checked against the old limits, and its rest is checked against the new ones.
func (r *Reader) SetLimits(l Limits) { r.limits = l }

// Pending returns the number of bytes that have been read but not yet returned. After Next has
// returned nil, they are the beginning of an incomplete command.
func (r *Reader) Pending() int { return r.end - r.start }

// Size returns the bytes of memory that the Reader holds for its buffer and arguments.
// If every Fill is followed by calls of Next until Next returns nil, the buffer takes at most
// twice Limits.Query, or 16 KiB if that is more.
func (r *Reader) Size() int {
	return len(r.buf) + cap(r.spans)*spanSize + cap(r.args)*argSize
}

// Growth returns the size in bytes of the larger buffer that the next Fill will allocate, or 0 if
// the next Fill will not allocate a buffer.
func (r *Reader) Growth() int {
	if size := r.wantedSize(); size > len(r.buf) {
		return size
	}
	return 0
}

// Fill reads once from src and returns the result of that read. It invalidates the arguments
// that Next has returned before.
func (r *Reader) Fill(src io.Reader) (int, error) {
	r.makeRoom()
	n, err := src.Read(r.buf[r.end:])
	r.end += n
	return n, err
}

// makeRoom moves an incomplete command to the front of the buffer and ensures that there is room after it. It drops
// references to earlier arguments, so that their memory can be freed while the connection is idle.
func (r *Reader) makeRoom() {
	if r.missing == 0 && cap(r.args) > fullArgs {
		r.args, r.spans = nil, nil
	}
	size, pending := r.wantedSize(), r.buf[r.start:r.end]
	if size != len(r.buf) {
		clear(r.args[:cap(r.args)])
		r.buf = make([]byte, size)
		copy(r.buf, pending)
	} else if r.start > 0 {
		copy(r.buf, pending)
	}
	r.start, r.end = 0, len(pending)
}

// wantedSize returns the size of the buffer for the next read. The size depends only on the bytes received, never on a
// length that the client has announced. If the last read filled the buffer, more bytes are likely to follow, so the
// buffer grows. Beyond fullBuffer, the buffer grows only for a command that needs the space, and shrinks after that
// command.
func (r *Reader) wantedSize() int {
	size, pending, wasFull := len(r.buf), r.end-r.start, r.end == len(r.buf)
	switch {
	case wasFull && size < fullBuffer:
		return max(firstBuffer, min(4*size, fullBuffer))
	case pending == size:
		return 2 * size
	case pending < fullBuffer:
		return min(size, fullBuffer)
	}
	return size
}

// Next returns the next complete command, or nil if more bytes must be read. A command has at least one argument; the
// first is its name. The arguments are valid until the next Fill. The slice that holds them is valid until the next
// call of Next.
//
// An error is a ProtocolError. It is final: every later call returns it again.
func (r *Reader) Next() ([][]byte, error) {
	for r.err == nil && r.start < r.end {
		complete, err := r.command()
		if !complete {
			r.err = err
			break
		}
		if len(r.args) > 0 {
			return r.args, nil
		}
	}
	return nil, r.err
}

// command resumes the current command, or begins the next. The buffer must contain at least one unread byte.
func (r *Reader) command() (complete bool, err error) {
	if r.missing == 0 && r.buf[r.start] != '*' {
		return r.inline()
	}
	return r.array()
}

// inline parses a command that is one line of words. A CR before the LF is white space.
func (r *Reader) inline() (complete bool, err error) {
	line, ok, err := r.line(ErrLongInline)
	if !ok {
		return false, err
	}
	for _, c := range line {
		if c < ' ' && !isSpace(c) {
			return false, ErrControlByte
		}
	}
	if r.args, err = splitLine(r.args[:0], line, r.limits.Args); err != nil {
		return false, err
	}
	r.finish()
	return true, nil
}

// array parses a command that is an array of bulk strings, or resumes parsing it. An array with a count of 0 or less is
// an empty command.
func (r *Reader) array() (complete bool, err error) {
	if r.missing == 0 {
		if r.shortArray() {
			return true, nil
		}
		n, ok, err := r.head(ErrLongCount, ErrCount)
		if !ok {
			return false, err
		}
		if n > r.limits.Args {
			return false, r.tooMuch(ErrCount, ErrUnauthenticatedCount)
		}
		r.missing = max(n, 0)
		r.spans = r.spans[:0]
	}
	for ; r.missing > 0; r.missing-- {
		if ok, err := r.argument(); !ok {
			return false, err
		}
	}
	r.args = r.args[:0]
	for _, s := range r.spans {
		r.args = append(r.args, r.buf[r.start+s.from:r.start+s.to:r.start+s.to])
	}
	r.finish()
	return true, nil
}

// shortArray parses a command in the most frequent form: an array that is completely buffered, with at most 99 arguments
// of at most 99 bytes, within all limits. In any other form, the state of the Reader is unchanged, and the result is
// false.
func (r *Reader) shortArray() bool {
	buf := r.buf[r.start:r.end]
	count, at := shortHead(buf, 0)
	if at == 0 || count > r.limits.Args || r.limits.Inline < maxShortHead {
		return false
	}
	args := r.args[:0]
	for range count {
		n, from := shortHead(buf, at)
		to := from + n
		if from == 0 || buf[at] != '$' || n > r.limits.Bulk || to+2 > len(buf) || binary.LittleEndian.Uint16(buf[to:]) != crlf {
			return false
		}
		args = append(args, buf[from:to:to])
		at = to + 2
	}
	if at > r.limits.Query {
		return false
	}
	r.args = args
	r.start += at
	r.scanned = 0
	return true
}

// argument parses one bulk string.
func (r *Reader) argument() (complete bool, err error) {
	if r.length < 0 {
		if r.start+r.parsed == r.end {
			return false, nil
		}
		if c := r.buf[r.start+r.parsed]; c != '$' {
			return false, errNoDollar(c)
		}
		n, ok, err := r.head(ErrLongLength, ErrLength)
		if !ok {
			return false, err
		}
		if err := r.checkLength(n); err != nil {
			return false, err
		}
		r.length = n
	}
	from, to := r.parsed, r.parsed+r.length
	if r.start+to+2 > r.end {
		return false, nil
	}
	if r.buf[r.start+to] != '\r' || r.buf[r.start+to+1] != '\n' {
		return false, ErrTrailer
	}
	r.spans = append(r.spans, span{from, to})
	r.parsed, r.length = to+2, -1
	return true, nil
}

func (r *Reader) checkLength(n int) error {
	switch {
	case n < 0:
		return ErrLength
	case n > r.limits.Bulk:
		return r.tooMuch(ErrLength, ErrUnauthenticatedLength)
	case n > r.limits.Query-r.parsed-2:
		return ErrQueryTooLong
	}
	return nil
}

func (r *Reader) tooMuch(err, unauthenticated ProtocolError) error {
	if r.limits.Unauthenticated {
		return unauthenticated
	}
	return err
}

// head parses the head at the parse position, and returns its number. A head is a type byte, a number, and CR LF.
func (r *Reader) head(tooLong, malformed ProtocolError) (n int, ok bool, err error) {
	n, size := shortHead(r.buf[r.start+r.parsed:r.end], 0)
	if limit, _ := r.lineLimit(tooLong); size > 0 && size-1 <= limit {
		r.advance(size)
		return n, true, nil
	}
	line, ok, err := r.line(tooLong)
	if !ok {
		return 0, false, err
	}
	last := len(line) - 1
	if line[last] != '\r' { // a line of only the type byte is also rejected, so last > 0 below
		return 0, false, malformed
	}
	n64, ok := ParseInt(line[1:last])
	if !ok || n64 != int64(int(n64)) {
		return 0, false, malformed
	}
	return int(n64), true, nil
}

// maxShortHead is the size of the longest head that shortHead parses.
const maxShortHead = len("$10\r\n")

// crlf is a line end as a little-endian integer.
const crlf = '\r' | '\n'<<8

// shortHead parses the head at b[at:] if its number has one or two digits, the most frequent form. It returns the number
// and the offset of the byte after the LF. The offset is 0 if the head has another form, is incomplete or ends b.
func shortHead(b []byte, at int) (n, end int) {
	if at+maxShortHead > len(b) {
		return 0, 0
	}
	four := binary.LittleEndian.Uint32(b[at+1:])
	first, second := four&0xff-'0', four>>8&0xff-'0'
	switch {
	case four>>8&0xffff == crlf && first <= 9:
		return int(first), at + 4
	case four>>16 == crlf && first-1 <= 8 && second <= 9:
		return int(first*10 + second), at + 5
	}
	return 0, 0
}

// line parses the line at the parse position and returns it without its LF.
func (r *Reader) line(tooLong ProtocolError) (line []byte, ok bool, err error) {
	text := r.buf[r.start+r.parsed : r.end]
	size := bytes.IndexByte(text[r.scanned:], '\n')
	if size < 0 {
		r.scanned = len(text)
		size = len(text)
	} else {
		size += r.scanned
		ok = true
	}
	if limit, refusal := r.lineLimit(tooLong); size > limit {
		return nil, false, refusal
	}
	if !ok {
		return nil, false, nil
	}
	r.advance(size + 1)
	return text[:size], true, nil
}

// lineLimit returns the maximum distance of the LF from the parse position, and the error for a line that exceeds it.
// Only the lower of the limits Query and Inline applies: a line that arrives in pieces exceeds the lower limit first,
// and the error must not depend on the pieces.
func (r *Reader) lineLimit(tooLong ProtocolError) (limit int, refusal ProtocolError) {
	if left := r.limits.Query - r.parsed - 1; left < r.limits.Inline {
		return left, ErrQueryTooLong
	}
	return r.limits.Inline, tooLong
}

// advance moves the parse position to the end of a line of n bytes.
func (r *Reader) advance(n int) {
	r.parsed += n
	r.scanned = 0
}

// finish sets the start of the next command to the end of the parsed one.
func (r *Reader) finish() {
	r.start += r.parsed
	r.parsed = 0
}
