package sidecar

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// Commands sends commands of the sidecar itself to the upstream, over a few connections that are kept open. It implements
// courier.Conn.
type Commands struct {
	Upstream *Upstream

	mu   sync.Mutex
	idle []*commandConn
	last string // the address used last, which also takes returns while the sidecar stops
}

// commandConn is a connection for commands of the sidecar.
type commandConn struct {
	net.Conn
	in   *bufio.Reader
	addr string
	term uint64 // of the view in which it was opened
}

var errAway = errors.New("no upstream answers")

// Do sends commands in one write, and returns their replies. NOPERM names the user of the sidecar on the upstream. The error is
// not nil unless all replies have arrived before ctx is done. It is a *topology.ConnRefusedError if the upstream has refused the
// connection with a reply.
func (c *Commands) Do(ctx context.Context, commands [][]string) (replies []any, err error) {
	conn, err := c.take(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	replies, err = conn.exchange(commands)
	if refused := conn.refusedBy(replies); refused != nil {
		c.Upstream.Refused(refused)
		replies, err = nil, refused
	}
	c.nameUser(replies)
	if !stop() || err != nil {
		_ = conn.Close()
		return replies, err
	}
	c.put(conn)
	return replies, nil
}

// refusedBy returns an error if the upstream has refused the connection with the first reply, and otherwise nil. An upstream
// without a password can accept a connection before it refuses it.
func (c *commandConn) refusedBy(replies []any) error {
	if len(replies) == 0 {
		return nil
	}
	text, isError := replies[0].(replyError)
	if !isError || !topology.RefusesConn(string(text)) {
		return nil
	}
	return &topology.ConnRefusedError{Node: c.addr, Err: text}
}

// nameUser names the user of the sidecar in the NOPERM errors among the replies.
func (c *Commands) nameUser(replies []any) {
	for i := range replies {
		if text, isError := replies[i].(replyError); isError {
			replies[i] = replyError(topology.NameUpstreamUser(string(text), c.Upstream.User()))
		}
	}
}

// take returns an idle connection to the upstream in use, or a new one.
func (c *Commands) take(ctx context.Context) (*commandConn, error) {
	addr, term := c.address()
	if addr == "" {
		return nil, errAway
	}
	if conn := c.reuse(addr, term); conn != nil {
		return conn, nil
	}
	raw, err := c.Upstream.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	conn := newCommandConn(raw, addr)
	conn.term = term
	return conn, nil
}

func newCommandConn(conn net.Conn, addr string) *commandConn {
	return &commandConn{Conn: conn, in: bufio.NewReader(conn), addr: addr}
}

// address returns the address of the upstream in use, or the last one if there is none, and the term of the view.
func (c *Commands) address() (addr string, term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.Upstream.View()
	c.last = cmp.Or(v.Leader, c.last)
	return c.last, v.Term
}

// reuse returns an idle connection to an address, or nil. It closes connections to other addresses, and those of earlier terms,
// because the upstream did not answer between two terms.
func (c *Commands) reuse(addr string, term uint64) *commandConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.idle) > 0 {
		last := len(c.idle) - 1
		conn := c.idle[last]
		c.idle = c.idle[:last]
		if conn.addr == addr && conn.term == term {
			return conn
		}
		_ = conn.Close()
	}
	return nil
}

func (c *Commands) put(conn *commandConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
}

// Close closes the idle connections.
func (c *Commands) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.idle {
		_ = conn.Close()
	}
	c.idle = nil
}

func (c *commandConn) exchange(commands [][]string) (replies []any, err error) {
	var out []byte
	for _, words := range commands {
		out = append(out, encode(words...)...)
	}
	if _, err := c.Write(out); err != nil {
		return nil, err
	}
	for range commands {
		reply, err := readReply(c.in, maxDepth)
		if err != nil {
			return replies, err
		}
		replies = append(replies, reply)
	}
	return replies, nil
}

// Limits of the replies to commands of a sidecar.
const (
	maxDepth    = 3        // arrays within arrays
	maxElements = 1 << 10  // of an array
	maxBulk     = 64 << 20 // bytes of a string; the text of the rules is the longest
)

// replyError is an error reply.
type replyError string

func (e replyError) Error() string { return string(e) }

var errFormat = errors.New("the upstream sends a malformed reply")

// readReply reads a reply of RESP2: an int64, a string, a replyError, a []any, or nil.
func readReply(in *bufio.Reader, depth int) (any, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, errFormat
	}
	kind, text := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+':
		return text, nil
	case '-':
		return replyError(text), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return nil, errFormat
	case kind == ':':
		return n, nil
	case n == -1:
		return nil, nil
	case kind == '$' && n >= 0 && n <= maxBulk:
		return readBulk(in, int(n))
	case kind == '*' && n >= 0 && n <= maxElements && depth > 0:
		return readArray(in, int(n), depth-1)
	}
	return nil, errFormat
}

func readBulk(in *bufio.Reader, n int) (any, error) {
	var b bytes.Buffer // grows with the bytes that arrive, and not by the announced length
	if _, err := io.CopyN(&b, in, int64(n)+2); err != nil {
		return nil, err
	}
	text, found := strings.CutSuffix(b.String(), "\r\n")
	if !found {
		return nil, errFormat
	}
	return text, nil
}

func readArray(in *bufio.Reader, n, depth int) (any, error) {
	list := make([]any, n)
	for i := range list {
		element, err := readReply(in, depth)
		if err != nil {
			return nil, err
		}
		list[i] = element
	}
	return list, nil
}
