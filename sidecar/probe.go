package sidecar

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// prober is a connection on which the upstream answers probes. A probe reads a key that does not exist: a follower
// forwards it to the leader, and no limit is charged. A probe also requests the role of the node, unless ROLE was refused before:
// the upstream records commands that a user has no permission for.
type prober struct {
	conn    net.Conn
	addr    string
	role                     // in the last answer
	refused bool             // the node has refused to return its role
	answers chan probeAnswer // answers to probes, in order; closed when the connection has failed
	failure error            // the reason; valid when answers is closed
}

// probeAnswer is the answer to a probe.
type probeAnswer struct {
	role
	refused bool  // the node has refused to return its role
	err     error // the node cannot decide requests
}

var roleCommand, existsCommand = encode("ROLE"), encode("EXISTS", "throttled:sidecar")

// Errors of a connection that the upstream has closed.
var (
	errClosed     = errors.New("the connection was closed")
	errNoGreeting = errors.New("the connection was closed without a reply: the port must be one for Redis clients, and upstream-tls must be set if it requires TLS")
)

// closedBy returns the error for a connection that has failed with err.
func closedBy(err, closed error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) {
		return closed
	}
	return err
}

// openProber connects to an address, and returns after a first probe was answered. It fails when ctx is done.
func openProber(ctx context.Context, c *Credentials, addr string) (*prober, error) {
	conn, err := c.connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	p := &prober{conn: conn, addr: addr, answers: make(chan probeAnswer, 1)}
	go p.receive()
	if err := p.probe(ctx); err != nil {
		p.close()
		if err == errClosed {
			err = errNoGreeting
		}
		return nil, err
	}
	return p, nil
}

// receive reads the answers to probes until the connection fails, so that a closed connection is detected immediately.
func (p *prober) receive() {
	defer close(p.answers)
	p.failure = p.receiveAnswers()
}

// receiveAnswers sends answers to p.answers, and returns the reason why the connection has failed. A server that refuses a
// connection, for example in protected mode, sends an error and closes it: this error is the reason.
func (p *prober) receiveAnswers() error {
	var answer probeAnswer
	var refusal error // the error reply to ROLE
	for in := bufio.NewReader(p.conn); ; {
		if !answer.refused {
			reply, err := readReply(in, maxDepth)
			if err != nil {
				return closedBy(err, errClosed)
			}
			refusal = checkReply(reply)
			answer.refused = refusesRole(reply)
			answer.role = parseRole(reply)
		}
		exists, err := readReply(in, maxDepth)
		if err != nil {
			return closedBy(err, cmp.Or(refusal, errClosed))
		}
		answer.err = checkReply(exists)
		if answer.sentinel != "" {
			answer.err = &sentinelError{answer.sentinel}
		}
		p.answers <- answer
	}
}

// refusesRole reports whether a node will refuse ROLE on this connection again: the user has no permission for it, or the
// node does not have the command. Other errors are temporary, for example while the node loads its data.
func refusesRole(reply any) bool {
	text, _ := reply.(replyError)
	return strings.HasPrefix(string(text), "NOPERM ") || strings.HasPrefix(string(text), "ERR unknown command")
}

// checkReply returns nil if a reply shows that the upstream can decide requests. A user without the permission for the
// probe gets an error that shows only that the node answers.
func checkReply(reply any) error {
	text, failed := reply.(replyError)
	switch {
	case !failed || strings.HasPrefix(string(text), "NOPERM "):
		return nil
	case strings.HasPrefix(string(text), "MOVED "):
		return fmt.Errorf("the upstream replies %q: use the address of port or tls-port, not of cluster-port", string(text))
	}
	return fmt.Errorf("the upstream replies %q", string(text))
}

// probe sends a probe and waits for the answer, until ctx is done.
func (p *prober) probe(ctx context.Context) error {
	_ = p.conn.SetWriteDeadline(time.Now().Add(patience))
	command := existsCommand
	if !p.refused {
		command = append(roleCommand[:len(roleCommand):len(roleCommand)], existsCommand...)
	}
	if _, err := p.conn.Write(command); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return errSilent
	case answer, open := <-p.answers:
		if !open {
			return p.failure
		}
		p.role, p.refused = answer.role, answer.refused
		return answer.err
	}
}

var errSilent = errors.New("the upstream does not answer")

// close closes the connection, and waits until its goroutine has exited.
func (p *prober) close() {
	_ = p.conn.Close()
	for range p.answers {
	}
}
