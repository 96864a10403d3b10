package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// edgePeers are the servers with which the HTTP and gRPC servers are compared. scripts/peers.sh has built them. An
// empty address means that the peer was not built.
type edgePeers struct {
	dir                         string
	running                     []*exec.Cmd
	crabHTTP, crabGRPC, envoyRL string
}

// ratelimitConfig is the configuration of envoyproxy/ratelimit with the limit of domain rls in edgeRules.
const ratelimitConfig = `
domain: rls
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 4000000000}
`

// peersDir returns the directory of the peers' binaries, as scripts/peers.sh does.
func peersDir() (string, error) {
	if dir := os.Getenv("PEERS"); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "throttled-peers"), err
}

// startEdgePeers starts the peers that have been built.
func startEdgePeers(b *board) (*edgePeers, error) {
	dir, err := peersDir()
	if err != nil {
		return nil, err
	}
	p := &edgePeers{}
	if p.dir, err = os.MkdirTemp("", "throttled-bench-"); err != nil {
		return nil, err
	}
	crab, envoy := filepath.Join(dir, "throttlecrab-server"), filepath.Join(dir, "service_cmd")
	for _, start := range []struct {
		binary string
		start  func(binary string) error
	}{{crab, p.startCrab}, {envoy, p.startRatelimit}} {
		if _, err := os.Stat(start.binary); err != nil {
			b.note("%s is missing, and is not compared with; scripts/peers.sh builds it", start.binary)
			continue
		}
		if err := start.start(start.binary); err != nil {
			return nil, errors.Join(err, p.stop())
		}
	}
	return p, nil
}

func (p *edgePeers) startCrab(binary string) error {
	addrs, err := freeAddrs(2)
	if err != nil {
		return err
	}
	if err := p.start(exec.Command(binary, "--log-level", "error", "--http", "--http-host", "127.0.0.1", "--http-port", portOf(addrs[0]),
		"--grpc", "--grpc-host", "127.0.0.1", "--grpc-port", portOf(addrs[1])), addrs...); err != nil {
		return err
	}
	p.crabHTTP, p.crabGRPC = addrs[0], addrs[1]
	return nil
}

// startRatelimit starts envoyproxy/ratelimit with its default settings, and a Redis without persistence.
func (p *edgePeers) startRatelimit(binary string) error {
	addrs, err := freeAddrs(4)
	if err != nil {
		return err
	}
	config := filepath.Join(p.dir, "ratelimit", "config")
	if err := os.MkdirAll(config, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(config, "rls.yaml"), []byte(ratelimitConfig), 0o600); err != nil {
		return err
	}
	redis := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", portOf(addrs[0]), "--save", "", "--appendonly", "no")
	if err := p.start(redis, addrs[0]); err != nil {
		return err
	}
	service := exec.Command(binary)
	service.Env = append(os.Environ(), "RUNTIME_ROOT="+p.dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+addrs[0], "USE_STATSD=false", "LOG_LEVEL=error", "HOST=127.0.0.1", "PORT="+portOf(addrs[1]),
		"GRPC_HOST=127.0.0.1", "GRPC_PORT="+portOf(addrs[2]), "DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+portOf(addrs[3]))
	if err := p.start(service, addrs[2]); err != nil {
		return err
	}
	p.envoyRL = addrs[2]
	return nil
}

func portOf(addr string) string {
	_, port, _ := strings.Cut(addr, ":")
	return port
}

// start starts a peer, and waits until it accepts connections on all addresses.
func (p *edgePeers) start(cmd *exec.Cmd, addrs ...string) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	p.running = append(p.running, cmd)
	for _, addr := range addrs {
		if err := awaitListener(addr); err != nil {
			return fmt.Errorf("%s: %w", cmd.Path, err)
		}
	}
	return nil
}

// awaitListener waits until an address accepts connections.
func awaitListener(addr string) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for end := time.Now().Add(formWithin); ; <-ticker.C {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// stop stops all peers.
func (p *edgePeers) stop() error {
	var errs []error
	for _, cmd := range p.running {
		errs = append(errs, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait() // not every peer exits with 0 after the signal
	}
	return errors.Join(append(errs, os.RemoveAll(p.dir))...)
}
