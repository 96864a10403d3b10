package decision

import (
	"bytes"
	"errors"

	"github.com/throttledhq/throttled/resp"
)

// errReply means that a reply does not have the documented form.
var errReply = errors.New("malformed reply")

// maxDepth is the maximum nesting of a value that skip skips.
const maxDepth = 8

// reply parses replies in the format of RESP3. After the first error, all methods return zero values, and err is set.
type reply struct {
	rest []byte
	err  error
}

// error returns the text of an error reply without its first byte. ok is false, and nothing is parsed, if the next reply
// is not an error.
func (r *reply) error() (text []byte, ok bool) {
	if r.next() != '-' {
		return nil, false
	}
	_, text = r.line()
	return text, r.err == nil
}

// next returns the kind of the next line, or 0 if there is none.
func (r *reply) next() byte {
	if len(r.rest) == 0 {
		return 0
	}
	return r.rest[0]
}

// line returns the kind and the text of the next line.
func (r *reply) line() (kind byte, text []byte) {
	end := bytes.Index(r.rest, []byte("\r\n"))
	if r.err != nil || end < 1 {
		r.fail()
		return 0, nil
	}
	kind, text = r.rest[0], r.rest[1:end]
	r.rest = r.rest[end+2:]
	return kind, text
}

func (r *reply) fail() {
	if r.err == nil {
		r.err, r.rest = errReply, nil
	}
}

// number returns the integer in a line of the given kind.
func (r *reply) number(want byte) int64 {
	kind, text := r.line()
	n, ok := resp.ParseSigned(text)
	if !ok || kind != want {
		r.fail()
		return 0
	}
	return n
}

func (r *reply) integer() int64 { return r.number(':') }

// size returns the number of elements of an array, a set or a map. Each element has at least three bytes, so a larger
// number is an error.
func (r *reply) size(kind byte) int {
	n := r.number(kind)
	if n < 0 || n > int64(len(r.rest))/3 {
		r.fail()
		return 0
	}
	return int(n)
}

// text returns a bulk string.
func (r *reply) text() []byte {
	n := r.number('$')
	if n < 0 || n > int64(len(r.rest))-2 {
		r.fail()
		return nil
	}
	text := r.rest[:n]
	r.rest = r.rest[n+2:]
	return text
}

// flags returns a set of flags.
func (r *reply) flags() (f Flags) {
	for range r.size('~') {
		f |= flagOf(r.text())
	}
	return f
}

// attribute returns the flags in the attributes of a reply.
func (r *reply) attribute() (f Flags) {
	for range r.size('|') {
		if string(r.text()) == "flags" {
			f = r.flags()
		} else {
			r.skip()
		}
	}
	return f
}

// skip skips a value of any type.
func (r *reply) skip() { r.skipNested(maxDepth) }

func (r *reply) skipNested(depth int) {
	if len(r.rest) == 0 || depth == 0 {
		r.fail()
		return
	}
	switch kind := r.rest[0]; kind {
	case '$', '=':
		r.rest[0] = '$'
		r.text()
	case '*', '~', '%', '>':
		n := r.size(kind)
		if kind == '%' {
			n *= 2
		}
		for range n {
			r.skipNested(depth - 1)
		}
	default:
		r.line()
	}
}
