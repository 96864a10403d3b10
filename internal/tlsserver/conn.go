package tlsserver

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
)

// Conn is a TLS connection whose handshake has succeeded.
type Conn struct {
	*tls.Conn
	wire *wire
}

// wire is the connection that carries the encrypted bytes.
type wire struct {
	net.Conn
	turns     chan struct{} // nil after the handshake
	transport io.ReadWriteCloser
}

// acquire waits until the handshake may compute. Before that, it yields, so that the goroutines in the queue of this
// processor run first: they would otherwise wait for the computation, which takes up to milliseconds, while other
// processors have goroutines of their own. It does not yield during its turn, because no other handshake could compute
// while those goroutines run.
func (w *wire) acquire() {
	runtime.Gosched()
	w.turns <- struct{}{}
}

// release permits another handshake to compute.
func (w *wire) release() { <-w.turns }

// Read reads encrypted bytes. A handshake does not compute while it waits for bytes.
func (w *wire) Read(p []byte) (int, error) {
	switch {
	case w.transport != nil:
		return w.transport.Read(p)
	case w.turns == nil:
		return w.Conn.Read(p)
	}
	w.release()
	defer w.acquire()
	return w.Conn.Read(p)
}

// Write writes encrypted bytes. A handshake does not compute while the client does not read.
func (w *wire) Write(p []byte) (int, error) {
	switch {
	case w.transport != nil:
		return w.transport.Write(p)
	case w.turns == nil:
		return w.Conn.Write(p)
	}
	w.release()
	defer w.acquire()
	return w.Conn.Write(p)
}

// Close closes the connection.
func (w *wire) Close() error {
	if w.transport != nil {
		return w.transport.Close()
	}
	return w.Conn.Close()
}

// Under returns the connection that carries the encrypted bytes.
func (c *Conn) Under() net.Conn { return c.wire.Conn }

// SetTransport makes the connection read and write its encrypted bytes through t, and close it, instead of Under. It
// must be called before the connection is used. If a method of t returns an error whose Temporary method returns true,
// the operation can be repeated later.
func (c *Conn) SetTransport(t io.ReadWriteCloser) { c.wire.transport = t }

// User returns the common name of the subject of the verified client certificate, or "" if there is none.
func (c *Conn) User() string {
	state := c.ConnectionState()
	if len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return ""
	}
	return state.PeerCertificates[0].Subject.CommonName
}

// Of returns the TLS connection in a connection, which may be wrapped by types with a method NetConn, or nil if the
// connection does not use TLS.
func Of(conn net.Conn) *Conn {
	for conn != nil {
		if c, ok := conn.(*Conn); ok {
			return c
		}
		wrapped, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		conn = wrapped.NetConn()
	}
	return nil
}
