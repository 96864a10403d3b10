package main

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

const (
	hellosPerSec   = 1_000
	connsKept      = 1_000 // connections that an attacker keeps open
	pendingEvery   = 50 * time.Millisecond
	mostHandshakes = 256
	handshakeBar   = 5.5 // s: a timeout of 5 s, on a busy machine
)

// withTLS is like withVictim, for a server with TLS.
func (a *abuser) withTLS(use func(v *victim, t *tlsServer) error) (err error) {
	dir, err := os.MkdirTemp("", "throttled-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var t *tlsServer
	start := func(args ...string) (*process, error) {
		t, err = startTLSIn(dir, func(more ...string) (*process, error) { return a.start(append(args, more...)...) })
		if err != nil {
			return nil, err
		}
		return t.process, nil
	}
	return a.withVictimOf(start, func(v *victim) error { return use(v, t) })
}

// silentHandshakes opens connections at a rate that send the first message of a handshake only.
func (a *abuser) silentHandshakes() error {
	return a.withTLS(func(v *victim, t *tlsServer) error {
		hello, err := clientHello(t.client)
		if err != nil {
			return err
		}
		var n, most atomic.Int64
		var elapsed time.Duration
		err = a.beside(v, abuseP99, func(stop <-chan struct{}) error {
			begin := time.Now()
			defer func() { elapsed += time.Since(begin) }()
			sampled := make(chan error, 1)
			go func() { sampled <- v.samplePending(stop, &most) }()
			err := openAndKeep(t.secure, hellosPerSec, stop, &n, func(int64) []byte { return hello })
			return errors.Join(err, <-sampled)
		})
		if err != nil {
			return err
		}
		a.atLeast("handshakes per second", float64(n.Load())/elapsed.Seconds(), churnReached*hellosPerSec, "")
		a.atMost("handshakes in progress", float64(most.Load()), mostHandshakes, "")
		took, err := silentUntilClosed(t.secure, hello)
		a.atMost("time until a silent handshake is closed", took.Seconds(), handshakeBar, "s")
		return err
	})
}

// samplePending samples the number of handshakes in progress until stop is closed, and raises most to the largest one.
func (v *victim) samplePending(stop <-chan struct{}, most *atomic.Int64) error {
	for pause(stop, pendingEvery) {
		pending, err := v.info("stats", "tls_handshakes_pending")
		if err != nil {
			return err
		}
		raise(most, int64(pending))
	}
	return nil
}

// clientHello returns the first message of a handshake.
func clientHello(config *tls.Config) ([]byte, error) {
	client, server := net.Pipe()
	defer func() { _ = server.Close() }()
	go func() {
		_ = tls.Client(client, config).Handshake() // fails, since it gets no reply
		_ = client.Close()
	}()
	buf := make([]byte, 64<<10)
	n, err := server.Read(buf)
	return buf[:n], err
}

// openAndKeep opens connections at a rate per second, sends a text on each, and keeps the latest of them open. It adds their
// number to n.
func openAndKeep(addr string, rate float64, stop <-chan struct{}, n *atomic.Int64, text func(i int64) []byte) error {
	kept := make(chan net.Conn, connsKept)
	defer func() {
		close(kept)
		for c := range kept {
			_ = c.Close()
		}
	}()
	return paced(rate, churnWorkers, stop, func(i int64) error {
		c, err := dialFrom(int(i%churnSources), addr)
		if err != nil {
			return err
		}
		_, _ = c.Write(text(i)) // fails if the server has closed the connection already
		n.Add(1)
		for {
			select {
			case kept <- c:
				return nil
			case old := <-kept:
				_ = old.Close()
			}
		}
	})
}

// silentUntilClosed sends hello, and returns the time until the server closes the connection.
func silentUntilClosed(addr string, hello []byte) (time.Duration, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	begin := time.Now()
	_ = c.SetDeadline(begin.Add(watchTimeout))
	if _, err := c.Write(hello); err != nil {
		return 0, err
	}
	for buf := make([]byte, 4096); err == nil; {
		_, err = c.Read(buf)
	}
	return time.Since(begin), nil
}
