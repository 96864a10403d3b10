package deploy

import (
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
)

const (
	unit   = "packaging/throttled.service"
	config = "packaging/throttled.conf"
)

// unitOnThisMachine returns the path of the unit with the program that the tests have built.
func unitOnThisMachine(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "throttled.service")
	text := strings.ReplaceAll(read(t, unit), "/usr/bin/throttled", program)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUnit_Verify checks that systemd accepts the unit without a warning.
func TestUnit_Verify(t *testing.T) {
	if out := run(t, "systemd-analyze", "verify", unitOnThisMachine(t)); out != "" {
		t.Errorf("systemd-analyze verify prints:\n%s", out)
	}
}

// TestUnit_Exposure checks the rating of the restrictions by systemd: 0 is the best, 10 the worst.
func TestUnit_Exposure(t *testing.T) {
	const most = 1.5
	out := run(t, "systemd-analyze", "security", "--offline=true", "--no-pager", unitOnThisMachine(t))
	m := regexp.MustCompile(`Overall exposure level for throttled.service: ([0-9.]+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("systemd-analyze security prints no exposure:\n%s", out)
	}
	if level, err := strconv.ParseFloat(m[1], 64); err != nil || level > most {
		t.Errorf("exposure %s, want at most %v:\n%s", m[1], most, out)
	}
}

// allowedSystemCalls returns the system calls that the unit permits.
func allowedSystemCalls(t *testing.T) map[string]bool {
	t.Helper()
	allowed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^SystemCallFilter=(~?)(.*)$`).FindAllStringSubmatch(read(t, unit), -1) {
		for _, group := range strings.Fields(m[2]) {
			for _, name := range systemCalls(t, group) {
				allowed[name] = m[1] == ""
			}
		}
	}
	return allowed
}

// systemCalls returns the system calls of a group of systemd, with those of the groups in it.
func systemCalls(t *testing.T, group string) (names []string) {
	t.Helper()
	for line := range strings.Lines(run(t, "systemd-analyze", "syscall-filter", "--no-pager", group)) {
		switch name := strings.TrimSpace(line); {
		case name == group, name == "", strings.HasPrefix(name, "#"):
		case strings.HasPrefix(name, "@"):
			names = append(names, systemCalls(t, name)...)
		default:
			names = append(names, name)
		}
	}
	return names
}

// TestUnit_SystemCalls checks that the unit permits the system calls of a server that loads, decides, writes snapshots,
// reloads and stops.
func TestUnit_SystemCalls(t *testing.T) {
	allowed := allowedSystemCalls(t)
	if !allowed["epoll_wait"] || allowed["mount"] || allowed["ptrace"] {
		t.Fatal("the filter of the unit is not read correctly: it permits epoll_wait, and not mount and ptrace")
	}
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	args := []string{"-f", "-qq", "-o", trace, program, "--dir", dir, "--save", "1 1", "--http-port", freePort(t), "--grpc-port", freePort(t)}
	s := startCommand(t, exec.Command("strace", append(args, "--port", freePort(t))...))
	s.waitLog("msg=ready")
	s.ask("CL.THROTTLE user 15 30 60", "SAVE", "BGSAVE", "CONFIG SET maxmemory 10mb")
	s.ask("SHUTDOWN")
	s.waitExit()
	calls := regexp.MustCompile(`(?m)^\d+ +([a-z0-9_]+)\(`).FindAllStringSubmatch(readFile(t, trace), -1)
	if len(calls) < 100 {
		t.Fatalf("strace has recorded %d system calls", len(calls))
	}
	reported := map[string]bool{}
	for _, m := range calls {
		if name := m[1]; !allowed[name] && !reported[name] && name != "execve" { // systemd permits its own execve
			reported[name] = true
			t.Errorf("the server uses the system call %s, which the unit does not permit", name)
		}
	}
}

// TestUnit_ExitCode checks that the exit code after which systemd does not restart the server is that of invalid options.
func TestUnit_ExitCode(t *testing.T) {
	if !strings.Contains(read(t, unit), "\nRestartPreventExitStatus=2\n") {
		t.Error("the unit does not name the exit code 2")
	}
	cmd := exec.Command(program, "--port", "70000")
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("exit code %d for an invalid option, want 2", cmd.ProcessState.ExitCode())
	}
}

// TestUnit_Documented checks that the unit has each setting that docs/operations.md requires of other units.
func TestUnit_Documented(t *testing.T) {
	m := regexp.MustCompile("(?s)```ini\n\\[Service\\]\n(.*?)```").FindStringSubmatch(read(t, "docs/operations.md"))
	if m == nil {
		t.Fatal("docs/operations.md has no block with a [Service] section")
	}
	for setting := range strings.Lines(m[1]) {
		if !strings.Contains(read(t, unit), "\n"+setting) {
			t.Errorf("docs/operations.md has the setting %q, which the unit of the packages does not have", strings.TrimSpace(setting))
		}
	}
}

// TestConfig checks that the server starts with the configuration of the packages, and with each option in its comments.
func TestConfig(t *testing.T) {
	text := strings.ReplaceAll(read(t, config), "/var/lib/throttled", t.TempDir())
	start := func(text string) *server {
		path := filepath.Join(t.TempDir(), "throttled.conf")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return startCommand(t, exec.Command(program, path, "--port", freePort(t)))
	}
	s := start(text)
	s.waitLog("msg=ready")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.waitExit()
	options := 0
	for _, m := range regexp.MustCompile(`(?m)^# ([a-z-]+ (?:\S+|n1=.*))$`).FindAllStringSubmatch(text, -1) {
		options++
		s := startCommand(t, exec.Command(program, "--version", "--config", writeFile(t, m[1]+"\n")))
		s.waitExit()
	}
	if options < 10 {
		t.Errorf("%d options are found in comments, want at least 10", options)
	}
}

// server is a running program, and its output.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *buffer
	addr string
	done chan struct{}
}

// startCommand starts a server whose last argument is its port. It is killed at the end of the test.
func startCommand(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{t: t, cmd: cmd, log: &buffer{}, done: make(chan struct{}), addr: net.JoinHostPort("127.0.0.1", cmd.Args[len(cmd.Args)-1])}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		_ = cmd.Wait() // the exit code is checked instead
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-s.done
	})
	return s
}

// waitLog waits until the output contains a text.
func (s *server) waitLog(text string) {
	s.t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(patience); !strings.Contains(s.log.String(), text); {
		select {
		case <-ticker.C:
		case <-s.done:
			s.t.Fatalf("the server exits with %d, and does not print %q:\n%s", s.cmd.ProcessState.ExitCode(), text, s.log)
		case <-end:
			s.t.Fatalf("the server does not print %q:\n%s", text, s.log)
		}
	}
}

// waitExit waits until the server has exited, with code 0.
func (s *server) waitExit() {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		s.t.Fatalf("the server does not exit:\n%s", s.log)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("the server exits with %d, want 0:\n%s", code, s.log)
	}
}

// ask sends inline commands, and reads the replies until the server closes the connection.
func (s *server) ask(commands ...string) string {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(strings.Join(commands, "\r\n") + "\r\nQUIT\r\n")); err != nil {
		s.t.Fatal(err)
	}
	return readAll(s.t, conn)
}
