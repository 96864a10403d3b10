package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// The secrets that the tests use.
const (
	canaryPass  = "canary-pass-71c4"  // of requirepass-file
	canaryUser  = "canary-user-92d8"  // of a user in aclfile
	canaryAdded = "canary-added-03ef" // of ACL SETUSER
	canaryWrong = "canary-wrong-44aa" // of failed logins
	canaryTrace = "canary-trace-b81e" // of the receiver of traces
)

// canary collects everything that processes show, and finds secrets in it.
type canary struct {
	t       *testing.T
	shown   strings.Builder
	secrets []string
}

// newCanary returns a canary that finds all passwords of the tests, and the parts of private keys in files.
func newCanary(t *testing.T, keyFiles ...string) *canary {
	t.Helper()
	c := &canary{t: t}
	for _, password := range []string{canaryPass, canaryUser, canaryAdded, canaryWrong, canaryTrace} {
		c.secrets = append(c.secrets, password)
		for _, user := range []string{"default", "app", "extra"} {
			c.secrets = append(c.secrets, strings.TrimRight(basicToken(user, password), "="))
		}
	}
	for _, file := range keyFiles {
		c.secrets = append(c.secrets, keyParts(t, file)...)
	}
	return c
}

// basicToken returns the value of the scheme Basic.
func basicToken(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// keyParts returns the forms in which a private key could be shown: the lines of its file, and its number.
func keyParts(t *testing.T, file string) (parts []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("%s has no key", file)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := key.(*ecdsa.PrivateKey).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if len(line) > 20 && !strings.HasPrefix(line, "-") {
			parts = append(parts, line)
		}
	}
	number := new(big.Int).SetBytes(raw)
	return append(parts, string(raw), number.String(), number.Text(16), strings.TrimSuffix(fmt.Sprintf("%d", raw), "]"))
}

// add adds a text that a process shows.
func (c *canary) add(text string) { c.shown.WriteString(text + "\n") }

// addFiles adds the names and the contents of files, and of all files in directories.
func (c *canary) addFiles(paths ...string) {
	c.t.Helper()
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			c.add(path + string(text))
			return err
		})
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// stop adds the log of a process, after the process has written the stacks of all goroutines to it, and exited.
func (c *canary) stop(p *process) {
	c.t.Helper()
	p.signal(syscall.SIGQUIT)
	_, _ = p.waitExit(patience)
	if log := p.log.String(); strings.Contains(log, "goroutine ") {
		c.add(log)
	} else {
		c.t.Errorf("the log of %s has no stacks:\n%s", p.id, log)
	}
}

// check reports secrets in the output, and parts that are missing: without them, the output shows less than is searched for.
func (c *canary) check(parts ...string) {
	c.t.Helper()
	all := c.shown.String()
	for _, part := range parts {
		if !strings.Contains(all, part) {
			c.t.Errorf("the output does not contain %q:\n%s", part, all)
		}
	}
	for _, secret := range c.secrets {
		for rest := all; strings.Contains(rest, secret); {
			at := strings.Index(rest, secret)
			c.t.Errorf("the output contains %q: ...%q", secret, rest[max(at-200, 0):at+len(secret)])
			rest = rest[at+len(secret):]
		}
	}
}

// addPages adds the responses of an HTTP server for right and wrong passwords.
func (c *canary) addPages(addr string) {
	c.t.Helper()
	for _, authorization := range authorizations() {
		for _, page := range []string{"/metrics", "/v1/rules", "/openapi.json", "/healthz", "/readyz", "/nowhere", "/check/nginx/d"} {
			c.add(get(c.t, "http://"+addr+page, authorization))
		}
	}
}

// addCalls adds the replies of a gRPC server for right and wrong passwords.
func (c *canary) addCalls(addr string) {
	c.t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, authorization := range authorizations() {
		ctx := metadata.AppendToOutgoingContext(c.t.Context(), "authorization", authorization)
		reply, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: "d"}, grpc.WaitForReady(true))
		c.add(fmt.Sprint("gRPC: ", reply, err))
	}
}

// authorizations returns right and wrong values of the header Authorization.
func authorizations() []string {
	return []string{
		"Bearer " + canaryPass, "Bearer " + canaryWrong, "Bearer app:" + canaryUser, "Bearer app:" + canaryWrong,
		"Basic " + basicToken("default", canaryPass), "Basic " + basicToken("app", canaryUser), "Basic " + basicToken("app", canaryWrong),
		"Basic " + canaryPass, "Digest " + canaryPass,
	}
}

// session is a connection that sends inline commands.
type session struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func openSession(t *testing.T, addr string) *session {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &session{t, conn, bufio.NewReader(conn)}
}

// send sends commands, and returns all that the server sends up to the reply to an ECHO after them.
func (s *session) send(commands ...string) string {
	s.t.Helper()
	const end = "end-of-the-replies"
	if _, err := fmt.Fprintf(s.conn, "%s\r\nECHO %s\r\n", strings.Join(commands, "\r\n"), end); err != nil {
		s.t.Fatal(err)
	}
	var all strings.Builder
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			s.t.Fatalf("after %q: %v", all.String(), err)
		}
		if all.WriteString(line); strings.TrimSpace(line) == end {
			return all.String()
		}
	}
}

// get returns the response to a GET request, with its headers.
func get(t *testing.T, url, authorization string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", authorization)
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(response.Status, response.Header, string(body))
}

// adminPages are the commands that show the state of a server.
var adminPages = []string{
	"CONFIG GET *", "INFO everything", "CLIENT LIST", "CLIENT INFO", "SLOWLOG GET -1", "ACL LIST", "ACL LOG 1000", "LATENCY LATEST", "COMMAND DOCS auth", "CL.LEASE.LIST",
}
