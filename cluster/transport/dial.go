package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/throttledhq/throttled/topology"
)

// Dial opens a stream to a node at an address, host:port. The peer must prove that it is the given node.
// If node is "", the peer may be any node of the cluster, and PeerOf returns its name. Dial fails
// when ctx is done, when Config.HandshakeTimeout expires, or when the Link is closed. Once the
// stream is open, ctx has no effect. Errors wrap ErrRefused or another error of this package,
// net.ErrClosed if the Link is closed, or an error of the network.
func (l *Link) Dial(ctx context.Context, node, addr string, p Purpose) (net.Conn, error) {
	if node != "" {
		if err := topology.CheckName(node); err != nil {
			return nil, fmt.Errorf("dial node %w", err)
		}
	}
	if l.streams[p] == nil {
		return nil, fmt.Errorf("dial for %s: %w", p, ErrNotServed)
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.HandshakeTimeout)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	c, err := l.dial(ctx, node, addr, p, version)
	if l.allowsOldVersion() && (errors.Is(err, ErrVersion) || errors.Is(err, ErrGreeting)) { // the previous version rejects our frame
		c, err = l.dial(ctx, node, addr, p, oldVersion)
	}
	switch {
	case err == nil:
		return c, nil
	case l.ctx.Err() != nil:
		err = net.ErrClosed
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return nil, fmt.Errorf("dial %s for %s at %s: %w", nodeOrAny(node), p, addr, err)
}

func nodeOrAny(node string) string {
	if node == "" {
		return "any node"
	}
	return "node " + node
}

func (l *Link) dial(ctx context.Context, node, addr string, p Purpose, version byte) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: keepAlive, Control: l.control}
	raw, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // unblocks pending operations
	c := &conn{Conn: raw, raw: raw, link: l, purpose: p, version: version}
	if p == Raft { // Raft sets the same timeout for long and short messages, so the deadline of a long one must be extended
		c.Conn = newProgressConn(raw)
	}
	err = l.clientHandshake(ctx, c, node)
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err == nil {
		err = l.add(c)
	}
	if err != nil {
		_ = raw.Close() // the first error is the one to report
		return nil, err
	}
	if err := l.checkPermitted(c); err != nil { // after add: Recheck closes the stream if its permission changes later
		_ = c.Close() // the first error is the one to report
		return nil, err
	}
	return c, nil
}

// clientHandshake performs the handshake on a dialed connection.
func (l *Link) clientHandshake(ctx context.Context, c *conn, node string) error {
	var state tls.ConnectionState
	if id := l.identity(); id != nil {
		secure := tls.Client(c.Conn, id.client(&l.cfg, node))
		if err := secure.HandshakeContext(ctx); err != nil {
			return handshakeError(err)
		}
		c.Conn, state = secure, secure.ConnectionState()
		c.chain = state.PeerCertificates
	}
	_, sendErr := c.Write(hello{c.purpose, l.cfg.Cluster, l.cfg.Node, node, l.dataVersion(c.purpose, c.version)}.encode())
	a, err := readAnswer(c.Conn) // even after sendErr: the peer may have sent the reason before it closed the connection
	if err != nil {
		return handshakeError(errors.Join(err, sendErr))
	}
	if err := l.checkAnswer(a, node, c.purpose, &state); err != nil {
		return err
	}
	c.peer = a.node
	return nil
}

// checkAnswer returns nil if an answer opens the stream. Otherwise it returns the reason why not.
func (l *Link) checkAnswer(a answer, node string, p Purpose, state *tls.ConnectionState) error {
	reason, known := reasons[a.code]
	switch {
	case known && a.node == "": // the answer has an unknown version, and only its code was parsed
		return fmt.Errorf("%w: %w", ErrRefused, reason)
	case a.code == codeOtherRecovery:
		return fmt.Errorf("%w: %w", ErrRefused, &RecoveryError{a.node, l.dataVersion(p, version).recovery, a.recovery})
	case known:
		return fmt.Errorf("%w: %w: the peer is node %s of cluster %s", ErrRefused, reason, a.node, a.cluster)
	case a.code != codeOK:
		return fmt.Errorf("%w: code %d, which is unknown to this version", ErrRefused, a.code)
	case a.cluster != l.cfg.Cluster:
		return fmt.Errorf("%w: the peer belongs to cluster %s", ErrOtherCluster, a.cluster)
	case node != "" && a.node != node:
		return fmt.Errorf("%w: the peer is node %s", ErrOtherNode, a.node)
	case l.certs != nil && l.cfg.checkNames(state.PeerCertificates[0], a.node) != nil:
		return fmt.Errorf("%w: it is issued for %.200q, not for node %s", ErrCertificate, state.PeerCertificates[0].DNSNames, a.node)
	}
	return l.checkDataVersion(a.node, p, a.dataVersion)
}

// handshakeError wraps ErrRefused if err is a TLS alert from the peer. It is also called if no answer to the
// hello arrives, because in TLS 1.3 the handshake of this node completes before the peer has verified the
// certificate of this node.
func handshakeError(err error) error {
	switch {
	case !isRemoteAlert(err):
		return fmt.Errorf("handshake: %w", err)
	case strings.Contains(err.Error(), "certificate"):
		return fmt.Errorf("%w: %w: %w", ErrRefused, ErrCertificate, err)
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}
