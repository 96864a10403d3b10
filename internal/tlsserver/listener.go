package tlsserver

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// listener performs the handshakes of the connections of another listener.
type listener struct {
	net.Listener
	store  *Store
	config *tls.Config

	ready  chan net.Conn // connections whose handshake has succeeded
	failed chan error    // errors of the other listener
	closed chan struct{}
	close  func() // closes the field closed

	mu   sync.Mutex
	open map[net.Conn]struct{} // connections whose handshake is in progress
}

// Listen returns a listener that accepts TLS connections of a protocol: Redis, HTTP or GRPC. Each connection that it
// accepts is a [*Conn]. It accepts connections of ln, which it owns, until it is closed.
func (s *Store) Listen(ln net.Listener, protocol string) net.Listener {
	l := &listener{
		Listener: ln, store: s, config: s.config(protocol),
		ready: make(chan net.Conn), failed: make(chan error), closed: make(chan struct{}), open: map[net.Conn]struct{}{},
	}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	go l.run()
	return l
}

// run accepts connections until the listener is closed.
func (l *listener) run() {
	for {
		conn, err := l.Listener.Accept()
		if err == nil {
			go l.handshake(conn)
			continue
		}
		select {
		case l.failed <- err:
		case <-l.closed:
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// Accept returns the next connection whose handshake has succeeded, or an error of the other listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.ready:
		return conn, nil
	case err := <-l.failed:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the other listener, and the connections whose handshake is in progress.
func (l *listener) Close() error {
	l.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.open {
		_ = conn.Close() // its handshake fails
	}
	return l.Listener.Close()
}

// track adds a connection to the open ones. It returns false if the listener is closed.
func (l *listener) track(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return false
	default:
		l.open[conn] = struct{}{}
		return true
	}
}

func (l *listener) untrack(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, conn)
}

// handshake performs the handshake of a connection, and passes the connection to Accept.
func (l *listener) handshake(conn net.Conn) {
	if !l.track(conn) {
		_ = conn.Close() // nothing was read
		return
	}
	defer l.untrack(conn)
	h := &l.store.handshakes
	a := h.begin(conn)
	c, err := l.secure(conn)
	displaced := h.end(a)
	if err != nil || displaced {
		_ = conn.Close() // the first error is the one to report
		l.store.count(conn, err, displaced)
		return
	}
	h.completed.Add(1)
	select {
	case l.ready <- c:
	case <-l.closed:
		_ = conn.Close() // as connections that were not accepted
	}
}

// secure performs the handshake of a connection.
func (l *listener) secure(conn net.Conn) (*Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(HandshakeTimeout)); err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, turns: l.store.handshakes.turns}
	c := &Conn{tls.Server(w, l.config), w}
	w.acquire()
	err := c.Handshake()
	w.release()
	w.turns = nil
	if err != nil {
		return nil, err
	}
	return c, conn.SetDeadline(time.Time{})
}

// count counts and logs a handshake that has not succeeded. A client that closes the connection, as health checks of
// load balancers do, is no reason for a warning.
func (s *Store) count(conn net.Conn, err error, displaced bool) {
	h, level, text := &s.handshakes, slog.LevelWarn, "a TLS handshake has failed"
	switch {
	case displaced:
		text = "TLS handshakes were aborted, because too many were in progress"
	case errors.Is(err, os.ErrDeadlineExceeded):
		h.timedOut.Add(1)
		text = "a client has not completed its TLS handshake in time"
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET):
		h.failed.Add(1)
		level = slog.LevelDebug
	default:
		h.failed.Add(1)
	}
	if level < slog.LevelWarn {
		s.log.Debug(text, "addr", conn.RemoteAddr(), "error", err)
		return
	}
	if missed, ok := s.lines.Allow(text, time.Now()); ok {
		s.log.Warn(text, "addr", conn.RemoteAddr(), "error", err, "dropped_lines", missed)
	}
}
