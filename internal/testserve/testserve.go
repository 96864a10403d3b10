// Package testserve runs servers in the process of a test.
package testserve

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// patience is the timeout of a shutdown.
const patience = 2 * time.Minute

// Server is a server that can be shut down.
type Server interface {
	Serve(net.Listener) error       // until Shutdown
	Shutdown(context.Context) error // waits until open requests are answered
}

// Start runs a server on a free port of 127.0.0.1 until the test ends, and returns its address. The method Serve must return
// the error closed after the shutdown.
func Start(t testing.TB, s Server, closed error) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; !errors.Is(err, closed) {
			t.Errorf("Serve: %v, want %v", err, closed)
		}
	})
	return ln.Addr().String()
}

// Each calls serve for each connection of a listener until the test ends, and returns the address of the listener.
func Each(t testing.TB, ln net.Listener, serve func(net.Conn)) (addr string) {
	t.Helper()
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
			go serve(conn)
		}
	}()
	return ln.Addr().String()
}
