package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/throttledhq/throttled/internal/freeport"
)

const rollingRules = `version: 1
domain: shop
limits:
  all:
    when: {path: /x}
    allow: 1000000 per second
`

// rolling is the clients of a rolling restart. Each client waits for the answer to a request before it sends the next one.
type rolling struct {
	t        *testing.T
	http     []string // addresses
	grpc     []string
	stopped  atomic.Bool
	answered [2]atomic.Int64 // requests, of HTTP and gRPC
	clients  sync.WaitGroup
}

// runHTTP sends requests on a connection until the server announces that it closes it, and then connects to another node.
// A connection may be refused, but once it is open, no request may fail.
func (r *rolling) runHTTP(at int) {
	for ; !r.stopped.Load(); at++ {
		c, err := net.Dial("tcp", r.http[at%len(r.http)])
		if err != nil {
			continue
		}
		r.useConnection(c)
		_ = c.Close()
	}
}

const rollingRequest = "GET /check/traefik/shop HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Host: shop.example\r\n" +
	"X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /x\r\n\r\n"

func (r *rolling) useConnection(c net.Conn) {
	in := bufio.NewReader(c)
	for !r.stopped.Load() {
		_, err := io.WriteString(c, rollingRequest)
		if err != nil {
			r.t.Errorf("send a request to %s: %v", c.RemoteAddr(), err)
			return
		}
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			r.t.Errorf("response of %s: %v", c.RemoteAddr(), err)
			return
		}
		if response.StatusCode != 200 {
			r.t.Errorf("status %d of %s", response.StatusCode, c.RemoteAddr())
		}
		r.answered[0].Add(1)
		if response.Close {
			return
		}
	}
}

// runGRPC calls all nodes in turn on one client connection.
func (r *rolling) runGRPC() {
	nodes := manual.NewBuilderWithScheme("nodes")
	var state resolver.State
	for _, addr := range r.grpc {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: addr})
	}
	nodes.InitialState(state)
	conn, err := grpc.NewClient("nodes:///", grpc.WithResolvers(nodes), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		// The default delay of a second is longer than the time in which the test restarts all nodes.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1, MaxDelay: 20 * time.Millisecond}, MinConnectTimeout: patience}))
	if err != nil {
		r.t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	request := &pb.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "path", Value: "/x"}}}}}
	for !r.stopped.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, request, grpc.WaitForReady(true)) // waits only if no node accepts connections
		cancel()
		if err != nil {
			r.t.Errorf("gRPC: %v", err)
		}
		r.answered[1].Add(1)
	}
}

// awaitAnswers waits until n more requests of each protocol are answered.
func (r *rolling) awaitAnswers(n int64) {
	var before [2]int64
	for i := range before {
		before[i] = r.answered[i].Load()
	}
	until(r.t, "both clients have answers", func() bool {
		return r.answered[0].Load() >= before[0]+n && r.answered[1].Load() >= before[1]+n
	})
}

// isReady reports whether a node answers that it is ready.
func isReady(addr string) bool {
	response, err := http.Get("http://" + addr + "/readyz")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == 200
}

// TestProcess_RollingRestart stops and starts all nodes in turn while HTTP and gRPC clients send requests. No request fails:
// a node that stops answers the next request of each connection, and a node that starts accepts no connection until it can
// decide.
func TestProcess_RollingRestart(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(rollingRules), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &rolling{t: t}
	all := startProcesses(t, []string{"n1", "n2", "n3"}, func(string) []string {
		http, grpc := freeport.Of(t), freeport.Of(t)
		r.http = append(r.http, fmt.Sprintf("127.0.0.1:%d", http))
		r.grpc = append(r.grpc, fmt.Sprintf("127.0.0.1:%d", grpc))
		return []string{"--raft-insecure", "yes", "--raft-heartbeat", "1000", "--rules", rules, "--http-port", fmt.Sprint(http), "--grpc-port", fmt.Sprint(grpc)}
	})
	for i, p := range all {
		until(t, "the node is ready", func() bool { return isReady(r.http[i]) })
		p.awaitRules(1, "all")
	}
	for i := range 6 {
		r.clients.Go(func() { r.runHTTP(i) })
	}
	r.clients.Go(r.runGRPC)
	for i, p := range all {
		r.awaitAnswers(50)
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code, _ := p.waitExit(patience); code != exitOK {
			t.Errorf("%s exits with %d:\n%s", p.id, code, p.log)
		}
		p.start()
		until(t, "the node is ready after the restart", func() bool { return isReady(r.http[i]) })
	}
	r.awaitAnswers(50)
	r.stopped.Store(true)
	r.clients.Wait()
	if t.Failed() {
		for _, p := range all {
			t.Logf("the log of %s:\n%s", p.id, strings.TrimSpace(p.log.String()))
		}
	}
}
