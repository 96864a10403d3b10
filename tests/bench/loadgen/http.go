package loadgen

import (
	"bytes"
	"fmt"
	"strconv"
)

// HTTP is a Protocol for HTTP/1.1 with persistent connections, one request at a time. Status 200 means admitted, 429 and
// 403 mean refused.
type HTTP struct{ request Template }

// NewHTTP returns the protocol of a connection that repeats one request.
func NewHTTP(request Template) *HTTP { return &HTTP{request} }

// Open appends nothing.
func (*HTTP) Open(out []byte) []byte { return out }

// Append appends a request. Its number is always 0.
func (h *HTTP) Append(out []byte, key uint64) ([]byte, uint32) {
	return h.request.append(out, key), 0
}

var headEnd = []byte("\r\n\r\n")

// Parse parses status lines and Content-Length, and skips bodies. A reply without Content-Length is an error.
func (*HTTP) Parse(in, out []byte, replies []Reply) (parsed int, _ []byte, _ []Reply, err error) {
	for {
		reply, n, err := parseHTTP(in[parsed:])
		if n == 0 || err != nil {
			return parsed, out, replies, err
		}
		parsed += n
		replies = append(replies, reply)
	}
}

// parseHTTP parses one reply. It returns the length of the reply, or 0 if the reply is incomplete.
func parseHTTP(in []byte) (Reply, int, error) {
	end := bytes.Index(in, headEnd)
	if end < 0 {
		return Reply{}, 0, nil
	}
	head, body := in[:end+2], in[end+len(headEnd):]
	length, err := contentLength(head)
	if err != nil || len(body) < length {
		return Reply{}, 0, err
	}
	reply, err := outcomeOf(head, body[:length])
	return reply, end + len(headEnd) + length, err
}

// outcomeOf returns the outcome that the status code of a reply means.
func outcomeOf(head, body []byte) (Reply, error) {
	if len(head) < len("HTTP/1.1 200") || string(head[:9]) != "HTTP/1.1 " {
		return Reply{}, fmt.Errorf("%w: status line %q", errReply, head)
	}
	switch string(head[9:12]) {
	case "200":
		return Reply{Outcome: Admitted}, nil
	case "429", "403":
		return Reply{Outcome: Refused}, nil
	}
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	return Reply{Outcome: Failed, Text: fmt.Sprintf("%s: %.300s", line, body)}, nil
}

// contentLength returns the value of Content-Length in a head whose lines all end with \r\n.
func contentLength(head []byte) (int, error) {
	const name = "content-length:"
	for len(head) > 0 {
		end := bytes.IndexByte(head, '\n')
		line := head[:end]
		head = head[end+1:]
		// The comparison of two letters excludes most other fields at a low cost.
		if len(line) > len(name) && line[0]|0x20 == 'c' && line[8]|0x20 == 'l' && bytes.EqualFold(line[:len(name)], []byte(name)) {
			n, err := strconv.Atoi(string(bytes.TrimSpace(line[len(name):])))
			if err != nil || n < 0 {
				return 0, fmt.Errorf("%w: %q", errReply, line)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: no Content-Length", errReply)
}
