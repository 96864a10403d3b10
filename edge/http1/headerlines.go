package http1

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// maxHeaderLines is the maximum number of header lines of a request. For each of them, net/http uses much more memory than
// the line has bytes, for as long as the client takes to send the others.
const maxHeaderLines = 100

var errHeaderLines = errors.New("too many header lines")

// headerLines counts the lines of a request that precede its body.
type headerLines struct {
	lines int
	text  bool // the present line has text
	begun bool // a line with text was read: net/http ignores empty lines before the request line
	ended bool // the empty line before the body was read
}

// count counts the lines in the next bytes of a connection. It returns false if they are more than a request may have: the
// request line and maxHeaderLines.
func (h *headerLines) count(b []byte) bool {
	for _, c := range b {
		switch {
		case h.ended:
			return true
		case c == '\n':
			h.ended = !h.text && h.begun
			h.begun = h.begun || h.text
			h.text = false
			if h.lines++; h.lines > 1+maxHeaderLines && !h.ended {
				return false
			}
		case c != '\r':
			h.text = true
		}
	}
	return true
}

// limitHeaderLines makes an http.Server count the lines of each request on the connections that are handed over to it. The next
// request begins when the previous one is answered. Bytes of it that net/http has read before are not counted; these are at
// most the size of its buffer.
func limitHeaderLines(next *http.Server) {
	observe := next.ConnState
	next.ConnState = func(c net.Conn, state http.ConnState) {
		if p, ok := c.(*prefixed); ok && state == http.StateIdle {
			p.header, p.headersBy = headerLines{}, time.Time{}
		}
		if observe != nil {
			observe(c, state)
		}
	}
}

const tooManyLines = "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"431 Request Header Fields Too Large: more than 100 header lines"

// refuseLines answers a request with too many header lines. It returns an error for which net/http sends no response.
func (p *prefixed) refuseLines() error {
	_, _ = p.Write([]byte(tooManyLines)) // best effort
	linger(p.Conn)
	return &net.OpError{Op: "read", Net: "tcp", Err: errHeaderLines}
}
