package server

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/throttledhq/throttled/internal/tlsserver"
	"github.com/throttledhq/throttled/options"
)

const (
	firstBackoff = 5 * time.Millisecond
	maxBackoff   = time.Second

	// spareFiles is the number of file descriptors that are not available to clients, but reserved for all other
	// files and connections.
	spareFiles = 64
)

// serve accepts connections on ln, and treats them as the listener profile l specifies. See Serve.
func (s *Server) serve(ln net.Listener, l *listenerProfile) error {
	if !s.clustered() && l != &redisListener {
		_ = ln.Close()
		return fmt.Errorf("serve clients of a cluster on %s: %w", ln.Addr(), errNotClustered)
	}
	s.mu.Lock()
	if s.closing.Load() {
		s.mu.Unlock()
		_ = ln.Close()
		return ErrServerClosed
	}
	s.listeners[ln] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, ln)
		s.mu.Unlock()
		_ = ln.Close()
	}()
	return s.accept(ln, l)
}

// accept accepts connections until the server shuts down or ln is closed. After any other error, such as too many
// open files, it retries with exponential backoff. Connected clients are served meanwhile.
func (s *Server) accept(ln net.Listener, l *listenerProfile) error {
	backoff := firstBackoff
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			backoff = firstBackoff
			s.admit(conn, l)
		case s.closing.Load():
			return ErrServerClosed
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on %s: %w", ln.Addr(), err)
		default:
			s.warn("accept", "cannot accept a connection", "error", err, "retry_in", backoff)
			if !s.pause(backoff) {
				return ErrServerClosed
			}
			backoff = min(2*backoff, maxBackoff)
		}
	}
}

// pause waits for d. It returns false as soon as the server shuts down.
func (s *Server) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.shutdownBegun:
		return false
	case <-timer.C:
		return true
	}
}

// admit starts to serve a connection, or refuses the connection.
func (s *Server) admit(conn net.Conn, l *listenerProfile) {
	s.stats.connections.Add(1)
	o := s.opts.Get()
	if !l.trusted && !s.Accepts(conn.RemoteAddr()) {
		s.reject(conn, errDenied)
		return
	}
	keepAlive(conn, o.TCPKeepAlive)
	c := newClient(s, conn, l)
	c.conn.socket.limitUnsent()
	switch full, refused := s.register(c, o); {
	case full:
		s.reject(conn, errMaxClients)
	case refused && l.trusted:
		s.reject(conn, errGoaway)
	case refused:
		_ = conn.Close()
	default:
		go c.conn.serve()
	}
}

// register adds a client to the server. If places for connections are scarce, it may close a newcomer to make room.
// refused reports whether the client was not added. full reports whether the reason was the limit on clients.
func (s *Server) register(c *client, o *options.Options) (full, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.listener.trusted && !s.makeRoom(o) {
		return true, true
	}
	if s.closing.Load() {
		return false, true
	}
	if !c.listener.trusted {
		s.admission.add(&c.conn)
	}
	s.clients[c.id] = c
	s.peers += countTrue(c.listener.trusted)
	base := int64(connectionBytes)
	if c.session.secure {
		base += secureBytes
	}
	c.conn.usage.set(&c.conn.usage.base, base)
	s.active.Add(1)
	return false, false
}

// makeRoom reports whether there is a place for one more client. If places are scarce, makeRoom may close a newcomer
// first. If too many newcomers are already being closed, it waits until the connection of one of them is closed. The
// caller holds s.mu.
func (s *Server) makeRoom(o *options.Options) bool {
	for !s.closing.Load() {
		victim, r := s.admission.makeRoom(len(s.clients)-s.peers, clientLimit(o))
		switch {
		case r == roomSoon:
			s.admission.ended.Wait()
			continue
		case victim != nil:
			s.stats.displaced.Add(1)
			victim.hangUp()
		}
		return r == roomFree
	}
	return true // the caller then refuses the client because the server is closing
}

// crowded reports whether places for connections are scarce (see crowdedShare).
func (s *Server) crowded(o *options.Options) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return crowded(len(s.clients)-s.peers-s.admission.displaced, clientLimit(o))
}

// keepAlive sets the interval of TCP keep-alive probes; 0 disables them.
func keepAlive(conn net.Conn, interval time.Duration) {
	if secured := tlsserver.Of(conn); secured != nil {
		conn = secured.Under()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: interval > 0, Idle: interval, Interval: interval})
	}
}

// reject sends an error to a connection and closes the connection. The error fits in any socket buffer, so the write
// should not block. The write deadline limits the wait if the write blocks nevertheless.
func (s *Server) reject(conn net.Conn, reason replyError) {
	s.stats.rejected.Add(1)
	_ = conn.SetWriteDeadline(time.Now().Add(firstBackoff))
	_, _ = conn.Write([]byte("-" + string(reason) + "\r\n"))
	_ = conn.Close()
}

// isLocal reports whether a peer is on this host: its address is a loopback address, or is not a TCP address.
func isLocal(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// ClientLimit returns the maximum number of concurrent clients of one protocol: maxclients, or a smaller number if the limit
// on open files of the process is too low. It is at least 1.
func (s *Server) ClientLimit() int { return clientLimit(s.opts.Get()) }

// clientLimit returns the maximum number of concurrent clients. The protocols share the file descriptors of the process
// equally, so that clients of one of them cannot prevent the process from opening files.
func clientLimit(o *options.Options) int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return o.MaxClients
	}
	protocols := int64(1 + countTrue(o.HTTPPort > 0 || o.TLSHTTPPort > 0) + countTrue(o.GRPCPort > 0 || o.TLSGRPCPort > 0))
	spare := int64(spareFiles)
	if o.UsesTLS() {
		spare += int64(tlsserver.Limit())
	}
	if room := (int64(files.Cur) - spare) / protocols; room < int64(o.MaxClients) {
		return max(1, int(room))
	}
	return o.MaxClients
}
