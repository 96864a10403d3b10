package clienttests

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// tool returns the path of a program. If the program is missing, tool fails the test and names the
// Debian package.
func tool(t *testing.T, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v; run apt-get install %s", err, debianPackage)
	}
	return path
}

// outcome is the output and the exit code of a tool.
type outcome struct {
	out, err string
	code     int
}

// trimmed removes the leading and trailing empty lines of the output. redis-cli prints many empty
// lines.
func (o outcome) trimmed() outcome {
	return outcome{strings.Trim(o.out, "\n"), strings.Trim(o.err, "\n"), o.code}
}

// runTool runs a tool until it exits.
func runTool(t *testing.T, stdin, path string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s %q: error %v, context: %v", path, args, err, ctx.Err())
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// firstLines runs a tool that does not exit on its own, and kills it after n lines of
// output. It passes each line to seen before it reads the next one.
func firstLines(t *testing.T, n int, seen func(line string), path string, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for in := bufio.NewScanner(out); len(lines) < n && in.Scan(); {
		lines = append(lines, in.Text())
		seen(in.Text())
	}
	if len(lines) < n {
		t.Errorf("%s %q has written only the lines %q, want more", path, args, lines)
	}
	_ = cmd.Process.Kill() // fails if the tool has exited; the check above reports that
	_ = cmd.Wait()         // the error is that the tool was killed
	return lines
}

// redisCLI returns the path of redis-cli and its arguments for the address of the server.
func redisCLI(t *testing.T, s *server) (path string, args []string) {
	t.Helper()
	return tool(t, "redis-cli", "redis-tools"), []string{"-h", "127.0.0.1", "-p", s.port(t)}
}

func TestRedisCLI_Password(t *testing.T) {
	srv := start(t, "secret")
	srv.allow(`level=WARN msg="wrong password"`)
	path, at := redisCLI(t, srv)
	for args, want := range map[string]outcome{
		"PING":                                {"NOAUTH Authentication required.", "", 0},
		"--no-auth-warning -a secret PING":    {"PONG", "", 0},
		"--no-auth-warning -a secret -3 PING": {"PONG", "", 0},
		"--no-auth-warning --user default --pass secret PING": {"PONG", "", 0},
	} {
		got := runTool(t, "", path, append(at, strings.Fields(args)...)...)
		if got.trimmed() != want {
			t.Errorf("redis-cli %s: got %+v, want %+v", args, got, want)
		}
	}
	if got := runTool(t, "", path, append(at, "--no-auth-warning", "-a", "wrong", "PING")...); !strings.Contains(got.err, "WRONGPASS") {
		t.Errorf("wrong password: got %+v, want WRONGPASS", got)
	}
}

// TestRedisCLI_Help checks the help for the server's own commands, which redis-cli reads from COMMAND
// DOCS.
func TestRedisCLI_Help(t *testing.T) {
	path, at := redisCLI(t, start(t, ""))
	got := runTool(t, "PING\nhelp cl.throttle\n", path, at...)
	for _, want := range []string{"PONG", "CL.THROTTLE", "key max_burst count period [quantity]", "summary:", "since:", "group:"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("help: no %q in %+v", want, got)
		}
	}
	if got.err != "" || got.code != 0 {
		t.Errorf("help: want exit code 0 and no errors: %+v", got)
	}
}

func TestRedisCLI_Scans(t *testing.T) {
	srv := start(t, "")
	path, at := redisCLI(t, srv)
	var calls strings.Builder
	for _, key := range strings.Fields("user:1 user:2 user:3 tenant:1") {
		calls.WriteString("CL.THROTTLE " + key + " 1 1 3600\n")
	}
	if got := runTool(t, calls.String(), path, at...); got.err != "" || got.code != 0 {
		t.Fatalf("charges: want exit code 0 and no errors: %+v", got)
	}
	for _, test := range []struct {
		args  string
		match string
	}{
		{"--scan", `^(\S+\n){4}$`},
		{"--scan --pattern user:*", `^(user:\d\n){3}$`},
		{"--bigkeys", `Sampled 4 keys in the keyspace!`},
		{"--memkeys", `Sampled 4 keys in the keyspace!`},
		{"--memkeys", `Biggest +\S+ found .* has \d+ bytes`},
	} {
		got := runTool(t, "", path, append(at, strings.Fields(test.args)...)...)
		if !regexp.MustCompile(test.match).MatchString(got.out) || got.err != "" || got.code != 0 {
			t.Errorf("redis-cli %s: got %+v, want a match of %s", test.args, got, test.match)
		}
	}
}

func TestRedisCLI_Monitor(t *testing.T) {
	srv := start(t, "")
	path, at := redisCLI(t, srv)
	lines := firstLines(t, 2, func(line string) {
		if line == "OK" {
			srv.ask(t, "cl.throttle", "a key", "1", "1", hour)
		}
	}, path, append(at, "MONITOR")...)
	want := regexp.MustCompile(`^\d{10,}\.\d{6} \[0 127\.0\.0\.1:\d+\] "cl.throttle" "a key" "1" "1" "3600"$`)
	if len(lines) == 2 && !want.MatchString(lines[1]) {
		t.Errorf("MONITOR: got %q, want %s", lines[1], want)
	}
}

func TestRedisCLI_Pipe(t *testing.T) {
	srv := start(t, "")
	path, at := redisCLI(t, srv)
	const calls = 5000
	one := "*5\r\n$11\r\nCL.THROTTLE\r\n$3\r\nkey\r\n$4\r\n9999\r\n$1\r\n1\r\n$4\r\n3600\r\n"
	wrong := "*2\r\n$11\r\nCL.THROTTLE\r\n$3\r\nkey\r\n"
	got := runTool(t, strings.Repeat(one, calls), path, append(at, "--pipe")...)
	if !strings.HasSuffix(got.out, "errors: 0, replies: 5000\n") || got.err != "" || got.code != 0 {
		t.Errorf("--pipe: got %+v, want 5000 replies without an error", got)
	}
	if d, err := numbers(srv.ask(t, "CL.THROTTLE", "key", "9999", "1", hour, "0"), nil); err != nil || d.remaining() != 10000-calls {
		t.Errorf("after --pipe: got %v, error %v; want %d remaining", d, err, 10000-calls)
	}
	got = runTool(t, one+wrong+one, path, append(at, "--pipe")...)
	if !strings.HasSuffix(got.out, "errors: 1, replies: 3\n") || got.code != 1 {
		t.Errorf("--pipe with an invalid command: got %+v, want 3 replies and one error", got)
	}
}
