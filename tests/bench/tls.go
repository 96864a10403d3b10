package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/cluster/transport/certs"
)

const (
	maxTLSCost    = 1.6 // server CPU per request with TLS, relative to the same load without
	silentClients = 400 // more than the handshakes that the server permits
	silentRatio   = 2.0 // p99 of other clients beside silent ones, relative to p99 without them
	tlsRounds     = 5
	handshakesFor = 3 * time.Second
	tlsServed     = 3 * time.Second
)

// tlsServer is a server with a plain port and a port for TLS, with the certificates of a client.
type tlsServer struct {
	*process
	secure string // address of the port for TLS
	client *tls.Config
	args   []string // of redis-benchmark
	certs  string   // directory of the certificates
}

// costTLS compares the CPU time of the server for the same load with TLS and without. It then measures the CPU time of
// handshakes, and the latency of clients without TLS beside clients that send nothing, and beside a flood of handshakes.
func costTLS(s settings, b *board) (err error) {
	dir, err := os.MkdirTemp("", "throttled-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := startTLSIn(dir, startServer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	if err := server.compare(s, b); err != nil {
		return err
	}
	if err := server.handshakes(b); err != nil {
		return err
	}
	return withGenerator(func(g generator) error { return server.latencies(g, b) })
}

// startTLSIn creates certificates in a directory, and starts a server that requires them.
func startTLSIn(dir string, start func(args ...string) (*process, error)) (*tlsServer, error) {
	ca, err := certs.NewCA("bench", time.Now())
	if err != nil {
		return nil, err
	}
	files := []string{"--tls-ca-cert-file"}
	caFile, _ := certs.CAFiles(dir)
	err = ca.Save(dir)
	files = append(files, caFile)
	for _, name := range []string{"server", "client"} {
		pair, issueErr := ca.Issue(name, "bench", 1, time.Now())
		err = errors.Join(err, issueErr, pair.Save(dir, name))
	}
	addrs, addrsErr := freeAddrs(2)
	if err = errors.Join(err, addrsErr); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	_, tlsPort, _ := net.SplitHostPort(addrs[1])
	cert, key := certs.Files(dir, "server")
	clientCert, clientKey := certs.Files(dir, "client")
	pair, err := tls.LoadX509KeyPair(clientCert, clientKey)
	if err != nil {
		return nil, err
	}
	p, err := start(append(files, "--port", port, "--tls-port", tlsPort, "--tls-cert-file", cert, "--tls-key-file", key)...)
	if err != nil {
		return nil, err
	}
	return &tlsServer{
		process: p, secure: addrs[1],
		client: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}},
		args:   []string{"--tls", "--insecure", "--cert", clientCert, "--key", clientKey},
		certs:  dir,
	}, nil
}

// compare measures the CPU time of requests at several depths. The rounds alternate between the ports.
func (t *tlsServer) compare(s settings, b *board) error {
	b.note("cl.throttle on 1,000,000 random keys, %d connections, medians of %d rounds that alternate; redis-benchmark uses one thread", s.conns, tlsRounds)
	for _, d := range []depth{{1, 200_000, 0, 0}, {16, 2_000_000, maxTLSCost, 0}} {
		var rounds [2][]figures
		for range tlsRounds {
			for i, args := range [][]string{nil, t.args} {
				f, err := loadPort(t.pid(), [...]string{t.addr, t.secure}[i], d, s.conns, args...)
				if err != nil {
					return err
				}
				rounds[i] = append(rounds[i], f)
			}
		}
		var cpu [2]float64
		for i, name := range []string{"plain", "TLS"} {
			cpu[i] = median(rounds[i], func(f figures) float64 { return f.cpu })
			rate := median(rounds[i], func(f figures) float64 { return f.perSecond })
			b.note("depth %3d %-6s %10.0f req/s   cpu %5.2f us/req", d.pipeline, name, rate, cpu[i])
		}
		if d.cpu > 0 {
			b.atMost(fmt.Sprintf("depth %d: CPU per request, TLS to plain", d.pipeline), cpu[1]/cpu[0], d.cpu, "x")
		} else {
			b.note("depth %3d CPU per request, TLS to plain: %.2f x", d.pipeline, cpu[1]/cpu[0])
		}
	}
	return nil
}

