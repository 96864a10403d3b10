package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/throttledhq/throttled/internal/freeport"
	"github.com/throttledhq/throttled/internal/tlstest"
)

// secured is a program with all ports for TLS that a standalone server has, beside the plain ones.
type secured struct {
	*running
	site                                   *tlstest.Site
	redis, http, grpc, plainHTTP, plainRPC string // addresses
}

func startSecured(t *testing.T, authClients string, args ...string) *secured {
	t.Helper()
	s := &secured{site: tlstest.New(t)}
	all := append(s.site.Args(authClients), args...)
	for option, addr := range map[string]*string{
		"--tls-port": &s.redis, "--tls-http-port": &s.http, "--tls-grpc-port": &s.grpc, "--http-port": &s.plainHTTP, "--grpc-port": &s.plainRPC,
	} {
		port := fmt.Sprint(freeport.Of(t))
		*addr = net.JoinHostPort("127.0.0.1", port)
		all = append(all, option, port)
	}
	s.running = startWith(t, append(all, "--port", fmt.Sprint(freeport.Of(t)))...)
	return s
}

// get sends a request to an HTTP server, with TLS if config is not nil.
func (s *secured) get(config *tls.Config, addr, path string) (status int, text string, err error) {
	s.t.Helper()
	scheme := "http"
	if config != nil {
		scheme = "https"
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: patience}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, scheme+"://"+addr+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// health calls the gRPC health service.
func (s *secured) health(c credentials.TransportCredentials, addr string) error {
	s.t.Helper()
	conn := s.dialGRPC(c, addr)
	_, err := healthpb.NewHealthClient(conn).Check(s.t.Context(), &healthpb.HealthCheckRequest{})
	return err
}

func (s *secured) dialGRPC(c credentials.TransportCredentials, addr string) *grpc.ClientConn {
	s.t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(c))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// client returns a client of go-redis.
func (s *secured) client(config *tls.Config, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: config, MaxRetries: -1, DialTimeout: patience, DialerRetries: 1})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestTLS_Ports checks each port with a client that is accepted and with some that are not. The plain ports are served as well.
func TestTLS_Ports(t *testing.T) {
	s := startSecured(t, "yes")
	other := tlstest.New(t)
	expired := tlstest.IssueAt(t, s.site.CA, "alice", time.Now().Add(-48*time.Hour))
	wrongServer := s.site.User("alice")
	wrongServer.RootCAs = other.Client(nil).RootCAs
	rogue := other.User("alice")
	rogue.RootCAs = s.site.Client(nil).RootCAs
	for _, test := range []struct {
		name   string
		config *tls.Config
		ok     bool
	}{
		{"certificate", s.site.User("alice"), true},
		{"no certificate", s.site.Client(nil), false},
		{"certificate of another CA", rogue, false},
		{"expired certificate", s.site.Client(&expired), false},
		{"server of another CA", wrongServer, false},
	} {
		if err := s.client(test.config, s.redis).Do(t.Context(), "CL.THROTTLE", "k", "100", "1", "60").Err(); (err == nil) != test.ok {
			t.Errorf("Redis, %s: %v", test.name, err)
		}
		if status, _, err := s.get(test.config, s.http, "/readyz"); (err == nil && status == 200) != test.ok {
			t.Errorf("HTTP, %s: %d, %v", test.name, status, err)
		}
		if err := s.health(credentials.NewTLS(test.config), s.grpc); (err == nil) != test.ok {
			t.Errorf("gRPC, %s: %v", test.name, err)
		}
	}
	if err := s.client(nil, s.addr).Ping(t.Context()).Err(); err != nil {
		t.Errorf("the plain port: %v", err)
	}
	if status, text, err := s.get(nil, s.plainHTTP, "/metrics"); err != nil || status != 200 ||
		!strings.Contains(text, `throttled_tls_handshakes_total{result="completed"}`) ||
		!strings.Contains(text, `throttled_certificate_expiry_seconds{certificate="server"} 8`) || // 8xxxx s: a day
		!strings.Contains(text, `throttled_certificate_expiry_seconds{certificate="client_ca"}`) {
		t.Errorf("metrics: %d, %v, %s", status, err, text)
	}
	if err := s.health(insecure.NewCredentials(), s.plainRPC); err != nil {
		t.Errorf("the plain gRPC port: %v", err)
	}
	for what, failed := range map[string]error{
		"plain commands":     s.client(nil, s.redis).Ping(t.Context()).Err(),
		"a plain gRPC call":  s.health(insecure.NewCredentials(), s.grpc),
		"TLS on the plain":   s.client(s.site.User("alice"), s.addr).Ping(t.Context()).Err(),
		"HTTP/1.1 with gRPC": errOf(s.get(s.site.User("alice"), s.grpc, "/")),
	} {
		if failed == nil {
			t.Errorf("%s port: no error", what)
		}
	}
	if _, _, err := s.get(nil, s.http, "/readyz"); err == nil {
		t.Error("a plain HTTP request on the port for TLS is answered")
	}
}

