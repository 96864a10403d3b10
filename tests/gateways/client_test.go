package gatewaystests

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// client sends requests from a loopback address of its own, byte for byte as they are given.
type client struct {
	address string
	gateway string // host and port
}

// reply is the response to a request.
type reply struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

var clients atomic.Int64

// newClient returns a client with an address that no other client has.
func newClient(gateway string) *client {
	n := clients.Add(1)
	return &client{address: fmt.Sprintf("127.77.%d.%d", n/250, 1+n%250), gateway: gateway}
}

// get sends GET requests.
func (c *client) get(t *testing.T, target string, header ...string) reply {
	t.Helper()
	return c.send(t, http.MethodGet, target, "", header...)
}

// send sends a request with header lines, on a connection of its own.
func (c *client) send(t *testing.T, method, target, body string, header ...string) reply {
	t.Helper()
	r, err := c.try(method, target, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	return r
}

func (c *client) try(method, target, body string, header ...string) (reply, error) {
	begin := time.Now()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.address)}, Timeout: patience}
	conn, err := dialer.Dial("tcp", c.gateway)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = conn.Close() }() // the response has been read
	if err := conn.SetDeadline(begin.Add(patience)); err != nil {
		return reply{}, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n", method, target)
	if body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	for _, line := range header {
		fmt.Fprintf(&b, "%s\r\n", line)
	}
	fmt.Fprintf(&b, "\r\n%s", body)
	if _, err := conn.Write(b.Bytes()); err != nil {
		return reply{}, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return reply{}, err
	}
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text), time.Since(begin)}, err
}
