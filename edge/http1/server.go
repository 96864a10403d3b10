package http1

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Server serves connections in front of an http.Server. Its methods may be called concurrently.
type Server struct {
	next    *http.Server
	closing atomic.Bool
	stopped chan struct{} // closed when the listeners are closed

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	empty     chan struct{} // closed if Shutdown has been called and there are no connections
}

// New returns a Server with the handler, the timeouts and ConnContext of an http.Server, to which it hands connections
// over. IdleTimeout, ReadHeaderTimeout and WriteTimeout must be set.
//
// ConnContext gets the connection that was accepted, also if it is handed over. A request with more than 100 header lines gets
// status 431.
func New(next *http.Server) *Server {
	limitHeaderLines(next)
	if context := next.ConnContext; context != nil {
		next.ConnContext = contextOf(context)
	}
	return &Server{next: next, listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{}, empty: make(chan struct{}), stopped: make(chan struct{})}
}

// contextOf returns a ConnContext that calls another one with the connection that was accepted.
func contextOf(next func(context.Context, net.Conn) context.Context) func(context.Context, net.Conn) context.Context {
	return func(ctx context.Context, c net.Conn) context.Context {
		if p, ok := c.(*prefixed); ok {
			c = p.Conn
		}
		return next(ctx, c)
	}
}

// Serve accepts connections from l until Shutdown is called, and then returns http.ErrServerClosed. It closes l.
func (s *Server) Serve(l net.Listener) error {
	handed := &handedOver{addr: l.Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	served := make(chan error, 1)
	go func() {
		err := s.next.Serve(handed)
		s.stop() // the http.Server has been closed
		served <- err
	}()
	defer func() { _ = l.Close() }()
	if !s.track(l) {
		return errors.Join(handed.Close(), <-served)
	}
	err := s.accept(l, handed)
	if s.isStopped() {
		return <-served // after next.Shutdown
	}
	return errors.Join(err, handed.Close(), <-served)
}

func (s *Server) accept(l net.Listener, handed *handedOver) error {
	delay := minDelay
	for {
		nc, err := l.Accept()
		var temporary interface{ Temporary() bool }
		switch {
		case err == nil:
			delay = minDelay
			go s.serve(nc, handed)
		case errors.As(err, &temporary) && temporary.Temporary() && !s.isStopped():
			s.pause(delay) // such as too many open files
			delay = min(2*delay, maxDelay)
		default:
			return err
		}
	}
}

// pause waits for a delay, or until the listeners are closed.
func (s *Server) pause(delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stopped:
	}
}

// isStopped reports whether the listeners are closed.
func (s *Server) isStopped() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// Delays after errors of Accept that do not last, as in net/http.
const (
	minDelay = 5 * time.Millisecond
	maxDelay = time.Second
)

// serve serves one connection.
func (s *Server) serve(nc net.Conn, handed *handedOver) {
	raw := rawConnOf(nc)
	if raw == nil {
		handed.take(&prefixed{Conn: nc})
		return
	}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), http.ServerContextKey, s.next))
	defer cancel()
	if s.next.ConnContext != nil {
		ctx = s.next.ConnContext(ctx, nc)
	}
	c := newConn(ctx, nc, raw, s)
	if !s.add(c) {
		_ = nc.Close()
		return
	}
	defer s.remove(c)
	switch c.serve() {
	case handOver:
		_ = nc.SetDeadline(time.Time{})
		first := []byte(nil)
		if c.buffers != nil {
			first = c.buffers.in[:c.filled] // not returned to the pool
		}
		handed.take(&prefixed{Conn: nc, first: first, headersBy: c.headersBy()})
	case hangUp:
		linger(nc)
		_ = nc.Close()
	default:
		_ = nc.Close()
	}
}

// call calls the handler. It returns false if the handler has panicked, as net/http aborts the connection then.
func (s *Server) call(w http.ResponseWriter, r *http.Request) (returned bool) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler && s.next.ErrorLog != nil {
			s.next.ErrorLog.Printf("http1: panic serving %s: %v", r.RemoteAddr, p)
		}
	}()
	s.next.Handler.ServeHTTP(w, r)
	return true
}

// Shutdown closes the listeners and idle connections, and waits until the requests that have begun are answered. It also
// shuts the http.Server down. When ctx is done, it returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	err := s.next.Shutdown(ctx)
	select {
	case <-s.empty:
		return err
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
}

// Close closes all listeners and connections. Handlers that are running are not awaited.
func (s *Server) Close() error {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.shut()
	}
	return s.next.Close()
}

// CloseListeners closes the listeners. Connections that are open are still served, until Shutdown or Close is called.
func (s *Server) CloseListeners() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeListeners()
}

// closeListeners closes the listeners. s.mu must be held.
func (s *Server) closeListeners() {
	if !s.isStopped() {
		close(s.stopped)
	}
	for l := range s.listeners {
		_ = l.Close()
	}
}

// stop closes the listeners, and makes connections end after the requests that have begun.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.closing.Swap(true) // before the deadlines are set; see conn.setDeadline
	s.closeListeners()
	for c := range s.conns {
		c.stop()
	}
	if first && len(s.conns) == 0 {
		close(s.empty)
	}
}

func (s *Server) track(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[l] = struct{}{}
	return !s.isStopped()
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.closing.Load() && len(s.conns) == 0 {
		close(s.empty)
	}
}

// handedOver is the listener of the http.Server.
type handedOver struct {
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// take passes a connection to the http.Server, or closes it if that is closed.
func (h *handedOver) take(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.closed:
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (h *handedOver) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handedOver) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (h *handedOver) Addr() net.Addr { return h.addr }

// rawConnOf returns the descriptor of a connection, or nil if it has none, or if the system is not supported.
func rawConnOf(nc net.Conn) syscall.RawConn {
	owner, ok := nc.(syscall.Conn)
	if !ok || !supported {
		return nil
	}
	raw, err := owner.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}
