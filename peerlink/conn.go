package peerlink

import (
	"crypto/x509"
	"fmt"
	"net"
	"sync"
)

// conn is a stream.
type conn struct {
	net.Conn          // TLS, unless there is none
	raw      net.Conn // below it
	link     *Link
	peer     string
	purpose  Purpose
	version  byte                // of the greeting
	boot     uint64              // of the peer, if it was accepted
	accepted bool                // else dialled
	chain    []*x509.Certificate // of the peer; nil without certificates
	forget   sync.Once
}

// use is who has streams, and what for. They are counted apart, so that the commands of many
// clients keep no node from Raft.
type use struct {
	peer    string
	purpose Purpose
}

func (c *conn) use() use { return use{c.peer, c.purpose} }

// PeerOf returns the name of the node at the other end of a stream; "" if the connection is
// no stream of a [Link].
func PeerOf(c net.Conn) string {
	if stream, ok := c.(interface{ PeerID() string }); ok {
		return stream.PeerID()
	}
	return ""
}

// PeerID returns the name of the node at the other end.
func (c *conn) PeerID() string { return c.peer }

// Close ends the stream.
func (c *conn) Close() error {
	c.forget.Do(func() { c.link.remove(c) })
	return c.Conn.Close()
}

// abort makes all that is done with the stream fail, without a word to the peer, for
// which it might have to wait. The owner is still to close it.
func (c *conn) abort() { _ = c.raw.Close() }

// add takes a stream in, or returns why not.
func (l *Link) add(c *conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return fmt.Errorf("link of node %s: %w", l.cfg.Node, net.ErrClosed)
	case c.accepted && l.accepted >= l.cfg.MaxConns:
		return fmt.Errorf("%w: %d in all", ErrBusy, l.accepted)
	case c.accepted && l.perPeer[c.use()] >= l.cfg.MaxPerPeer:
		return fmt.Errorf("%w: %d of this node for %s", ErrBusy, l.perPeer[c.use()], c.purpose)
	}
	l.open[c] = struct{}{}
	if c.accepted {
		l.accepted++
		l.perPeer[c.use()]++
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
	if l.perPeer[c.use()]--; l.perPeer[c.use()] == 0 {
		delete(l.perPeer, c.use())
	}
}