func errOf(_ int, _ string, err error) error { return err }

// TestTLS_Only checks that port 0 disables the plain port if there is a port for TLS, and which errors name missing files.
func TestTLS_Only(t *testing.T) {
	site := tlstest.New(t)
	port := fmt.Sprint(freeport.Of(t))
	r := start(t, append(site.Args("no"), "--tls-port", port)...)
	if len(r.listeners) != 1 || r.addr != "127.0.0.1:"+port {
		t.Fatalf("the program listens on %d addresses, first %s; want only tls-port", len(r.listeners), r.addr)
	}
	client := redis.NewClient(&redis.Options{Addr: r.addr, TLSConfig: site.Client(nil)})
	defer func() { _ = client.Close() }()
	if info, err := client.Info(t.Context(), "server").Result(); err != nil || !strings.Contains(info, "tcp_port:"+port) {
		t.Errorf("INFO: %v, %s; want the port for TLS", err, info)
	}
	for _, test := range []struct {
		want string
		code int
		args []string
	}{
		{"require tls-cert-file and tls-key-file", exitUsage, []string{"--tls-port", "6390"}},
		{"client certificates require tls-ca-cert-file", exitUsage, []string{"--tls-port", "6390", "--tls-cert-file", "a", "--tls-key-file", "b"}},
		{"no such file", exitUsage, []string{"--tls-port", "6390", "--tls-cert-file", "a", "--tls-key-file", "b", "--tls-auth-clients", "no"}},
		{"older versions are not secure", exitUsage, []string{"--tls-protocols", "TLSv1.1"}},
	} {
		var out, errs strings.Builder
		if got := run(test.args, nil, &out, &errs); got != test.code || !strings.Contains(errs.String(), test.want) {
			t.Errorf("%v: exit code %d, errors %s; want %d and %q", test.args, got, errs.String(), test.code, test.want)
		}
	}
}

