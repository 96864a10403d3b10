package gatewaystests

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/freeport"
)

// balancerBlock matches the configuration of HAProxy in docs/operations.md.
var balancerBlock = regexp.MustCompile("(?s)```haproxy\n(.*?)```")

// balancerConfig returns the configuration of the document with the addresses of nodes. All nodes are on one host here, so each
// has its own port for checks.
func balancerConfig(t *testing.T, front int, nodes []*limiter) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	block := balancerBlock.FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/operations.md has no configuration of HAProxy")
	}
	replacements := []string{":6379", fmt.Sprintf("127.0.0.1:%d", front), "check port 6381 ", "check "}
	for i, n := range nodes {
		replacements = append(replacements, fmt.Sprintf("10.0.0.%d:6380", i+1), fmt.Sprintf("127.0.0.1:%s port %d", n.args[1], n.httpPort))
	}
	return strings.NewReplacer(replacements...).Replace(string(block[1]))
}

// throttle sends a request on a connection, and returns an error unless it is decided.
func throttle(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(c, "CL.THROTTLE k 1000 1 3600\r\n"); err != nil {
		return err
	}
	in := bufio.NewReader(c)
	for i := range 6 { // an array of five integers
		line, err := in.ReadString('\n')
		switch {
		case err != nil:
			return err
		case i == 0 && line != "*5\r\n":
			return errors.New(line)
		}
	}
	return nil
}

// TestTCPBalancer runs the configuration of HAProxy for Redis clients in docs/operations.md. A client that connects again after a
// node was killed or stopped gets decisions from the others.
func TestTCPBalancer(t *testing.T) {
	nodes := startTrio(t, rulesOf(t, "haproxy"))
	front, dir := freeport.Of(t), t.TempDir()
	config := filepath.Join(dir, "balancer.cfg")
	if err := os.WriteFile(config, []byte(balancerConfig(t, front, nodes)), 0o600); err != nil {
		t.Fatal(err)
	}
	launch(t, dir, locate(t, "haproxy"), "-db", "-f", config)
	serves := func() error {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", front))
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		return throttle(c)
	}
	await(t, "a decision through the balancer", serves)
	nodes[0].kill()
	await(t, "a decision without the killed node", func() error {
		for range 6 { // each of the other nodes
			if err := serves(); err != nil {
				return err
			}
		}
		return nil
	})
}
