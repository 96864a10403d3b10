package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// prober is a connection on which the upstream answers probes. A probe reads a key that does not exist: a node of a
// cluster asks the leader, and no limit is charged.
type prober struct {
	conn    net.Conn
	addr    string
	replies chan error // results of probes, in order; closed when the connection has failed
}

var probeCommand = encode("EXISTS", "throttled:sidecar")

var errClosed = errors.New("the connection was closed")

// openProber connects to an address, and returns after a first probe was answered. It fails when ctx is done.
func openProber(ctx context.Context, c *Credentials, addr string) (*prober, error) {
	conn, err := c.connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	p := &prober{conn: conn, addr: addr, replies: make(chan error, 1)}
	go p.receive()
	if err := p.probe(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// receive reads the replies to probes until the connection fails, so that a closed connection is detected at once.
func (p *prober) receive() {
	defer close(p.replies)
	for {
		line, err := readLine(p.conn)
		if err != nil {
			return
		}
		p.replies <- checkReply(line)
	}
}

// checkReply returns nil if a reply shows that the upstream can decide requests. A user without the permission for the
// probe gets an error that shows only that the node answers.
func checkReply(line string) error {
	if strings.HasPrefix(line, ":") || strings.HasPrefix(line, "-NOPERM ") {
		return nil
	}
	return fmt.Errorf("the upstream replies %q", strings.TrimPrefix(line, "-"))
}

// probe sends a probe and waits for the reply, until ctx is done.
func (p *prober) probe(ctx context.Context) error {
	_ = p.conn.SetWriteDeadline(time.Now().Add(patience))
	if _, err := p.conn.Write(probeCommand); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return errSilent
	case err, open := <-p.replies:
		if !open {
			return errClosed
		}
		return err
	}
}

var errSilent = errors.New("the upstream does not answer")

// close closes the connection, and waits until its goroutine has exited.
func (p *prober) close() {
	_ = p.conn.Close()
	for range p.replies {
	}
}