// TestTLS_RedisCLI runs redis-cli of Debian with its options for TLS.
func TestTLS_RedisCLI(t *testing.T) {
	s := startSecured(t, "yes")
	s.site.Replace("alice", s.site.Issue("alice"))
	port := portOf(s.redis)
	cli := func(args ...string) string {
		base := []string{"-p", port, "--tls", "--sni", tlstest.ServerName, "--cacert", s.site.Path("ca.pem")}
		out, _ := exec.CommandContext(t.Context(), "redis-cli", append(base, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	alice := []string{"--cert", s.site.Path("alice.pem"), "--key", s.site.Path("alice-key.pem")}
	if got := cli(slices.Concat(alice, []string{"CL.THROTTLE", "k", "15", "30", "60"})...); got != "0\n16\n15\n-1\n2" {
		t.Errorf("CL.THROTTLE: %q", got)
	}
	if got := cli(slices.Concat(alice, []string{"-3", "HELLO", "3"})...); !strings.Contains(got, "proto 3") {
		t.Errorf("HELLO 3: %q", got)
	}
	if got := cli("PING"); strings.Contains(got, "PONG") {
		t.Errorf("PING without a certificate: %q", got)
	}
}

// TestTLS_User checks that the common name of a client certificate is the user of the client on all ports.
func TestTLS_User(t *testing.T) {
	s := startSecured(t, "optional", "--requirepass", "secret", "--tls-auth-clients-user", "CN")
	for _, test := range []struct {
		name   string
		config *tls.Config
		in     bool
	}{{"default", s.site.User("default"), true}, {"nobody", s.site.User("nobody"), false}, {"no certificate", s.site.Client(nil), false}} {
		if err := s.client(test.config, s.redis).Do(t.Context(), "EXISTS", "k").Err(); (err == nil) != test.in {
			t.Errorf("Redis, %s: %v", test.name, err)
		}
		want := map[bool]int{true: 200, false: 401}[test.in]
		if status, _, err := s.get(test.config, s.http, "/metrics"); err != nil || status != want {
			t.Errorf("HTTP, %s: status %d, error: %v, want %d", test.name, status, err, want)
		}
		conn := s.dialGRPC(credentials.NewTLS(test.config), s.grpc)
		_, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "none"})
		if refused := err != nil && strings.Contains(err.Error(), "password"); refused == test.in {
			t.Errorf("gRPC, %s: %v", test.name, err)
		}
	}
}

// TestTLS_Config changes the files by CONFIG SET, by SIGHUP and by the replacement of files. A change that is not valid
// changes nothing.
func TestTLS_Config(t *testing.T) {
	s := startSecured(t, "no")
	reload := make(chan os.Signal)
	go func() { // as in run
		for range reload {
			s.reload()
		}
	}()
	defer close(reload)
	first, second := s.serial(), s.site.Issue("server")
	s.site.Replace("second", second)
	s.site.Write("junk.pem", []byte("junk"))
	client := s.client(nil, s.addr)
	set := func(args ...any) error {
		return client.Do(t.Context(), append([]any{"CONFIG", "SET"}, args...)...).Err()
	}
	for _, invalid := range [][]any{
		{"tls-cert-file", s.site.Path("second.pem")}, // its key is another one
		{"tls-cert-file", s.site.Path("junk.pem")},
		{"tls-key-file", s.site.Path("none")},
		{"tls-key-file", ""},
		{"tls-auth-clients", "optional", "tls-ca-cert-file", ""},
		{"tls-protocols", "TLSv1.0"},
	} {
		if err := set(invalid...); err == nil || !strings.HasPrefix(err.Error(), "ERR CONFIG SET failed (possibly related to argument '") {
			t.Errorf("CONFIG SET %v: %v", invalid, err)
		}
	}
	if got := s.serial(); got != first {
		t.Errorf("the certificate %s is used after invalid changes, want %s", got, first)
	}
	if err := set("tls-cert-file", s.site.Path("second.pem"), "tls-key-file", s.site.Path("second-key.pem"), "tls-protocols", "TLSv1.3"); err != nil {
		t.Fatal(err)
	}
	if got, want := s.serial(), serial(t, second.Serial); got != want {
		t.Errorf("after CONFIG SET, the certificate is %s, want %s", got, want)
	}
	old := s.site.Client(nil)
	old.MaxVersion = tls.VersionTLS12
	if err := s.client(old, s.redis).Ping(t.Context()).Err(); err == nil {
		t.Error("TLS 1.2 is accepted")
	}
	third := s.site.Issue("server")
	s.site.Replace("second", third)
	reload <- os.Interrupt
	s.awaitSerial(serial(t, third.Serial))
	fourth := s.site.Issue("server")
	s.site.Replace("second", fourth) // without a signal
	s.awaitSerial(serial(t, fourth.Serial))
}

func serial(t *testing.T, of func() (string, error)) string {
	t.Helper()
	text, err := of()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// serial returns the serial number of the certificate that a new connection gets.
func (s *secured) serial() string {
	s.t.Helper()
	conn, err := tls.Dial("tcp", s.redis, s.site.Client(nil))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Text(16)
}

func (s *secured) awaitSerial(want string) {
	s.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); s.serial() != want; <-ticker.C {
		if time.Now().After(end) {
			s.t.Fatalf("the certificate %s is not used", want)
		}
	}
}

// TestTLS_Rotation replaces the certificate repeatedly, while clients send commands and open connections. No call fails, and
// no connection is closed.
func TestTLS_Rotation(t *testing.T) {
	s := startSecured(t, "yes")
	ctx, stop := context.WithCancel(t.Context())
	config := s.site.User("alice")
	var calls, dialed atomic.Int64
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			kept := s.client(config, s.redis)
			for ctx.Err() == nil {
				if err := kept.Do(t.Context(), "CL.THROTTLE", fmt.Sprint("k", i), "100000", "1", "60").Err(); err != nil {
					t.Errorf("a kept connection: %v", err)
					return
				}
				calls.Add(1)
			}
			if got := kept.PoolStats().Misses; got != 1 {
				t.Errorf("client %d has used %d connections, want 1", i, got)
			}
		})
	}
	wait.Go(func() {
		for ctx.Err() == nil {
			conn, err := tls.Dial("tcp", s.redis, config)
			if err != nil {
				t.Errorf("a new connection: %v", err)
				return
			}
			_ = conn.Close()
			dialed.Add(1)
		}
	})
	for range 5 {
		next := s.site.Issue("server")
		s.site.Replace("server", next)
		s.reload()
		if got, want := serverOf(t, s.redis, config), serial(t, next.Serial); got != want {
			t.Errorf("the certificate is %s, want %s", got, want)
		}
	}
	stop()
	wait.Wait()
	if calls.Load() == 0 || dialed.Load() == 0 {
		t.Errorf("%d calls and %d connections, want some of both", calls.Load(), dialed.Load())
	}
}

