package clienttests

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// patience is the timeout for expected events.
const patience = 2 * time.Minute

// program is the path of the server that TestMain has built.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "throttled-client-tests-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is a temporary directory
	program = filepath.Join(dir, "throttled")
	build := exec.Command("go", "build", "-o", program, "./cmd/throttled")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("build the server: %w\n%s", err, out))
	}
	keepGoRedisLog()
	code := m.Run()
	if odd := goRedisLog.odd(); len(odd) > 0 {
		return fail(fmt.Errorf("unexpected log of go-redis:\n%s", strings.Join(odd, "\n")))
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// server is one run of the program.
type server struct {
	addr     string
	password string
	process  *exec.Cmd
	ready    chan string   // receives the address when the server listens
	ended    chan struct{} // closed when the process has closed its log
	stopOnce sync.Once
	inTrio   bool             // the server is a node of a cluster, which logs more
	allowed  []*regexp.Regexp // patterns of additional lines that the log may contain

	mu    sync.Mutex
	lines []string
}

// start runs the server on a free port until the test ends.
func start(t *testing.T, password string) *server {
	t.Helper()
	return startOn(t, "0", password)
}

func startOn(t *testing.T, port, password string) *server {
	t.Helper()
	s := launch(t, password, "--port", port)
	s.awaitReady(t)
	return s
}

// launch starts the program, and stops it when the test ends.
func launch(t *testing.T, password string, args ...string) *server {
	t.Helper()
	s := &server{password: password, ready: make(chan string, 1), ended: make(chan struct{})}
	s.process = exec.Command(program, append(args, "--requirepass", password)...)
	s.process.Dir = t.TempDir()
	// The environment of the caller must not affect the program. GORACE disables the sleep of
	// the race detector at exit, which is not needed: its reports are already in the log.
	s.process.Env = []string{"GORACE=atexit_sleep_ms=0"}
	log, err := s.process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(t) })
	go s.follow(log)
	return s
}

// awaitReady waits until the server listens.
func (s *server) awaitReady(t *testing.T) {
	t.Helper()
	select {
	case s.addr = <-s.ready:
	case <-s.ended:
		t.Fatalf("the server exited during startup; log:\n%s", s.log())
	case <-time.After(patience):
		t.Fatalf("the server is not ready after %v; log:\n%s", patience, s.log())
	}
}

var addressInLog = regexp.MustCompile(`msg=ready .*addresses="?\[([^] ]+)`)

// follow keeps the lines of the log. It sends the first address that the server listens on to
// s.ready.
func (s *server) follow(log io.Reader) {
	defer close(s.ended)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		line := lines.Text()
		s.mu.Lock()
		s.lines = append(s.lines, line)
		s.mu.Unlock()
		if found := addressInLog.FindStringSubmatch(line); found != nil {
			s.ready <- found[1]
		}
	}
}

func (s *server) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// allow permits log lines that match pattern.
func (s *server) allow(pattern string) {
	s.allowed = append(s.allowed, regexp.MustCompile(pattern))
}

// stop stops the server with SIGTERM. The server must exit with code 0 within patience, even with connected
// clients, and its log must have no unexpected line.
func (s *server) stop(t *testing.T) {
	t.Helper()
	s.stopOnce.Do(func() {
		t.Helper()
		s.signal(t, syscall.SIGTERM)
		select {
		case <-s.ended:
		case <-time.After(patience):
			t.Errorf("the server is still running %v after SIGTERM", patience)
			s.signal(t, syscall.SIGKILL)
			<-s.ended
		}
		if err := s.process.Wait(); err != nil {
			t.Errorf("the server exited with %v, want exit code 0", err)
		}
		s.checkLog(t)
	})
}

func (s *server) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := s.process.Process.Signal(sig); err != nil {
		t.Errorf("send %v to the server: %v", sig, err)
	}
}

// checkLog checks that the log consists of the three lines of a normal run and allowed
// lines.
func (s *server) checkLog(t *testing.T) {
	t.Helper()
	if s.inTrio {
		s.checkNodeLog(t)
		return
	}
	rest := slices.DeleteFunc(strings.Split(s.log(), "\n"), func(line string) bool {
		return slices.ContainsFunc(s.allowed, func(re *regexp.Regexp) bool { return re.MatchString(line) })
	})
	want := []string{"msg=ready ", `msg="stopping: received a signal"`, "msg=stopped"}
	if !slices.EqualFunc(rest, want, func(line, part string) bool {
		return strings.Contains(line, "level=INFO "+part)
	}) {
		t.Errorf("unexpected log of the server:\n%s", s.log())
	}
}

// port returns the port as text.
func (s *server) port(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// ask sends one command on a separate connection.
func (s *server) ask(t *testing.T, args ...string) any {
	t.Helper()
	v, err := s.tryAsk(t.Context(), args...)
	if err != nil {
		t.Fatalf("command %q: %v", args, err)
	}
	return v
}

// tryAsk is like ask, but returns an error.
func (s *server) tryAsk(ctx context.Context, args ...string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := redis.DialContext(ctx, "tcp", s.addr, redis.DialPassword(s.password))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // the reply has been read
	v, err := redis.DoContext(conn, ctx, args[0], words(args[1:])...)
	return plain(v), err
}

// info returns a field of INFO.
func (s *server) info(t *testing.T, name string) string {
	t.Helper()
	text := s.ask(t, "INFO", "everything").(string)
	for line := range strings.SplitSeq(text, "\r\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return value
		}
	}
	t.Fatalf("INFO has no %s:\n%s", name, text)
	return ""
}

// eventually retries f until it succeeds.
func eventually(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no success after %v: %v", patience, err)
		case <-again.C:
		}
	}
}
