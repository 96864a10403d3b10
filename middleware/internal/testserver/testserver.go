// Package testserver builds and runs the program throttled for tests.
package testserver

import (
	"bufio"
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
)

// patience is the timeout for expected events.
const patience = 2 * time.Minute

// Build builds the program into a temporary directory. The caller must call remove.
func Build() (program string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "throttled-middleware-tests-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) } // it is a temporary directory
	program = filepath.Join(dir, "throttled")
	if err := buildInto(program); err != nil {
		remove()
		return "", nil, fmt.Errorf("build the server: %w", err)
	}
	return program, remove, nil
}

// buildInto builds the program in the root directory of the repository.
func buildInto(program string) error {
	root, err := repository()
	if err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", program, "./cmd/throttled")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// repository returns the root directory of the repository, which contains the module of this package.
func repository() (string, error) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/throttledhq/throttled/middleware")
	list.Stderr = os.Stderr
	module, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(module))), nil
}

// Main builds the program, sets *program to its path, runs the tests of a package, and returns the exit code.
func Main(m *testing.M, program *string) int {
	path, remove, err := Build()
	if err != nil {
		return fail(err)
	}
	defer remove()
	*program = path
	return m.Run()
}

// MainWithServer is like Main, but also starts a server with rules for the examples of the package, and sets *addr to its
// address.
func MainWithServer(m *testing.M, rules string, program, addr *string) int {
	path, remove, err := Build()
	if err != nil {
		return fail(err)
	}
	defer remove()
	file := filepath.Join(filepath.Dir(path), "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return fail(err)
	}
	s, err := launch(exec.Command(path, "--port", "0", "--rules", file))
	if err != nil {
		return fail(err)
	}
	defer s.kill()
	*program, *addr = path, s.Addr
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// Server is one run of the program.
type Server struct {
	Addr    string // host and port
	process *os.Process
	exited  chan struct{}

	mu    sync.Mutex
	lines []string
}

// Start runs the program on a free port until the test ends. The rules are the text of a rules file, or empty.
func Start(t testing.TB, program, rules string) *Server {
	t.Helper()
	return StartAt(t, program, rules, "0")
}

// StartAt is like Start, but uses a port.
func StartAt(t testing.TB, program, rules, port string) *Server {
	t.Helper()
	args := []string{"--port", port}
	if rules != "" {
		file := filepath.Join(t.TempDir(), "rules.yaml")
		if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--rules", file)
	}
	command := exec.Command(program, args...)
	command.Dir = t.TempDir()
	s, err := launch(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

var readyLine = regexp.MustCompile(`msg=ready .*addresses="?\[([^] ]+)`)

// launch starts a command and waits until the server listens.
func launch(command *exec.Cmd) (*Server, error) {
	command.Env = []string{} // the environment of the caller must not affect the program
	log, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	s := &Server{process: command.Process, exited: make(chan struct{})}
	ready := make(chan string, 1)
	go func() {
		defer close(s.exited)
		s.follow(log, ready)
		_ = command.Wait() // the test kills the process
	}()
	select {
	case s.Addr = <-ready:
		return s, nil
	case <-s.exited:
		return nil, fmt.Errorf("the server exited during startup; log:\n%s", s.Log())
	case <-time.After(patience):
		s.kill()
		return nil, fmt.Errorf("the server is not ready after %v; log:\n%s", patience, s.Log())
	}
}

// follow stores the lines of a log, and sends the first address that the server listens on to ready.
func (s *Server) follow(log io.Reader, ready chan<- string) {
	for lines := bufio.NewScanner(log); lines.Scan(); {
		s.mu.Lock()
		s.lines = append(s.lines, lines.Text())
		s.mu.Unlock()
		if found := readyLine.FindStringSubmatch(lines.Text()); found != nil {
			ready <- found[1]
		}
	}
}

// Log returns the log of the server.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// Port returns the port of the server.
func (s *Server) Port(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Kill kills the server (SIGKILL), and waits until it has exited.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGKILL)
	<-s.exited
}

// kill is like Kill, but the server may have exited before.
func (s *Server) kill() {
	_ = s.process.Kill() // it fails if the process has exited
	<-s.exited
}

// Pause pauses the server (SIGSTOP): its connections stay open, and it does not answer. It needs Linux.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
	timeout := time.After(patience)
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for !s.isPaused(t) { // the threads of the process stop after the signal was sent
		select {
		case <-again.C:
		case <-timeout:
			t.Fatalf("the server is not paused after %v", patience)
		}
	}
}

// isPaused reports whether all threads of the server are paused.
func (s *Server) isPaused(t testing.TB) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.process.Pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads of the server: %v", err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil || !strings.Contains(string(stat), ") T ") {
			return false
		}
	}
	return true
}

// Resume ends a pause.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGCONT)
}

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.process.Signal(sig); err != nil {
		t.Errorf("send %v to the server: %v", sig, err)
	}
}
