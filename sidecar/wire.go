package sidecar

import (
	"errors"
	"io"

	"github.com/throttledhq/throttled/resp"
)

// encode returns a command.
func encode(words ...string) []byte {
	var out resp.Reply
	out.Array(len(words))
	for _, w := range words {
		out.Text(w)
	}
	return out.Bytes()
}

// maxLine is the length of the longest reply to a command of a sidecar, in bytes.
const maxLine = 1024

var errLine = errors.New("the reply is not a line of the Redis protocol")

// readLine reads a reply that consists of one line, without bytes that follow it, and returns it without its end.
func readLine(r io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); len(line) < maxLine; {
		if _, err := io.ReadFull(r, one); err != nil {
			return "", err
		}
		if line = append(line, one[0]); one[0] != '\n' {
			continue
		}
		if len(line) < 3 || line[len(line)-2] != '\r' {
			return "", errLine
		}
		return string(line[:len(line)-2]), nil
	}
	return "", errLine
}
