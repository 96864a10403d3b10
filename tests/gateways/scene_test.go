package gatewaystests

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/throttledhq/throttled/internal/freeport"
)

// gateway describes a gateway, and its example.
type gateway struct {
	example string   // directory in examples
	program string   // name of its program
	args    []string // of the program, in the directory of the example
	grpc    bool     // the gateway uses gRPC
	hidden  bool     // replies to admitted requests have no headers of the limiter
	dialect bool     // X-RateLimit-* are in the format of Envoy
	once    bool     // the gateway does not send a request to another node if one answers 503
	// undecided returns the number of requests that the gateway reports as not decided by the limiter.
	undecided func(s *scene) (int, error)
}

// scene is a gateway between clients, a limiter and an application.
type scene struct {
	gateway
	limiter     *limiter
	application *application
	process     *process
	dir         string
	ports       map[int]int // from ports of the example
	address     string      // of the gateway
}

// play starts a gateway whose configuration is the example with some changes.
func (g gateway) play(t *testing.T, limiters []*limiter, v variant, change func(string) string) *scene {
	t.Helper()
	s := &scene{gateway: g, limiter: limiters[0], application: startApplication(t), ports: map[int]int{}}
	for _, port := range []int{sitePort, checksPort, adminPort} {
		s.ports[port] = freeport.Of(t)
	}
	s.ports[applicationPort] = s.application.port
	for i, l := range limiters {
		s.ports[httpPorts[i]], s.ports[grpcPorts[i]] = l.httpPort, l.grpcPort
	}
	s.address = "127.0.0.1:" + strconv.Itoa(s.ports[sitePort])
	s.dir = configure(t, g.example, func(text string) string { return withPorts(change(v.apply(text)), s.ports) })
	s.process = launch(t, s.dir, locate(t, g.program), g.args...)
	s.awaitServing(t)
	return s
}

// exact is a change of configurations that has no effect: the deadline is that of the example.
func exact(text string) string { return text }

// locate returns the path of a gateway.
func locate(t *testing.T, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(cache, "throttled-gateways"), "/usr/sbin", "/usr/bin"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return filepath.Join(dir, name)
		}
	}
	t.Fatalf("%s is not installed; run: scripts/install-gateways.sh %s", name, name)
	return ""
}

// awaitServing waits until a request has reached the application.
func (s *scene) awaitServing(t *testing.T) {
	t.Helper()
	c := newClient(s.address)
	await(t, s.example+" to serve", func() error {
		select {
		case <-s.process.exited:
			t.Fatalf("%s has exited", s.program)
		default:
		}
		r, err := c.try(http.MethodGet, "/ready", "")
		if err == nil && r.status != http.StatusOK {
			err = fmt.Errorf("status %d: %s", r.status, r.body)
		}
		return err
	})
	s.application.take()
}

// newClient returns a client of the gateway.
func (s *scene) newClient() *client { return newClient(s.address) }

// awaitUndecided waits until the gateway reports that at least n requests were not decided.
func (s *scene) awaitUndecided(t *testing.T, n int) {
	t.Helper()
	await(t, "the gateway to report an outage", func() error {
		got, err := s.undecided(s)
		if err == nil && got < n {
			err = fmt.Errorf("%d requests are reported as not decided, want %d", got, n)
		}
		return err
	})
}

// checkDecided fails the test if the limiter has not decided all requests.
func (s *scene) checkDecided(t *testing.T) {
	t.Helper()
	if n, err := s.undecided(s); n > 0 || err != nil {
		t.Errorf("%d requests were not decided by the limiter (%v)", n, err)
	}
}
