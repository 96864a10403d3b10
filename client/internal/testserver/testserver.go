// Package testserver runs the program throttled for the tests of the client.
package testserver

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"github.com/throttledhq/throttled/internal/testbuild"
)

// program is the path of the server that Main has built.
var program string

// Main builds the program, starts a server for the examples of a package, sets *addr to its address, runs the tests, and
// returns the exit code for TestMain.
func Main(m *testing.M, addr *string) int {
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
	defer n.Kill()
	*addr = n.Addr
	return m.Run()
}

// Node is a run of the server.
type Node struct {
	Addr    string // host and port
	process *os.Process
	exited  chan struct{}
}

// Start runs the server on a port until the test ends, and returns when it listens.
func Start(t testing.TB, port string) *Node {
	t.Helper()
	command := exec.Command(program, "--port", port)
	command.Dir = t.TempDir()
	n, err := launch(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Kill)
	return n
}

var (
	readyLine = regexp.MustCompile(`msg=ready .*addresses="?\[([^] ]+)`)
	errExited = errors.New("the server has exited during startup")
)

// launch starts the server, and returns when it listens.
func launch(command *exec.Cmd) (*Node, error) {
	command.Env = []string{} // the environment of the tests must not affect the server
	log, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	n := &Node{process: command.Process, exited: make(chan struct{})}
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
	case n.Addr = <-ready:
		return n, nil
	case <-n.exited:
		return nil, errExited
	}
}

// Kill kills the server, which may have exited, and waits until it has exited.
func (n *Node) Kill() {
	_ = n.process.Kill() // it fails if the process has exited
	<-n.exited
}

// Port returns the port of the server.
func (n *Node) Port(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(n.Addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Signal sends a signal to the server.
func (n *Node) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := n.process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
