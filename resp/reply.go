package resp

import "github.com/tidwall/redcon"

// Reply collects the bytes of replies. To add an aggregate, add a header with its number of
// elements (pairs for a map), and then each element.
//
// The zero value is an empty RESP2 reply.
type Reply struct {
	buf   []byte
	resp3 bool
}

// SetProtocol sets the version, 2 or 3, for all replies added later.
func (r *Reply) SetProtocol(version int) { r.resp3 = version == 3 }

// Protocol returns the version in use, 2 or 3.
func (r *Reply) Protocol() int {
	if r.resp3 {
		return 3
	}
	return 2
}

// Bytes returns the bytes collected. The result is valid until the next addition.
func (r *Reply) Bytes() []byte { return r.buf }

// Len returns the number of bytes collected.
func (r *Reply) Len() int { return len(r.buf) }

// Size returns the capacity of the buffer in bytes.
func (r *Reply) Size() int { return cap(r.buf) }

// Truncate drops all but the first n bytes. If n is 0 and the buffer has a capacity of more than keep bytes, Truncate
// also frees the buffer.
func (r *Reply) Truncate(n, keep int) {
	r.buf = r.buf[:n]
	if cap(r.buf) > keep && n == 0 {
		r.buf = nil
	}
}

// Raw adds replies that are already encoded.
func (r *Reply) Raw(b []byte) { r.buf = append(r.buf, b...) }

// Status adds a simple string. CR and LF become spaces.
func (r *Reply) Status(text string) { r.buf = redcon.AppendString(r.buf, text) }

// OK adds the status OK.
func (r *Reply) OK() { r.buf = redcon.AppendOK(r.buf) }

// Error adds an error. The text begins with the error code. CR and LF become spaces, so that no
// text can inject another reply.
func (r *Reply) Error(text string) { r.buf = redcon.AppendError(r.buf, text) }

// Int adds an integer.
func (r *Reply) Int(n int64) { r.buf = appendLine(r.buf, ':', n) }

// Bulk adds a bulk string, which may contain any bytes.
func (r *Reply) Bulk(b []byte) { r.buf = redcon.AppendBulk(r.buf, b) }

// Text is like Bulk, for a Go string.
func (r *Reply) Text(s string) { r.buf = redcon.AppendBulkString(r.buf, s) }

// Array adds the header of an array of n elements.
func (r *Reply) Array(n int) { r.buf = appendLine(r.buf, '*', int64(n)) }

// Map adds the header of a map of n pairs. In RESP2, it is the header of an array of 2n elements.
func (r *Reply) Map(n int) {
	if r.resp3 {
		r.head('%', n)
		return
	}
	r.Array(2 * n)
}

// Set adds the header of a set of n elements. In RESP2, it is the header of an array.
func (r *Reply) Set(n int) {
	if r.resp3 {
		r.head('~', n)
		return
	}
	r.Array(n)
}

// Push adds the header of a push message of n elements. A push message is not a reply to a request. In RESP2, it is an
// array.
func (r *Reply) Push(n int) {
	if r.resp3 {
		r.head('>', n)
		return
	}
	r.Array(n)
}

// Null adds the reply for an absent value.
func (r *Reply) Null() {
	if r.resp3 {
		r.buf = append(r.buf, "_\r\n"...)
		return
	}
	r.buf = redcon.AppendNull(r.buf)
}

// NullArray adds the reply for an absent array.
func (r *Reply) NullArray() {
	if r.resp3 {
		r.buf = append(r.buf, "_\r\n"...)
		return
	}
	r.buf = append(r.buf, "*-1\r\n"...)
}

// Double adds a floating-point number, given as text such as "0.5". In RESP2, it is a bulk string.
func (r *Reply) Double(text string) {
	if r.resp3 {
		r.buf = append(append(append(r.buf, ','), text...), "\r\n"...)
		return
	}
	r.Text(text)
}

// Verbatim adds plain text for display. In RESP2, it is a bulk string.
func (r *Reply) Verbatim(text string) {
	if r.resp3 {
		r.head('=', len(text)+len("txt:"))
		r.buf = append(r.buf, "txt:"...)
		r.buf = append(r.buf, text...)
		r.buf = append(r.buf, "\r\n"...)
		return
	}
	r.Text(text)
}

// head adds a type byte, a number and a line end.
func (r *Reply) head(kind byte, n int) {
	at := len(r.buf)
	r.buf = redcon.AppendArray(r.buf, n)
	r.buf[at] = kind
}
