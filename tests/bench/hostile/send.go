package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"time"
)

// attack is one malformed or hostile request.
type attack struct {
	name string
	grpc bool   // sent to the gRPC server
	text string // sent in one write
}

const (
	patience  = 300 * time.Millisecond // for the reaction to an attack
	dripEvery = 100 * time.Millisecond // between two bytes of a slow connection
)

func (a attack) dial(s settings) (net.Conn, error) {
	addr := s.http
	if a.grpc {
		addr = s.grpc
	}
	return net.DialTimeout("tcp", addr, 5*time.Second)
}

// send sends the attack over a new connection, and returns the kind of reaction: the class of the HTTP status, "h2" if
// the server has answered with frames of HTTP/2, "closed" or "silent". A server that does not accept connections is
// "unreachable".
func (a attack) send(s settings) string {
	c, err := a.dial(s)
	if err != nil {
		return "unreachable"
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = c.Write([]byte(a.text)) // the server may close the connection before it has read everything
	}()
	reaction := react(c)
	_ = c.Close()
	<-written
	return reaction
}

// react reads the beginning of a reply.
func react(c net.Conn) string {
	reply := make([]byte, 512)
	n, err := c.Read(reply)
	switch reply = reply[:n]; {
	case len(reply) >= 12 && bytes.HasPrefix(reply, []byte("HTTP/1.1 ")):
		return string(reply[9]) + "xx"
	case n > 0:
		return "h2"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "silent"
	}
	return "closed"
}

// holdSlowly sends an attack byte by byte until the end, again and again if the server closes the connection.
func holdSlowly(s settings, a attack, end time.Time, t *tally) {
	for time.Now().Before(end) {
		c, err := a.dial(s)
		if err != nil {
			t.add("unreachable")
			return
		}
		_ = c.SetDeadline(end)
		drip(c, a.text, end)
		_ = c.Close()
		t.add("slow")
	}
}

// drip writes the first half of a text in one write, and the rest byte by byte.
func drip(c net.Conn, text string, end time.Time) {
	ticker := time.NewTicker(dripEvery)
	defer ticker.Stop()
	if _, err := c.Write([]byte(text[:len(text)/2])); err != nil {
		return
	}
	for i := len(text) / 2; time.Now().Before(end); i++ {
		if _, err := c.Write([]byte{text[i%len(text)]}); err != nil {
			return
		}
		<-ticker.C
	}
}
