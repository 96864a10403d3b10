package middleware

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/middleware/internal/testserver"
)

// TestDocument runs the server and the client in docs/middleware.md. The client must print the text after "prints: ".
func TestDocument(t *testing.T) {
	var server, client string
	for _, program := range testserver.Programs(t) {
		switch {
		case strings.Contains(program, "middleware/grpclimit"): // built by the tests of this module
		case strings.Contains(program, "middleware/retry"):
			client = program
		default:
			server = program
		}
	}
	addr := freeAddr(t)
	replacer := strings.NewReplacer("localhost:6380", testserver.Start(t, program, "").Addr, "localhost:8080", addr)
	command := exec.Command(testserver.BuildText(t, replacer.Replace(server)))
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = command.Process.Kill() // it is still running, or the test has failed
		_ = command.Wait()         // reports the kill
	}()
	eventually(t, func() bool {
		conn, err := net.Dial("tcp", addr)
		return err == nil && conn.Close() == nil
	})
	out, err := exec.Command(testserver.BuildText(t, replacer.Replace(client))).CombinedOutput()
	_, want, _ := strings.Cut(client, "// prints: ")
	if err != nil || string(out) != want {
		t.Errorf("the client has printed %q, %v; want %q", out, err, want)
	}
	response, _ := get(t, "http://"+addr)
	for response.StatusCode == http.StatusOK { // use up the limit
		if remaining := response.Header.Get("X-RateLimit-Remaining"); remaining == "" {
			t.Fatalf("headers: %q", response.Header)
		}
		response, _ = get(t, "http://"+addr)
	}
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("X-RateLimit-Limit") != "10" {
		t.Errorf("headers: %q", response.Header)
	}
}

// freeAddr returns an address of a free port.
func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	return ln.Addr().String()
}
