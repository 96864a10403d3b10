package gatewaystests

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/internal/freeport"
	"github.com/throttledhq/throttled/internal/testbuild"
)

// program is the path of the server that TestMain has built.
var program string

func TestMain(m *testing.M) { os.Exit(testbuild.Main(m, &program)) }

const password = "secret" // of the lines with the comment "# password" in the examples

// limiter is a running server.
type limiter struct {
	*process
	httpPort, grpcPort int
	args               []string
}

// startLimiter starts a server with the rules of an example, and waits until it is ready.
func startLimiter(t *testing.T, example string, args ...string) *limiter {
	t.Helper()
	l := newLimiter(t, append([]string{"--rules", rulesOf(t, example)}, args...)...)
	l.start(t)
	l.awaitReady(t)
	return l
}

// rulesOf returns the path of the rules file of an example.
func rulesOf(t *testing.T, example string) string {
	t.Helper()
	path, err := filepath.Abs(exampleFile(example, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// newLimiter returns a server on free ports that has not been started. Clients of the tests have loopback addresses too,
// so only the address of the gateways is a trusted proxy.
func newLimiter(t *testing.T, args ...string) *limiter {
	l := &limiter{httpPort: freeport.Of(t), grpcPort: freeport.Of(t)}
	l.args = append([]string{"--port", strconv.Itoa(freeport.Of(t)), "--http-port", strconv.Itoa(l.httpPort),
		"--grpc-port", strconv.Itoa(l.grpcPort), "--trusted-proxies", "127.0.0.1/32", "--rls-headers", "yes"}, args...)
	return l
}

func (l *limiter) start(t *testing.T) {
	t.Helper()
	l.process = launch(t, t.TempDir(), program, l.args...)
}

// awaitReady waits until the server can decide requests.
func (l *limiter) awaitReady(t *testing.T) {
	t.Helper()
	await(t, "the limiter to be ready", func() error {
		_, err := l.fetch("/readyz")
		return err
	})
}

// awaitRules waits until a node of a cluster has the rules, which the leader proposes.
func (l *limiter) awaitRules(t *testing.T) {
	t.Helper()
	await(t, "the rules of the cluster", func() error {
		_, err := l.fetch("/v1/rules")
		return err
	})
}

// fetch returns the body of a page of the server.
func (l *limiter) fetch(path string) (string, error) {
	return fetch(fmt.Sprintf("http://127.0.0.1:%d%s", l.httpPort, path))
}

func fetch(url string) (string, error) {
	resp, err := http.Get(url) //nolint:gosec // the address is on loopback
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return string(body), err
}

// metric returns the sum of the samples of a metric whose labels contain a text.
func (l *limiter) metric(t *testing.T, name, labels string) (sum float64) {
	t.Helper()
	text, err := l.fetch("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^` + name + `(\{.*\})? (\S+)$`)
	for _, found := range line.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(found[1], labels) {
			continue
		}
		value, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += value
	}
	return sum
}
