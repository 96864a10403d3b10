package transport

import (
	"crypto/x509"
	"fmt"
	"net"
	"sync"
)

// conn is a stream.
type conn struct {
	net.Conn          // TLS, unless the Link is insecure
	raw      net.Conn // the connection below TLS
	link     *Link
	peer     string
	purpose  Purpose
	version  byte                // version of the greeting
	boot     uint64              // boot number of the peer; 0 if the stream was dialed
	accepted bool                // false: dialed
	chain    []*x509.Certificate // certificates of the peer; nil if the Link is insecure
	removal  sync.Once
}

// streamKey is a peer and a purpose. Streams are counted separately for each key, so that
// forwarded client commands do not exhaust the streams that a node needs for Raft.
type streamKey struct {
	peer    string
	purpose Purpose
}

func (c *conn) key() streamKey { return streamKey{c.peer, c.purpose} }

// PeerOf returns the name of the node at the other end of a stream; "" if the connection is
// not a stream of a [Link].
func PeerOf(c net.Conn) string {
	if stream, ok := c.(interface{ PeerID() string }); ok {
		return stream.PeerID()
	}
	return ""
}

// PeerID returns the name of the node at the other end.
func (c *conn) PeerID() string { return c.peer }

// Close closes the stream.
func (c *conn) Close() error {
	c.removal.Do(func() { c.link.remove(c) })
	return c.Conn.Close()
}

// abort closes the connection below TLS, which makes all operations on the stream fail. It sends
// no TLS alert to the peer, because sending could block. The owner of the stream must still call Close.
func (c *conn) abort() { _ = c.raw.Close() }

// add registers an open stream, or returns the reason to refuse it.
func (l *Link) add(c *conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return fmt.Errorf("link of node %s: %w", l.cfg.Node, net.ErrClosed)
	case c.accepted && l.accepted >= l.cfg.MaxConns:
		return fmt.Errorf("%w: the peers have %d open streams", ErrBusy, l.accepted)
	case c.accepted && l.perPeer[c.key()] >= l.cfg.MaxPerPeer:
		return fmt.Errorf("%w: node %s has %d open streams of purpose %s", ErrBusy, c.peer, l.perPeer[c.key()], c.purpose)
	}
	l.open[c] = struct{}{}
	if c.accepted {
		l.accepted++
		l.perPeer[c.key()]++
	}
	return nil
}

func (l *Link) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
	if !c.accepted {
		return
	}
	l.accepted--
	if l.perPeer[c.key()]--; l.perPeer[c.key()] == 0 {
		delete(l.perPeer, c.key())
	}
}
