package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// reply is a RESP2 reply: an integer, a string or an array.
type reply struct {
	kind byte // one of + - : $ *
	n    int64
	text string
	list []reply
}

// The bounds of a reply.
const (
	maxText  = 8 << 20
	maxList  = 1 << 16
	maxDepth = 8
)

var errReply = errors.New("invalid reply")

// readReply reads one reply.
func readReply(r *bufio.Reader) (reply, error) { return readNested(r, 0) }

func readNested(r *bufio.Reader, depth int) (rep reply, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return rep, err
	}
	text, ended := strings.CutSuffix(string(line), "\r\n")
	if !ended || text == "" || depth > maxDepth {
		return rep, fmt.Errorf("%w: %q", errReply, line)
	}
	rep.kind, text = text[0], text[1:]
	switch rep.kind {
	case '+', '-':
		rep.text = text
		return rep, nil
	case ':', '$', '*':
		rep.n, err = strconv.ParseInt(text, 10, 64)
	default:
		err = errReply
	}
	if err != nil {
		return rep, fmt.Errorf("%w: %q", errReply, line)
	}
	switch rep.kind {
	case '$':
		err = rep.readText(r)
	case '*':
		err = rep.readList(r, depth)
	}
	return rep, err
}

// readText reads a string of rep.n bytes. The length -1 is the null string.
func (rep *reply) readText(r *bufio.Reader) error {
	if rep.n < -1 || rep.n > maxText {
		return fmt.Errorf("%w: string of %d bytes", errReply, rep.n)
	}
	if rep.n < 0 {
		return nil
	}
	text := make([]byte, rep.n+2)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	if string(text[rep.n:]) != "\r\n" {
		return fmt.Errorf("%w: string without CRLF", errReply)
	}
	rep.text = string(text[:rep.n])
	return nil
}

// readList reads an array of rep.n replies. The length -1 is the null array.
func (rep *reply) readList(r *bufio.Reader, depth int) error {
	if rep.n < -1 || rep.n > maxList {
		return fmt.Errorf("%w: array of %d elements", errReply, rep.n)
	}
	for range rep.n {
		member, err := readNested(r, depth+1)
		if err != nil {
			return err
		}
		rep.list = append(rep.list, member)
	}
	return nil
}

// integers returns the leading integers of an array.
func (rep *reply) integers() (n []int64) {
	for _, member := range rep.list {
		if member.kind != ':' {
			break
		}
		n = append(n, member.n)
	}
	return n
}

// fields parses lines of the form "name:value", as in the reply of INFO.
func fields(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			m[name] = value
		}
	}
	return m
}
