package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// patience is the timeout of a dial and of a request.
const patience = time.Second

// conn is a connection to a node.
type conn struct {
	net.Conn
	in  *bufio.Reader
	out []byte
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, in: bufio.NewReader(c)}, nil
}

// send sends commands in one write. Their replies must be read with receive, one by one, within the
// given time.
func (c *conn) send(within time.Duration, commands ...[]string) error {
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	c.out = c.out[:0]
	for _, words := range commands {
		c.out = fmt.Appendf(c.out, "*%d\r\n", len(words))
		for _, w := range words {
			c.out = fmt.Appendf(c.out, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	_, err := c.Write(c.out)
	return err
}

func (c *conn) receive() (reply, error) { return readReply(c.in) }

// ask sends a command and returns the reply, which may be an error reply. If ask returns an error,
// the outcome of the command is unknown and the connection is unusable.
func (c *conn) ask(within time.Duration, words ...string) (reply, error) {
	if err := c.send(within, words); err != nil {
		return reply{}, err
	}
	return c.receive()
}

// askOnce sends a command on its own connection. An error reply is returned as an error.
func askOnce(addr string, within time.Duration, words ...string) (reply, error) {
	c, err := dial(addr)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = c.Close() }()
	r, err := c.ask(within, words...)
	if err == nil && r.kind == '-' {
		err = errors.New(r.text)
	}
	if err != nil {
		err = fmt.Errorf("%s on %s: %w", strings.Join(words, " "), addr, err)
	}
	return r, err
}

// fate is the effect of a request, as far as it can be determined from the reply.
type fate int

const (
	decided fate = iota
	refused      // certainly not charged
	unknown      // possibly charged
	wrong        // an invalid reply
)

// refusals are the first words of errors that guarantee that nothing was charged.
var refusals = map[string]bool{"LOADING": true, "CLUSTERDOWN": true, "TRYAGAIN": true, "BUSY": true, "OOM": true, "MASTERDOWN": true}

// fateOf returns the fate of a reply, and the first word of its error.
func fateOf(r *reply, err error) (f fate, word string) {
	if err != nil {
		return unknown, "connection"
	}
	if r.kind != '-' {
		return decided, ""
	}
	word, _, _ = strings.Cut(r.text, " ")
	switch {
	case refusals[word]:
		return refused, word
	case word == "UNCERTAIN":
		return unknown, word
	}
	return wrong, word
}
