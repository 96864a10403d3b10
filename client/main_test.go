package client

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/internal/testbuild"
)

// patience is the timeout for expected events.
const patience = time.Minute

// program is the path of the server that TestMain has built.
var program string

// ExampleAddr is the address of a server for the examples.
var ExampleAddr string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds the program, starts the server of the examples, runs the tests, and returns the exit code.
func run(m *testing.M) int {
	path, remove, err := testbuild.Build()
	if err != nil {
		return testbuild.Fail(err)
	}
	defer remove()
	program = path
	n, err := launch(exec.Command(program, "--port", "0"))
	if err != nil {
		return testbuild.Fail(err)
	}
	defer n.kill()
	ExampleAddr = n.addr
	return m.Run()
}

// node is a run of the server.
type node struct {
	addr    string
	process *os.Process
	exited  chan struct{}
}

// start runs the server on a port until the test ends, and returns when it listens.
func start(t testing.TB, port string) *node {
	t.Helper()
	command := exec.Command(program, "--port", port)
	command.Dir = t.TempDir()
	n, err := launch(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
	return n
}

var (
	readyLine = regexp.MustCompile(`msg=ready .*addresses="?\[([^] ]+)`)
	errExited = errors.New("the server has exited during startup")
)

// launch starts the server, and returns when it listens.
func launch(command *exec.Cmd) (*node, error) {
	command.Env = []string{} // the environment of the tests must not affect the server
	log, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	n := &node{process: command.Process, exited: make(chan struct{})}
	ready := make(chan string, 1)
	go func() {
		defer close(n.exited)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if found := readyLine.FindStringSubmatch(lines.Text()); found != nil {
				ready <- found[1]
			}
		}
		_ = command.Wait() // the test kills the process
	}()
	select {
	case n.addr = <-ready:
		return n, nil
	case <-n.exited:
		return nil, errExited
	}
}

// kill kills the server, which may have exited, and waits until it has exited.
func (n *node) kill() {
	_ = n.process.Kill() // it fails if the process has exited
	<-n.exited
}

// port returns the port of the server.
func (n *node) port(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(n.addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (n *node) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := n.process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// dial returns a client of go-redis for a server.
func dial(t testing.TB, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() }) // a test may have closed it
	return rdb
}

// connect returns a Client that waits for decisions of a busy machine, unless the options have a timeout.
func connect(t testing.TB, rdb Redis, o Options) *Client {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = patience
	}
	c, err := New(rdb, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// must returns the limit, which is valid.
func must(l Limit, err error) Limit {
	if err != nil {
		panic(err)
	}
	return l
}

// allow returns the decision on a request.
func allow(t testing.TB, c *Client, key string, l Limit) Decision {
	t.Helper()
	d, err := c.Allow(t.Context(), key, l)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// eventually waits until a condition is met. It polls, because no event announces the condition.
func eventually(t testing.TB, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !met(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not met within %v: %s", patience, what)
		}
	}
}
