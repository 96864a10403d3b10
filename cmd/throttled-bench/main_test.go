package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/freeport"
)

// cli runs the program and returns its exit code and output.
func cli(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestExitCodes(t *testing.T) {
	good := newFake(t, "tcp", limiter)
	bad := newFake(t, "tcp", func(int, []string) string { return "-ERR no\r\n" })
	f := func(code int, stdout, stderr string, args ...string) {
		t.Helper()
		got, out, errs := cli(t.Context(), args...)
		if got != code || !strings.Contains(out, stdout) || !strings.Contains(errs, stderr) {
			t.Errorf("%q exits with %d, stdout %q, stderr %q; want %d, %q in stdout, %q in stderr", args, got, out, errs, code, stdout, stderr)
		}
	}
	quick := []string{"-requests", "10", "-warmup", "0"}
	f(exitOK, "Usage", "", "-h")
	f(exitUsage, "", "throttled-bench: -conns 0", "-conns", "0")
	f(exitOK, "p99.99, us", "", append(quick, good.addr)...)
	f(exitOK, "p99", "round 1/1", append(quick, "-duration", "600ms", "-requests", "0", "-progress", good.addr)...)
	f(exitError, "10 error replies: ERR no", "every reply is an error: ERR no", append(quick, bad.addr)...)
	f(exitError, "", "connection refused", append(quick, "127.0.0.1:1")...)
	f(exitError, "p99", "write the plot", append(quick, "-plot", "/nowhere/p.svg", good.addr)...)
}

// build compiles the command in a folder, with the module of that folder, and returns the path of its binary.
func build(t *testing.T, folder string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "binary")
	if out, err := exec.Command("go", "build", "-C", folder, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// start runs a server until the test ends. It returns the pid and the first line that the
// server writes.
func start(t *testing.T, program string, args ...string) (pid int, first string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = t.TempDir()
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s exits with %v; want exit code 0", program, err)
		}
		_ = write.Close()
	})
	lines := bufio.NewReader(read)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return cmd.Process.Pid, first
}

func startThrottled(t *testing.T) (pid int, addr string) {
	t.Helper()
	pid, first := start(t, build(t, "../throttled"), "--port", "0")
	addr = regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(first)
	if addr == "" {
		t.Fatalf("the first line that the server writes has no address: %q", first)
	}
	return pid, addr
}

func startRedis(t *testing.T) (pid int, addr string) {
	t.Helper()
	port := strconv.Itoa(freeport.Of(t))
	addr = "127.0.0.1:" + port
	pid, _ = start(t, "redis-server", "--port", port, "--save", "")
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			return pid, addr
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatal("redis-server does not accept connections")
	return 0, ""
}

// decode runs the program with JSON output and returns the targets in the report.
func decode(t *testing.T, args ...string) []jsonTarget {
	t.Helper()
	code, out, errs := cli(t.Context(), append([]string{"-output", "json", "-warmup", "50ms"}, args...)...)
	var report jsonRun
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitOK {
		t.Fatalf("%q exits with %d, or its report is not JSON: error %v\n%s%s", args, code, err, out, errs)
	}
	return report.Targets
}

// TestRealServers measures running throttled and Redis servers.
func TestRealServers(t *testing.T) {
	_, throttled := startThrottled(t)
	_, redis := startRedis(t)

	both := decode(t, "-command", "SET {key} x", "-duration", "500ms", "-rounds", "2", "-depth", "16", redis)
	if f := both[0].Figures; f["errors"] != 0 || f["replies"] < 1000 || f["server_cpu_us_per_reply"] <= 0 || f["server_rss_bytes"] < 1<<20 {
		t.Errorf("SET on Redis: errors, or a figure that is too low: %v", f)
	}

	both = decode(t, "-command", "PING", "-duration", "500ms", redis, throttled)
	if both[1].Figures["errors"] != 0 || both[1].Ratios["requests_per_second"] <= 0 || both[1].Ratios["latency_p99_us"] <= 0 {
		t.Errorf("PING on Redis and throttled: errors, or a ratio of 0: %+v", both)
	}

	f := func(deniedLeast, deniedMost float64, flags ...string) {
		t.Helper()
		got := decode(t, append(flags, "-duration", "300ms", throttled)...)[0].Figures
		if got["errors"] != 0 || got["replies"] < 100 || got["denied_share"] < deniedLeast || got["denied_share"] > deniedMost {
			t.Errorf("flags %q: figures %v; want no errors, 100 replies or more, and a denied share of %v to %v", flags, got, deniedLeast, deniedMost)
		}
	}
	f(0, 0, "-denied", "0", "-dist", "hot", "-depth", "100")
	f(0.45, 0.55, "-denied", "0.5", "-depth", "16", "-prefix", "half:")
	f(1, 1, "-denied", "1", "-prefix", "all:")
	f(0.9, 1, "-dist", "hot", "-depth", "16", "-prefix", "hot:")
	f(0, 0.05, "-rate", "5000", "-dist", "sequential", "-prefix", "open:")
	f(0, 0, "-limit", "15 30 60 0", "-dist", "zipf", "-prefix", "peek:")
}

// TestServerProcess checks that serverOf returns the process of the server.
func TestServerProcess(t *testing.T) {
	pid, addr := startThrottled(t)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if p, local, err := serverOf(conn); p.pid != pid || !local || err != nil {
		t.Errorf("serverOf = process %d, local %v, error %v; want process %d, local", p.pid, local, err, pid)
	}
}

// TestServerDies checks that the run fails if the server closes its connections.
func TestServerDies(t *testing.T) {
	binary := build(t, ".")
	server := newFake(t, "tcp", func(number int, _ []string) string {
		if number > 1000 {
			return closes
		}
		return admits
	})
	cmd := exec.Command(binary, "-duration", "60s", server.addr)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != exitError || !strings.Contains(string(out), "connection lost") {
		t.Errorf("after the server closed the connections: %v, exit code %d; want 1 and \"connection lost\": %s", err, cmd.ProcessState.ExitCode(), out)
	}
}

// TestCtrlC checks that the program, when interrupted, reports the measurements made so far.
func TestCtrlC(t *testing.T) {
	binary := build(t, ".")
	reached := make(chan struct{})
	server := newFake(t, "tcp", func(number int, _ []string) string {
		if number == 1000 {
			close(reached)
		}
		return admits
	})
	var out bytes.Buffer
	cmd := exec.Command(binary, "-duration", "60s", "-warmup", "0", server.addr)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-reached
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "; interrupted") || !strings.Contains(out.String(), "p99.99") {
		t.Errorf("after an interrupt: error %v; want none, and a report: %s", err, &out)
	}
}
