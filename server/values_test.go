package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// value is a reply of any type. Maps are lists of alternating keys and values.
type value struct {
	kind byte // the type byte
	null bool
	text string // of a string, error or number
	list []value
}

func (v value) String() string {
	if v.list != nil {
		return fmt.Sprintf("%c%v", v.kind, v.list)
	}
	return fmt.Sprintf("%c%q", v.kind, v.text)
}

// int returns the value of an integer, and panics for other types.
func (v value) int() int64 {
	n, err := strconv.ParseInt(v.text, 10, 64)
	if err != nil || v.kind != ':' {
		panic("test: not a number: " + v.String())
	}
	return n
}

// words returns the texts of all elements.
func (v value) words() []string {
	words := make([]string, len(v.list))
	for i, element := range v.list {
		words[i] = element.text
	}
	return words
}

// field returns the value of a key in a map, and reports whether it exists.
func (v value) field(key string) (value, bool) {
	for i := 0; i+1 < len(v.list); i += 2 {
		if v.list[i].text == key {
			return v.list[i+1], true
		}
	}
	return value{}, false
}

// readValue reads one reply. It fails on input that violates the protocol.
func readValue(r *bufio.Reader) (value, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return value{}, err
	}
	head, found := strings.CutSuffix(line, "\r\n")
	if !found || head == "" {
		return value{}, fmt.Errorf("malformed line %q", line)
	}
	v := value{kind: head[0], text: head[1:]}
	switch v.kind {
	case '+', '-', ',':
		return v, nil
	case '_':
		v.null = true
		return v, nil
	}
	n, err := strconv.Atoi(v.text)
	switch {
	case err != nil:
		return v, fmt.Errorf("malformed line %q", line)
	case v.kind == ':':
		return v, nil
	case n == -1:
		return value{kind: v.kind, null: true}, nil
	}
	return readBody(r, v, n)
}

func readBody(r *bufio.Reader, v value, n int) (value, error) {
	switch v.kind {
	case '$', '=':
		body := make([]byte, n+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return v, err
		}
		text, found := bytes.CutSuffix(body, []byte("\r\n"))
		if !found {
			return v, fmt.Errorf("string %q has no end", body)
		}
		v.text = string(text)
		if v.kind == '=' {
			v.text = strings.TrimPrefix(v.text, "txt:")
		}
		return v, nil
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return v, fmt.Errorf("unknown type %q", v.kind)
	}
	v.text, v.list = "", make([]value, n)
	for i := range v.list {
		var err error
		if v.list[i], err = readValue(r); err != nil {
			return v, err
		}
	}
	return v, nil
}
