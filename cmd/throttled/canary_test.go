package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The secrets of TestSecretsAreNotShown.
const (
	canaryPass  = "canary-pass-71c4"  // of requirepass-file
	canaryUser  = "canary-user-92d8"  // of a user in aclfile
	canaryAdded = "canary-added-03ef" // of ACL SETUSER
	canaryWrong = "canary-wrong-44aa" // of failed logins
)

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

// say sends commands, and returns all that the server sends up to the reply to an ECHO after them.
func (s *session) say(commands ...string) string {
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

// TestSecretsAreNotShown uses passwords in a real process in all ways, and checks that none of them is in anything that the
// process shows: replies, MONITOR, SLOWLOG, CLIENT LIST, ACL LOG, CONFIG, INFO, the files that it writes, HTTP pages, metrics,
// the log of all levels, and the stacks of all goroutines.
func TestSecretsAreNotShown(t *testing.T) {
	dir := t.TempDir()
	users, password, config := filepath.Join(dir, "users.acl"), filepath.Join(dir, "password"), filepath.Join(dir, "throttled.conf")
	writeFile(t, users, "user app on >"+canaryUser+" ~app:* +cl.throttle +acl|whoami +echo\n")
	writeFile(t, password, canaryPass+"\n")
	writeFile(t, config, "loglevel debug\n")
	web := freeAddr(t)
	_, port, _ := net.SplitHostPort(web)
	p := newServer(t, config, "--aclfile", users, "--requirepass-file", password, "--http-port", port,
		"--slowlog-log-slower-than", "0", "--slowlog-max-len", "10000", "--auth-failures-per-minute", "0", "--dir", dir)
	p.waitLog("ready")
	admin := openSession(t, p.addr)
	var shown strings.Builder
	shown.WriteString(admin.say("AUTH " + canaryPass))
	monitor := openSession(t, p.addr)
	shown.WriteString(monitor.say("AUTH default "+canaryPass, "MONITOR"))

	app := openSession(t, p.addr)
	_, _ = fmt.Fprintf(app.conn, "AUTH %s\r\nAUTH app %s\r\nHELLO 3 AUTH app %s\r\nAUTH %s app\r\n", canaryWrong, canaryWrong, canaryWrong, canaryPass)
	shown.WriteString(app.say("AUTH app "+canaryUser, "HELLO 3 AUTH app "+canaryUser, "CL.THROTTLE app:1 5 5 60", "CL.THROTTLE other 5 5 60", "CL.WINDOW app:2 5 60"))
	shown.WriteString(admin.say(
		"ACL SETUSER extra on >"+canaryAdded+" +@all ~*", "ACL SETUSER extra <"+canaryWrong, "ACL SETUSER extra >"+canaryAdded+" nonsense", "ACL SETUSER extra #"+canaryWrong,
		"MULTI", "AUTH extra "+canaryAdded, "EXEC", "AUTH extra "+canaryAdded, "AUTH default "+canaryPass, "ACL GETUSER extra", "ACL LIST", "ACL SAVE", "ACL LOAD", "ACL DRYRUN extra auth "+canaryAdded,
		"CONFIG SET requirepass "+canaryAdded, "CONFIG REWRITE", "CONFIG GET *", "INFO everything", "CLIENT LIST", "CLIENT INFO", "SLOWLOG GET -1", "ACL LOG 1000", "LATENCY LATEST", "COMMAND DOCS auth"))
	shown.WriteString(monitor.say())
	for _, authorization := range []string{"Bearer " + canaryPass, "Bearer " + canaryWrong, "Basic ZGVmYXVsdDpjYW5hcnktcGFzcy03MWM0"} {
		for _, page := range []string{"/metrics", "/v1/rules", "/openapi.json", "/healthz", "/readyz", "/nowhere", "/check/nginx/d"} {
			shown.WriteString(get(t, "http://"+web+page, authorization))
		}
	}
	p.hangUp()
	p.waitLog("reloaded")
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil { // the runtime writes the stacks of all goroutines
		t.Fatal(err)
	}
	_, _ = p.waitExit(patience)
	log := p.log.String()
	shown.WriteString(log)
	for _, path := range []string{users, config} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		shown.Write(text)
	}
	if !strings.Contains(log, "wrong password") || !strings.Contains(log, "goroutine ") || !strings.Contains(shown.String(), "(redacted)") ||
		!strings.Contains(shown.String(), "throttled_clients") || !strings.Contains(shown.String(), `"CL.THROTTLE" "app:1"`) {
		t.Errorf("parts of the output are missing:\n%s", shown.String())
	}
	for _, secret := range []string{canaryPass, canaryUser, canaryAdded, canaryWrong} {
		for rest := shown.String(); strings.Contains(rest, secret); {
			at := strings.Index(rest, secret)
			t.Errorf("the output contains %s: ...%q", secret, rest[max(at-200, 0):at+len(secret)])
			rest = rest[at+len(secret):]
		}
	}
}