func serverOf(t *testing.T, addr string, config *tls.Config) string {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Text(16)
}

// TestTLS_ProxyProtocol sends a PROXY header before the handshake.
func TestTLS_ProxyProtocol(t *testing.T) {
	s := startSecured(t, "yes", "--http-proxy-protocol", "yes")
	conn, err := net.Dial("tcp", s.http)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, "PROXY TCP4 192.0.2.1 192.0.2.2 1000 443\r\n"); err != nil {
		t.Fatal(err)
	}
	secure := tls.Client(conn, s.site.User("alice"))
	if _, err := io.WriteString(secure, "GET /v1/rules HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(secure)
	if err != nil && !errors.Is(err, io.EOF) || !strings.Contains(string(text), "protected mode") {
		t.Errorf("error: %v, response %s; want that of a client on another host in protected mode", err, text)
	}
}

// TestProcess_TLSCluster checks the ports that the nodes of a cluster report to clients with TLS: clients of Redis Cluster
// and of Redis Sentinel work with TLS only, and those without TLS get the plain ports.
func TestProcess_TLSCluster(t *testing.T) {
	site := tlstest.New(t)
	ports := map[string]map[string]string{}
	all := startProcesses(t, []string{"n1", "n2", "n3"}, func(id string) []string {
		args := append(site.Args("optional"), "--raft-insecure", "yes", "--raft-heartbeat", "1000")
		ports[id] = map[string]string{}
		for _, option := range []string{"cluster-port", "sentinel-port", "tls-port", "tls-cluster-port", "tls-sentinel-port"} {
			ports[id][option] = fmt.Sprint(freeport.Of(t))
			args = append(args, "--"+option, ports[id][option])
		}
		return append(args, "--leader-port", "0")
	})
	leader, others := leaderOf(t, all)
	for _, p := range all {
		p.askUntil("tls-cluster-port="+ports["n3"]["tls-cluster-port"], "CL.CLUSTER", "NODES")
		p.askUntil("tls-cluster-port="+ports["n1"]["tls-cluster-port"], "CL.CLUSTER", "NODES")
		p.askUntil("tls-cluster-port="+ports["n2"]["tls-cluster-port"], "CL.CLUSTER", "NODES")
		p.askUntil("leader:"+leader.id, "CL.CLUSTER", "STATUS")
	}
	follower := others[0].id
	config := site.Client(nil)
	for prefix, config := range map[string]*tls.Config{"": nil, "tls-": config} {
		one := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + ports[follower][prefix+"cluster-port"], TLSConfig: config, MaxRetries: -1})
		err := one.Do(t.Context(), "CL.THROTTLE", "k", "1", "1", "60").Err()
		if want := ":" + ports[leader.id][prefix+"cluster-port"]; err == nil || !strings.HasPrefix(err.Error(), "MOVED ") || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want MOVED to %s", prefix, err, want)
		}
		_ = one.Close()

		clustered := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:" + ports[follower][prefix+"cluster-port"]}, TLSConfig: config})
		if err := clustered.Do(t.Context(), "CL.THROTTLE", "k", "100", "1", "60").Err(); err != nil {
			t.Errorf("%s client of Redis Cluster: %v", prefix, err)
		}
		_ = clustered.Close()

		sentinel := redis.NewSentinelClient(&redis.Options{Addr: "127.0.0.1:" + ports[follower][prefix+"sentinel-port"], TLSConfig: config})
		port := portOf(leader.addr)
		if prefix == "tls-" {
			port = ports[leader.id]["tls-port"]
		}
		if got, err := sentinel.GetMasterAddrByName(t.Context(), "mymaster").Result(); err != nil || len(got) != 2 || got[1] != port {
			t.Errorf("%s SENTINEL GET-MASTER-ADDR-BY-NAME: %v, %v, want port %s", prefix, got, err, port)
		}
		_ = sentinel.Close()

		failover := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: []string{"127.0.0.1:" + ports[follower][prefix+"sentinel-port"]}, TLSConfig: config})
		if err := failover.Do(t.Context(), "CL.THROTTLE", "k", "100", "1", "60").Err(); err != nil {
			t.Errorf("%s client of Redis Sentinel: %v", prefix, err)
		}
		_ = failover.Close()
	}
}
