package recipes

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/freeport"
	"github.com/throttledhq/throttled/internal/procpause"
	"github.com/throttledhq/throttled/internal/testbuild"
)

// patience is the timeout for expected events.
const patience = 2 * time.Minute

// password is that of the server. The applications get it as a part of a URL.
const password = "secret"

// program is the path of the server that TestMain has built.
var program string

func TestMain(m *testing.M) { os.Exit(testbuild.Main(m, &program)) }

// server is a server with the rules of an example. It can be killed and started again on the same port.
type server struct {
	addr, rules string
	process     *process
}

// startServer starts a server that runs until the test ends.
func startServer(t *testing.T, rules string) *server {
	t.Helper()
	s := &server{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(freeport.Of(t))), rules: rules}
	s.start(t)
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--port", port, "--requirepass", password, "--rules", s.rules)
	cmd.Dir, cmd.Env = t.TempDir(), []string{}
	s.process = startProcess(t, cmd)
	eventually(t, s.process, func() error {
		_, err := s.tryAsk(t.Context(), "PING")
		return err
	})
}

// url returns the address of the server for client libraries.
func (s *server) url() string { return "redis://:" + password + "@" + s.addr }

func (s *server) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := s.process.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("send %v to the server: %v", sig, err)
	}
}

// pause stops all threads of the server, until it receives SIGCONT.
func (s *server) pause(t *testing.T) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
	eventually(t, s.process, func() error { return procpause.Check(s.process.cmd.Process.Pid) })
}

// ask runs a command without spaces in its arguments, and returns the first line of the reply, or of the first element if
// the reply is an array.
func (s *server) ask(t *testing.T, command string) string {
	t.Helper()
	reply, err := s.tryAsk(t.Context(), command)
	if err != nil {
		t.Fatalf("command %q: %v", command, err)
	}
	return reply
}

func (s *server) tryAsk(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }() // the reply has been read
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, "AUTH %s\r\n%s\r\n", password, command); err != nil {
		return "", err
	}
	replies := bufio.NewReader(conn)
	if line, err := replies.ReadString('\n'); err != nil || line != "+OK\r\n" {
		return "", fmt.Errorf("AUTH returned %q, %w", line, err)
	}
	line, err := replies.ReadString('\n')
	if err == nil && strings.HasPrefix(line, "*") {
		line, err = replies.ReadString('\n')
	}
	return strings.TrimSpace(line), err
}
