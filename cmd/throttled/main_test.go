package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/throttledhq/throttled/options"
)

func noEnv(string) (string, bool) { return "", false }

// TestRunWithoutServing checks runs that exit before the server listens.
func TestRunWithoutServing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	takenPort := fmt.Sprint(taken.Addr().(*net.TCPAddr).Port)

	f := func(code int, stdout, stderr string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		if got := run(args, nil, &out, &errs); got != code {
			t.Errorf("%q exits with %d; want %d\n%s", args, got, code, &errs)
		}
		if !strings.Contains(out.String(), stdout) || !strings.Contains(errs.String(), stderr) {
			t.Errorf("%q prints %q on stdout and %q on stderr; want %q in stdout and %q in stderr", args, &out, &errs, stdout, stderr)
		}
	}
	f(exitOK, "Usage: throttled", "", "--help")
	f(exitOK, "throttled check ", "", "--help")
	f(exitOK, "throttled "+version, "", "--version")
	f(exitUsage, "", "write throttled check FILE|DIR", "check")
	f(exitUsage, "", "write throttled dump FILE|DIR", "dump", "a", "b")
	f(exitError, "", "/nowhere/dump.thr", "check", "/nowhere/dump.thr")
	f(exitUsage, "", "--from is missing", "import")
	f(exitUsage, "", "port", "--port", "70000")
	f(exitUsage, "", "prot", "--prot", "7000")
	f(exitUsage, "", "/nowhere", "/nowhere/throttled.conf")
	for _, option := range []string{"port", "http-port", "grpc-port"} {
		f(exitError, "", "option "+option+": listen tcp 127.0.0.1:"+takenPort+": bind: address already in use", "--port", "0", "--"+option, takenPort)
	}
	f(exitError, "", "raft-addr: listen for nodes: listen tcp 127.0.0.1:"+takenPort, "--port", "0", "--data-dir", t.TempDir(), "--cluster-id", "c", "--node-id", "n1",
		"--raft-insecure", "yes", "--raft-addr", "127.0.0.1:"+takenPort, "--bootstrap", "n1=127.0.0.1:"+takenPort)
	f(exitError, "", "option bind: listen tcp: lookup no-such-host.invalid", "--bind", "no-such-host.invalid", "--port", "0")
	f(exitError, "", "option bind: listen tcp 192.0.2.1:0", "--bind", "192.0.2.1", "--port", "0") // an address for documentation
	f(exitError, "", "change to dir", "--dir", "/nowhere/at/all")
	f(exitError, "", "open logfile", "--logfile", "/nowhere/log", "--port", "0")
}

// running is a program that serves until the end of the test.
type running struct {
	*program
	t    *testing.T
	addr string
	log  *lockedBuffer
	stop context.CancelFunc
	done chan error
}

// lockedBuffer is a buffer that is safe for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start starts a program on a free port.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	return startWith(t, append(args, "--port", "0")...)
}

// startWith starts a program, whose address is that of its first listener.
func startWith(t *testing.T, args ...string) *running {
	t.Helper()
	opts, err := options.Load(args, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	log := &lockedBuffer{}
	p, err := open(opts, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{program: p, t: t, addr: p.listeners[0].Addr().String(), log: log, stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- p.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		r.wait()
	})
	return r
}

// wait waits until the program exits. It may be called several times.
func (r *running) wait() {
	r.t.Helper()
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("the program exits with %v; want no error", err)
		}
		r.done <- nil
	case <-time.After(patience):
		r.t.Fatal("the program does not exit")
	}
}

// ask sends inline commands on a new connection and returns all replies.
func (r *running) ask(commands ...string) string {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "%s\r\nQUIT\r\n", strings.Join(commands, "\r\n")); err != nil {
		r.t.Fatal(err)
	}
	reply, err := io.ReadAll(conn)
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSuffix(string(reply), "+OK\r\n")
}

func (r *running) wants(want string, commands ...string) {
	r.t.Helper()
	if got := r.ask(commands...); got != want {
		r.t.Errorf("the reply to %q is %q; want %q", commands, got, want)
	}
}

func TestProgramServes(t *testing.T) {
	r := start(t)
	r.wants("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", "CL.THROTTLE user 15 30 60")
	r.wants(":1\r\n", "EXISTS user")
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(patience); !strings.Contains(r.log.String(), "ready") || !strings.Contains(r.log.String(), r.addr); {
		select {
		case <-ticker.C: // logged after the server has started to serve
		case <-end:
			t.Fatalf("the log does not contain the address of the server:\n%s", r.log)
		}
	}
}

func TestProgramEndsOnShutdown(t *testing.T) {
	r := start(t)
	r.wants("", "SHUTDOWN NOSAVE")
	r.wait()
	if !strings.Contains(r.log.String(), "a client has sent SHUTDOWN") {
		t.Errorf("the log does not contain the reason of the exit, SHUTDOWN:\n%s", r.log)
	}
}

// TestProgramFollowsOptions checks that CONFIG SET changes the memory limit of the table
// and the level of the log.
func TestProgramFollowsOptions(t *testing.T) {
	r := start(t, "--maxmemory", "1")
	r.wants("-OOM command not allowed when used memory > 'maxmemory'.\r\n", "CL.THROTTLE a 15 30 60")
	r.wants("+OK\r\n", "CONFIG SET maxmemory 10mb")
	r.wants("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", "CL.THROTTLE a 15 30 60")

	r.wants("+OK\r\n", "CONFIG SET loglevel debug")
	if r.ask("*1x"); !strings.Contains(r.log.String(), "protocol error") {
		t.Errorf("loglevel debug does not log a protocol error:\n%s", r.log)
	}
	r.wants("+OK\r\n", "CONFIG SET loglevel warning")
}

func TestProgramUsesFiles(t *testing.T) {
	t.Chdir(t.TempDir()) // --dir changes the working directory; Chdir restores it after the test
	dir := t.TempDir()
	config := filepath.Join(dir, "throttled.conf")
	if err := os.WriteFile(config, []byte("# ours\nmaxclients 77\ndir "+dir+"\nlogfile log.txt\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, config)
	r.wants("*2\r\n$10\r\nmaxclients\r\n$2\r\n77\r\n", "CONFIG GET maxclients")
	r.wants("+OK\r\n+OK\r\n", "CONFIG SET timeout 300", "CONFIG REWRITE")
	written, err := os.ReadFile(config)
	if err != nil || !strings.Contains(string(written), "timeout 300") || !strings.Contains(string(written), "# ours") {
		t.Errorf("CONFIG REWRITE wrote %q, error %v; want the changed timeout and the old comment in it", written, err)
	}
	r.stop()
	r.wait()
	logged, err := os.ReadFile(filepath.Join(dir, "log.txt"))
	if err != nil || !strings.Contains(string(logged), "stopped") {
		t.Errorf("the log file in dir contains %q, error %v; want \"stopped\" in it", logged, err)
	}
}

// TestProcess checks that the program becomes ready, serves, and exits with 0 on SIGTERM while a client is connected.
func TestProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0], "--port", "0")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	lines := bufio.NewReader(logs)
	addr := ""
	for addr == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the log ends with %q, error %v; want a line with an address", line, err)
		}
		addr = regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 7)
	if _, err := io.ReadFull(conn, reply); err != nil || string(reply) != "+PONG\r\n" {
		t.Fatalf("the reply to PING is %q, error %v; want +PONG", reply, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
		t.Errorf("after SIGTERM the client reads %q, error %v; want a closed connection and no bytes", rest, err)
	}
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM the process exits with %v; want exit code 0", err)
	}
}
