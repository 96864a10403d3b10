package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// Limits (max burst, count, period) that restore no unit during any measurement, so that their
// keys stay in use.
const (
	never = "9 1 86400"
	roomy = "1000 1 86400"
)

const (
	fillConns = 4
	fillDepth = 500
)

// keyspace is a set of keys. Each key is the prefix followed by a number in the range from..to-1.
// The number is padded with zeros, so that the key has size bytes.
type keyspace struct {
	prefix   string
	size     int
	from, to int
}

func (k keyspace) count() int { return k.to - k.from }

func (k keyspace) append(to []byte, n int) []byte {
	to = append(to, k.prefix...)
	var digits [20]byte
	number := strconv.AppendInt(digits[:0], int64(n), 10)
	for range k.size - len(k.prefix) - len(number) {
		to = append(to, '0')
	}
	return append(to, number...)
}

// outcome counts the replies to the commands of a fill.
type outcome struct{ admitted, limited, failed int }

func (o *outcome) add(other outcome) {
	o.admitted += other.admitted
	o.limited += other.limited
	o.failed += other.failed
}

// fill charges each key of a keyspace once, over several concurrent connections. The limit argument
// contains max burst, count, period and optionally quantity, as in CL.THROTTLE.
func fill(addr string, keys keyspace, limit string) (outcome, error) {
	return send(addr, keys.from, keys.to, func(to []byte, n int) []byte {
		to = append(to, "CL.THROTTLE "...)
		to = keys.append(to, n)
		return append(append(to, ' '), limit...)
	})
}

// send sends the limiter commands that appendTo generates for the numbers from..to-1, over several
// concurrent connections.
func send(addr string, from, to int, appendTo func(to []byte, n int) []byte) (outcome, error) {
	var all outcome
	outcomes, errs := make([]outcome, fillConns), make([]error, fillConns)
	var conns sync.WaitGroup
	for i := range fillConns {
		begin, end := from+(to-from)*i/fillConns, from+(to-from)*(i+1)/fillConns
		conns.Go(func() { outcomes[i], errs[i] = sendPart(addr, begin, end, appendTo) })
	}
	conns.Wait()
	for _, o := range outcomes {
		all.add(o)
	}
	return all, errors.Join(errs...)
}

// fillAll is like fill, but returns an error unless every charge is admitted.
func fillAll(addr string, keys keyspace, limit string) error {
	o, err := fill(addr, keys, limit)
	if err == nil && o.admitted != keys.count() {
		err = fmt.Errorf("%d of %d charges admitted, %d error replies", o.admitted, keys.count(), o.failed)
	}
	return err
}

func sendPart(addr string, from, to int, appendTo func(to []byte, n int) []byte) (o outcome, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	replies := bufio.NewReaderSize(c, 64<<10)
	var batch []byte
	for n := from; n < to; {
		asked := min(fillDepth, to-n)
		batch = batch[:0]
		for range asked {
			batch = append(appendTo(batch, n), "\r\n"...)
			n++
		}
		if _, err := c.Write(batch); err != nil {
			return o, err
		}
		for range asked {
			if err := o.read(replies); err != nil {
				return o, err
			}
		}
	}
	return o, nil
}

// read reads the reply to a limiter command.
func (o *outcome) read(r *bufio.Reader) error {
	head, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if head[0] == '-' {
		o.failed++
		return nil
	}
	if !bytes.Equal(head, []byte("*5\r\n")) && !bytes.Equal(head, []byte("*6\r\n")) {
		return fmt.Errorf("unexpected reply %q", head)
	}
	for i := range head[1] - '0' {
		line, err := r.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case i > 0:
		case bytes.Equal(line, []byte(":0\r\n")):
			o.admitted++
		default:
			o.limited++
		}
	}
	return nil
}

// command sends one inline command on its own connection and returns the reply: a line, the text of
// a bulk string, or the elements of an array, one per line.
func command(addr, text string) (string, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, text+"\r\n"); err != nil {
		return "", err
	}
	return readReply(bufio.NewReader(c))
}

// replyError is an error reply.
type replyError string

func (e replyError) Error() string { return string(e) }

// readReply reads a reply: a line, the text of a bulk string, or the elements of an array, one per line. The error of an
// error reply is a replyError.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = line[:len(line)-2]
	switch line[0] {
	case '-':
		return "", replyError(line[1:])
	case '$':
		return readBulk(r, line[1:])
	case '*':
		return readArray(r, line[1:])
	}
	return line[1:], nil
}

func readBulk(r *bufio.Reader, size string) (string, error) {
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 {
		return "", err
	}
	bulk := make([]byte, n+len("\r\n"))
	_, err = io.ReadFull(r, bulk)
	return string(bulk[:n]), err
}

func readArray(r *bufio.Reader, size string) (text string, err error) {
	n, err := strconv.Atoi(size)
	for range n {
		element, err := readReply(r)
		if err != nil {
			return "", err
		}
		text += element + "\n"
	}
	return text, err
}

func countLines(text string) int { return strings.Count(text, "\n") }