// handshakes prints the CPU time of a handshake with a client certificate.
func (t *tlsServer) handshakes(b *board) error {
	before, err := cpuSeconds(t.pid())
	if err != nil {
		return err
	}
	stop := t.flood()
	time.Sleep(handshakesFor) // the duration of the measurement
	n, err := stop()
	after, cpuErr := cpuSeconds(t.pid())
	if err := errors.Join(err, cpuErr); err != nil {
		return err
	}
	b.note("%d handshakes in %v: %.0f us of server CPU for each connection", n, handshakesFor, (after-before)/float64(n)*1e6)
	return nil
}

// flood opens connections and closes them after the handshake, on four connections at a time, until stop is called, which
// returns their number.
func (t *tlsServer) flood() (stop func() (int64, error)) {
	var n atomic.Int64
	var done atomic.Bool
	var wait sync.WaitGroup
	failed := make(chan error, 4)
	for range cap(failed) {
		wait.Go(func() {
			for !done.Load() {
				c, err := tls.Dial("tcp", t.secure, t.client)
				if err == nil {
					err = errors.Join(ping(c), c.Close())
				}
				if err != nil {
					failed <- err
					return
				}
				n.Add(1)
			}
		})
	}
	return func() (int64, error) {
		done.Store(true)
		wait.Wait()
		close(failed)
		return n.Load(), <-failed
	}
}

// ping sends a command and reads its reply.
func ping(c net.Conn) error {
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, len("+PONG\r\n")))
	return err
}

// latencies prints the latencies of clients without TLS: alone, beside clients that send nothing on the port for TLS, and
// beside a flood of handshakes, whose clients use the processors of this machine as well.
func (t *tlsServer) latencies(g generator, b *board) error {
	var alone, beside []latencies
	for range 3 {
		l, err := g.runOnce(t.addr, 100_000, tlsServed)
		if err != nil {
			return err
		}
		alone = append(alone, l)
		stop := t.silent()
		l, err = g.runOnce(t.addr, 100_000, tlsServed)
		stop()
		if err != nil {
			return err
		}
		beside = append(beside, l)
	}
	b.latencies("plain port, alone", alone)
	b.latencies(fmt.Sprintf("beside %d silent", silentClients), beside)
	b.atMost("p99 beside silent clients, to alone", middle(beside).p99/middle(alone).p99, silentRatio, "x")
	stop := t.flood()
	l, err := g.runOnce(t.addr, 100_000, tlsServed)
	n, floodErr := stop()
	if err := errors.Join(err, floodErr); err != nil {
		return err
	}
	b.latencies("beside handshakes", []latencies{l})
	b.note("beside %d handshakes per second", n/int64(tlsServed/time.Second))
	return nil
}

// silent keeps connections to the port for TLS that send nothing: each is opened again when the server has closed it.
func (t *tlsServer) silent() (stop func()) {
	var done atomic.Bool
	var wait sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]struct{}{}
	for range silentClients {
		wait.Go(func() {
			for !done.Load() {
				c, err := net.Dial("tcp", t.secure)
				if err != nil {
					return
				}
				mu.Lock()
				open[c] = struct{}{}
				mu.Unlock()
				_, _ = c.Read(make([]byte, 1)) // returns when the server closes the connection
				mu.Lock()
				delete(open, c)
				mu.Unlock()
				_ = c.Close()
				time.Sleep(time.Second) // the server displaces connections beyond its limit: without a pause, this would be a flood
			}
		})
	}
	return func() {
		done.Store(true)
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wait.Wait()
	}
}
