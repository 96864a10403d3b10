package rediscli

import (
	"fmt"
	"math/rand/v2"
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

// launcher runs scripts/cluster.sh, which "make cluster" runs.
type launcher struct {
	first int // port of the first node
	temp  string
	cmd   *exec.Cmd
	out   <-chan string
}

// launch starts the script with the given port of the first node, and stops it at the end
// of the test.
func launch(t *testing.T, first int) *launcher {
	t.Helper()
	tool(t, "redis-cli")
	tree, temp := t.TempDir(), t.TempDir()
	script, err := os.ReadFile("../cluster.sh")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(tree, "scripts", "cluster.sh")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, script, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(buildProgram(t)), filepath.Join(tree, "bin")); err != nil {
		t.Fatal(err)
	}
	l := &launcher{first: first, temp: temp, cmd: exec.Command("bash", path, "--raft-heartbeat", "1000")}
	l.cmd.Env = append(os.Environ(), "FIRST_PORT="+strconv.Itoa(first), "TMPDIR="+temp)
	l.out = lines(t, l.cmd)
	t.Cleanup(func() {
		_ = l.cmd.Process.Signal(syscall.SIGTERM) // the script then stops the nodes that are still running
		for _, ok := nextLine(l.out); ok; _, ok = nextLine(l.out) {
			// The remaining output is ignored.
		}
	})
	return l
}

// freePorts returns a port for the first node such that all ports that the script derives from it are free.
// All these ports are below the ephemeral ports, which any program may get at any time.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		first := 10000 + rand.IntN(2500)
		if free(first) {
			return first
		}
	}
	t.Fatal("no ports are free")
	return 0
}

func free(first int) bool {
	for node := range 3 {
		for _, above := range []int{0, 2, 4, 6, 20000} {
			ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+100*node+above))
			if err != nil {
				return false
			}
			_ = ln.Close() // it has no connections
		}
	}
	return true
}

// expect reads the output of the script up to a line that matches pattern. It returns the
// match and its groups.
func (l *launcher) expect(t *testing.T, pattern string) []string {
	t.Helper()
	var before []string
	for re := regexp.MustCompile(pattern); ; {
		line, ok := nextLine(l.out)
		if !ok {
			t.Fatalf("no line matches %s:\n%s", pattern, strings.Join(before, "\n"))
		}
		if m := re.FindStringSubmatch(line); m != nil {
			return m
		}
		before = append(before, line)
	}
}

// ends checks that the script exits with the given code, and that no files or listeners
// remain.
func (l *launcher) ends(t *testing.T, code int) {
	t.Helper()
	l.expect(t, `^all nodes have exited; removed .*$`)
	if line, ok := nextLine(l.out); ok {
		t.Errorf("unexpected output of the script: %s", line)
	}
	_ = l.cmd.Wait() // the exit code is checked
	if got := l.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("the script exits with %d, want %d", got, code)
	}
	if left, err := os.ReadDir(l.temp); err != nil || len(left) > 0 {
		t.Errorf("the script leaves the files %v (error %v), want none", left, err)
	}
	if !free(l.first) {
		t.Error("ports of the nodes are still in use")
	}
}

// decides waits until a node returns a decision.
func (l *launcher) decides(t *testing.T, node int) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(patience)
	for port := strconv.Itoa(l.first + 100*(node-1)); ; {
		out, _ := exec.Command("redis-cli", "-p", port, "CL.THROTTLE", "k", "1000", "1000", "1").CombinedOutput()
		if strings.HasPrefix(string(out), "0\n1001\n") {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("node %d does not return a decision; its last reply is %s", node, out)
		}
	}
}

// ready waits for the instructions of the script, and returns the process ids of the nodes, and the
// command that restarts nodes that have exited.
func (l *launcher) ready(t *testing.T) (pids []int, again string) {
	t.Helper()
	l.expect(t, fmt.Sprintf(`^  redis-cli -p %d CL\.THROTTLE `, l.first))
	m := l.expect(t, `^  kill -9 (\d+) .*n2 is (\d+), n3 is (\d+)`)
	for _, digits := range m[1:] {
		pid, err := strconv.Atoi(digits)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids, l.expect(t, `^  (kill -USR1 \d+) `)[1]
}

func end(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// TestMakeCluster kills and restarts each node in turn. The other nodes must continue.
func TestMakeCluster(t *testing.T) {
	l := launch(t, freePorts(t))
	pids, again := l.ready(t)
	for i, pid := range pids {
		end(t, pid, syscall.SIGKILL)
		l.expect(t, fmt.Sprintf(`^n%d exited with code 137$`, i+1))
		if got := l.expect(t, `^the other nodes keep running; .*: (kill .*)$`)[1]; got != again {
			t.Errorf("the script prints the restart command %q first and %q later, want the same", again, got)
		}
		l.decides(t, 1+(i+1)%3)
		if out, err := exec.Command("bash", "-c", again).CombinedOutput(); err != nil {
			t.Fatalf("restart command %s: %v: %s", again, err, out)
		}
		l.expect(t, fmt.Sprintf(`^n%d is running again as process \d+$`, i+1))
		l.decides(t, i+1)
	}
	end(t, l.cmd.Process.Pid, syscall.SIGINT)
	l.ends(t, 0)
}

// TestMakeCluster_Last terminates all nodes. The script must print their exit codes, and
// must exit after the last node.
func TestMakeCluster_Last(t *testing.T) {
	l := launch(t, freePorts(t))
	pids, _ := l.ready(t)
	for _, pid := range pids {
		end(t, pid, syscall.SIGTERM)
	}
	for range pids {
		l.expect(t, `^n\d exited with code 0$`)
	}
	l.expect(t, `^the last node has exited$`)
	l.ends(t, 0)
}

// TestMakeCluster_PortTaken starts the script while a port of the second node is in use.
// The script must print the error and the exit code of this node, stop the other nodes, and
// exit with code 1.
func TestMakeCluster_PortTaken(t *testing.T) {
	first := freePorts(t)
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+100))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
			_ = conn.Close() // unlike a node, it answers no command
		}
	}()
	l := launch(t, first)
	l.expect(t, `address already in use`)
	l.expect(t, `^n2 exited with code 1$`)
	_ = ln.Close() // l.ends checks that all ports are free
	l.ends(t, 1)
}
