package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

const (
	firstBackoff = 5 * time.Millisecond
	maxBackoff   = time.Second
)

// pending is an accepted connection that is not a stream yet.
type pending struct {
	net.Conn
	host string // the address of the peer, without the port
}

// accept accepts connections until the Link is closed. If Accept fails, for example
// because the process is out of file descriptors, it retries with exponential backoff.
func (l *Link) accept() {
	backoff := firstBackoff
	for {
		raw, err := l.ln.Accept()
		if err == nil {
			backoff = firstBackoff
			l.admit(raw)
			continue
		}
		if l.ctx.Err() != nil {
			return
		}
		l.log.warn("accept", "cannot accept connections from other nodes", "error", err, "retry_in", backoff)
		if !l.pause(backoff) {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// pause waits for d, and reports whether the Link is still open.
func (l *Link) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// admit adds a connection to the pending connections and starts its handshake.
func (l *Link) admit(raw net.Conn) {
	host, _, _ := net.SplitHostPort(raw.RemoteAddr().String())
	p := &pending{raw, host}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		_ = raw.Close() // a failure to close has no effect
		return
	}
	var out *pending
	if len(l.pending) >= l.cfg.MaxHandshakes {
		out = l.takePendingLocked()
	}
	l.pending = append(l.pending, p)
	l.mu.Unlock()
	if out != nil {
		l.log.warn("crowded", "dropped the oldest pending connection of this address: too many have not completed their handshake", "from", out.host)
		_ = out.Close() // closed without a reply, since its handshake is still in progress
	}
	l.tasks.Go(func() { l.serverHandshake(p) })
}

// takePendingLocked removes a pending connection to make room for a new one. It selects
// the oldest connection from the address that has the most pending connections, so an
// attacker would need many addresses to keep other nodes out.
func (l *Link) takePendingLocked() *pending {
	count := map[string]int{}
	most := ""
	for _, p := range l.pending {
		if count[p.host]++; count[p.host] > count[most] {
			most = p.host
		}
	}
	i := slices.IndexFunc(l.pending, func(p *pending) bool { return p.host == most })
	out := l.pending[i]
	l.pending = slices.Delete(l.pending, i, i+1)
	return out
}

// removePending removes a pending connection, and reports whether it was still pending.
func (l *Link) removePending(p *pending) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.pending, p)
	if i < 0 {
		return false
	}
	l.pending = slices.Delete(l.pending, i, i+1)
	return true
}

// serverHandshake performs the handshake of a pending connection. If the handshake succeeds, it
// passes the stream to Accept, otherwise it closes the connection.
func (l *Link) serverHandshake(p *pending) {
	c, err := l.receive(p)
	pended := l.removePending(p)
	if err == nil {
		err = p.SetDeadline(time.Time{})
	}
	if err != nil {
		if c != nil {
			c.removal.Do(func() { l.remove(c) })
		}
		_ = p.Close() // the first error is the one to log
		if pended && l.ctx.Err() == nil {
			l.log.warn(kindOf(err), "refused a connection", "from", p.RemoteAddr(), "error", err)
		}
		return
	}
	l.streams[c.purpose].offer(c)
}

// kindOf returns the kind of an error. The rate of log lines is limited separately for each kind.
func kindOf(err error) string {
	if c, ok := codeOf(err); ok {
		return reasons[c].Error()
	}
	return "handshake"
}

// receive turns a connection into a stream within the handshake timeout. If it returns a stream
// together with an error, it has called add for the stream, and the caller must call remove.
func (l *Link) receive(p *pending) (*conn, error) {
	if err := p.SetDeadline(time.Now().Add(l.cfg.HandshakeTimeout)); err != nil {
		return nil, err
	}
	c := &conn{Conn: p.Conn, raw: p.Conn, link: l, accepted: true}
	var state tls.ConnectionState
	if id := l.identity(); id != nil {
		secure := tls.Server(p.Conn, id.server(&l.cfg))
		if err := secure.HandshakeContext(l.ctx); err != nil {
			return nil, fmt.Errorf("handshake: %w", err)
		}
		c.Conn, state = secure, secure.ConnectionState()
		c.chain = state.PeerCertificates
	}
	h, err := readHello(c.Conn)
	c.version = max(h.version, oldVersion) // the version of the peer if known, otherwise the version that all nodes can read
	if err == nil {
		err = l.checkHello(h, &state)
	}
	if err == nil {
		c.peer, c.purpose, c.boot = h.node, h.purpose, h.boot
		err = l.checkPermitted(c) // before add: Recheck closes added streams without sending the reason
	}
	if err == nil {
		if err = l.add(c); err == nil {
			return c, l.acceptStream(c)
		}
	}
	l.reply(c, err)
	return nil, err
}

// checkHello returns the reason to refuse a hello, or nil.
func (l *Link) checkHello(h hello, state *tls.ConnectionState) error {
	switch {
	case h.cluster != l.cfg.Cluster:
		return fmt.Errorf("%w: the peer belongs to cluster %s", ErrOtherCluster, h.cluster)
	case l.certs != nil && l.cfg.checkNames(state.PeerCertificates[0], h.node) != nil:
		return fmt.Errorf("%w: it is issued for %.200q, not for node %s", ErrCertificate, state.PeerCertificates[0].DNSNames, h.node)
	case h.target != "" && h.target != l.cfg.Node:
		return fmt.Errorf("%w: node %s dialed node %s", ErrOtherNode, h.node, h.target)
	case l.streams[h.purpose] == nil || l.streams[h.purpose].isClosed():
		return fmt.Errorf("%w: purpose %s, node %s", ErrNotServed, h.purpose, h.node)
	}
	return l.checkDataVersion(h.node, h.purpose, h.dataVersion)
}

// acceptStream sends the answer that opens a stream, unless the stream is no longer permitted. add
// was called before, so Recheck closes the stream if its permission changes concurrently.
func (l *Link) acceptStream(c *conn) error {
	if err := l.checkPermitted(c); err != nil {
		l.reply(c, err)
		return err
	}
	_, err := c.Write(l.answer(codeOK, c).encode())
	return err
}

// reply sends the reason for a refusal to the peer. It sends nothing if there is no code for the reason, or
// if the connection is closed.
func (l *Link) reply(c *conn, err error) {
	reason, ok := codeOf(err)
	if errors.Is(err, net.ErrClosed) || !ok {
		return
	}
	_, _ = c.Write(l.answer(reason, c).encode()) // err is reported instead of an error of Write
}

func (l *Link) answer(reason code, c *conn) answer {
	return answer{reason, l.cfg.Cluster, l.cfg.Node, l.dataVersion(c.purpose, c.version)}
}
