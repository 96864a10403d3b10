package peerlink

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

// pending is a connection that is no stream yet.
type pending struct {
	net.Conn
	host string // whence it comes
}

// accept takes in connections until the Link is closed. When that fails, as it does when
// the process is out of descriptors, it waits, longer each time.
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
		l.notices.warn("accept", time.Minute, "cannot accept connections of nodes", "error", err, "retry in", backoff)
		if !l.pause(backoff) {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// pause waits, and reports whether the Link goes on.
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

// admit begins to greet who has connected.
func (l *Link) admit(raw net.Conn) {
	host, _, _ := net.SplitHostPort(raw.RemoteAddr().String())
	p := &pending{raw, host}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		_ = raw.Close() // nobody is there to tell
		return
	}
	var out *pending
	if len(l.pending) >= l.cfg.MaxHandshakes {
		out = l.crowdingLocked()
	}
	l.pending = append(l.pending, p)
	l.mu.Unlock()
	if out != nil {
		l.notices.warn("crowded", time.Minute, "too many connections that do not finish their handshake: dropped the oldest", "from", out.host)
		_ = out.Close() // that is all it needs to know
	}
	l.tasks.Go(func() { l.greet(p) })
}

// crowdingLocked takes out the connection that makes room for another: the oldest from the
// address that has most. To keep others out an attacker would have to come from many.
func (l *Link) crowdingLocked() *pending {
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

// settle ends the time that a connection is pending, and reports whether it was until now.
func (l *Link) settle(p *pending) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.pending, p)
	if i < 0 {
		return false
	}
	l.pending = slices.Delete(l.pending, i, i+1)
	return true
}

// greet makes a stream of a connection and hands it out, or closes it.
func (l *Link) greet(p *pending) {
	c, err := l.receive(p)
	pended := l.settle(p)
	if err == nil {
		err = p.SetDeadline(time.Time{})
	}
	if err != nil {
		if c != nil {
			c.forget.Do(func() { l.remove(c) })
		}
		_ = p.Close() // nothing is lost
		if pended && l.ctx.Err() == nil {
			l.notices.warn(kindOf(err), time.Minute, "refused a connection", "from", p.RemoteAddr(), "error", err)
		}
		return
	}
	l.streams[c.purpose].hand(c)
}

// kindOf returns for which errors one line in the log does.
func kindOf(err error) string {
	if c, ok := codeOf(err); ok {
		return reasons[c].Error()
	}
	return "handshake"
}

// receive makes a stream of a connection within the handshake timeout. A stream that comes
// with an error has been taken in.
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
	c.version = max(h.version, oldVersion) // the answer is in the version of the peer, or in one that all can read
	if err == nil {
		err = l.judge(h, &state)
	}
	if err == nil {
		c.peer, c.purpose, c.boot = h.node, h.purpose, h.boot
		err = l.barred(c) // before Recheck can close it, which gives the peer no reason
	}
	if err == nil {
		if err = l.add(c); err == nil {
			return c, l.welcome(c)
		}
	}
	l.reply(c, err)
	return nil, err
}

// judge returns why a hello is turned down.
func (l *Link) judge(h hello, state *tls.ConnectionState) error {
	switch {
	case h.cluster != l.cfg.Cluster:
		return fmt.Errorf("%w: it says %s", ErrOtherCluster, h.cluster)
	case l.papers != nil && l.cfg.checkNames(state.PeerCertificates[0], h.node) != nil:
		return fmt.Errorf("%w: it is for %.200q, not for node %s", ErrCertificate, state.PeerCertificates[0].DNSNames, h.node)
	case h.meant != "" && h.meant != l.cfg.Node:
		return fmt.Errorf("%w: node %s wants node %s", ErrOtherNode, h.node, h.meant)
	case l.streams[h.purpose] == nil || l.streams[h.purpose].isClosed():
		return fmt.Errorf("%w: %s for node %s", ErrNotServed, h.purpose, h.node)
	}
	return l.compare(h.node, h.purpose, h.standing)
}

// welcome tells the peer that it has its stream, if it still may: since the stream is
// among those that Recheck closes, it cannot slip through between the two.
func (l *Link) welcome(c *conn) error {
	if err := l.barred(c); err != nil {
		l.reply(c, err)
		return err
	}
	_, err := c.Write(l.answer(codeOK, c).encode())
	return err
}

// reply tells the peer why it is refused, if it has said who it is in any version.
func (l *Link) reply(c *conn, err error) {
	reason, ok := codeOf(err)
	if errors.Is(err, net.ErrClosed) || !ok {
		return
	}
	_, _ = c.Write(l.answer(reason, c).encode()) // the refusal is the error to tell
}

func (l *Link) answer(reason code, c *conn) answer {
	return answer{reason, l.cfg.Cluster, l.cfg.Node, l.standing(c.purpose, c.version)}
}
