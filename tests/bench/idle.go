package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	maxIdleBytes   = 20 << 10
	perLoopback    = 5000 // connections per source address, well below the number of ports of an address
	replyPatience  = 30 * time.Second
	tooManyClients = "-ERR max number of clients reached\r\n"
)

// idle opens as many connections as --maxclients permits. Each connection sends one PING and is idle
// afterwards. One more connection must be refused.
func idle(s settings, b *board) (err error) {
	server, err := startServer("--maxclients", fmt.Sprint(s.idle))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	before, err := residentBytes(server.pid())
	if err != nil {
		return err
	}
	h := &idleHolder{addr: server.addr}
	defer h.close()
	if err := h.hold(s.idle); err != nil {
		return err
	}
	after, err := residentBytes(server.pid())
	if err != nil {
		return err
	}
	b.note("%d idle connections: RSS from %.1f to %.1f MiB", s.idle, mib(before), mib(after))
	b.atMost("memory of an idle connection", float64(after-before)/float64(s.idle)/1024, maxIdleBytes/1024, "KiB")
	b.note("connection %d receives %q", s.idle+1, tooManyClients)
	return h.refused()
}

// idleHolder keeps idle connections.
type idleHolder struct {
	addr  string
	conns []net.Conn
}

// hold opens connections until there are n. Each has sent one PING.
func (h *idleHolder) hold(n int) error {
	for i := len(h.conns); i < n; i++ {
		c, err := dialFrom(i/perLoopback, h.addr)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i+1, err)
		}
		h.conns = append(h.conns, c)
		if err := exchange(c, "PING\r\n", "+PONG\r\n"); err != nil {
			return fmt.Errorf("connection %d: %w", i+1, err)
		}
	}
	return nil
}

// refused checks that the next connection is refused, and that the first one is served.
func (h *idleHolder) refused() error {
	extra, err := dialFrom(len(h.conns)/perLoopback, h.addr)
	if err != nil {
		return err
	}
	defer func() { _ = extra.Close() }()
	if err := exchange(extra, "", tooManyClients); err != nil {
		return fmt.Errorf("connection %d: %w", len(h.conns)+1, err)
	}
	return exchange(h.conns[0], "PING\r\n", "+PONG\r\n")
}

func (h *idleHolder) close() {
	for _, c := range h.conns {
		_ = c.Close()
	}
}

// dialFrom dials from the loopback address that n selects. Several addresses permit more
// connections, since each address has its own source ports.
func dialFrom(n int, addr string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+n))}, Timeout: replyPatience}
	return d.Dial("tcp", addr)
}

// exchange sends a request and compares the reply with want.
func exchange(c net.Conn, request, want string) error {
	if err := c.SetDeadline(time.Now().Add(replyPatience)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, request); err != nil {
		return err
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if string(got) != want {
		return fmt.Errorf("reply to %q is %q; want %q", request, got, want)
	}
	return nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
