package clienttests

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// quickStart is a program in examples/clients.
type quickStart struct {
	name    string   // as in the errors of tests
	set     string   // the set of clients that it needs
	command []string // nil for a Go program, which the test builds
	env     []string
	costly  bool // runs only if the option -matrix selects the set
}

// quickStarts are the programs in examples/clients. A program for several versions of a client runs with each that is installed.
var quickStarts = []quickStart{
	{name: "limit.py (Debian)", set: "debian", command: []string{"/usr/bin/python3", quickStartFile("limit.py")}},
	{name: "limit.py", set: "python", command: []string{"{cache}/python/bin/python", quickStartFile("limit.py")}},
	{name: "limit_asyncio.py", set: "python", command: []string{"{cache}/python/bin/python", quickStartFile("limit_asyncio.py")}},
	{name: "limit.js", set: "node", command: []string{"node", quickStartFile("limit.js")}, env: []string{nodePath}},
	{name: "limit_node_redis.js", set: "node", command: []string{"node", quickStartFile("limit_node_redis.js")}, env: []string{nodePath}},
	{name: "limit.php", set: "debian", command: []string{"php", quickStartFile("limit.php")}},
	{name: "limit.rb", set: "debian", command: []string{"ruby", quickStartFile("limit.rb")}},
	{name: "limit_cluster.rb", set: "debian", command: []string{"ruby", quickStartFile("limit_cluster.rb")}},
	{name: "limit.go", set: "go"},
	{name: "limit_radix.go", set: "go", costly: true},
	{name: "Limit.java", set: "java", command: []string{"java", "-cp", "{cache}/java/lib/*", quickStartFile("Limit.java")}},
	{name: "LimitLettuce.java", set: "java", command: []string{"java", "-cp", "{cache}/java/lib/*", quickStartFile("LimitLettuce.java")}},
	{name: "limit.rs", set: "rust", command: []string{"{cache}/rust/debug/limit"}},
	{name: "limit_blocking.rs", set: "rust", command: []string{"{cache}/rust/debug/limit_blocking"}},
	{name: "limit_sentinel.rs", set: "rust", command: []string{"{cache}/rust/debug/limit_sentinel"}},
}

func quickStartFile(name string) string {
	return filepath.Join("..", "..", "examples", "clients", name)
}

// quickSets are the sets whose programs always run. The others run if the option -matrix selects them.
var quickSets = []string{"debian", "node", "go"}

func (q quickStart) selected() bool {
	words := strings.Split(*matrixClients, ",")
	return slices.Contains(quickSets, q.set) && !q.costly || slices.Contains(words, q.set) || slices.Contains(words, "all")
}

// prepared returns the command of the program, which it builds if it is a Go program.
func (q quickStart) prepared(t *testing.T) []string {
	t.Helper()
	if q.command != nil {
		return inCache(t, q.command)
	}
	program := filepath.Join(t.TempDir(), "limit")
	if done := runTool(t, "", tool(t, "go", "golang"), "build", "-o", program, quickStartFile(q.name)); done.code != 0 {
		t.Fatalf("build %s: %+v", q.name, done)
	}
	return []string{program}
}

// answerTimeout is the time in which a program must answer.
const answerTimeout = 30 * time.Second

// session is a running program that writes a line for each line that it reads.
type session struct {
	in     io.WriteCloser
	out    *bufio.Scanner
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// TestQuickStarts runs the programs of examples/clients with a cluster. Each must answer when the leader is killed, and after
// the leadership is transferred, and the charges before must still count.
func TestQuickStarts(t *testing.T) {
	commands := map[string][]string{}
	for _, q := range quickStarts {
		if q.selected() {
			commands[q.name] = q.prepared(t)
		}
	}
	c := startTrio(t, usualBeat)
	leader := c.awaitLeader(t)
	running := map[string]*session{}
	for _, q := range quickStarts {
		if q.selected() {
			running[q.name] = startQuickStart(t, c, leader, commands[q.name], q.env)
		}
	}
	expectEach(t, running, "admitted; 15 remain")
	expectEach(t, running, "admitted; 14 remain")
	c.kill(t, leader)
	expectEach(t, running, "admitted; 13 remain")
	c.restart(t, leader)
	c.transfer(t, leader)
	expectEach(t, running, "admitted; 12 remain")
	for name, s := range running {
		_ = s.in.Close() // the program may have exited
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("%s exits with %v; standard error:\n%s", name, err, &s.stderr)
		}
	}
}

// expectEach sends a name to each program, and checks the answers.
func expectEach(t *testing.T, running map[string]*session, want string) {
	t.Helper()
	for name, s := range running {
		s.expect(t, name, want)
	}
}

func startQuickStart(t *testing.T, c *trio, first string, command, env []string) *session {
	t.Helper()
	s := &session{cmd: exec.CommandContext(t.Context(), command[0], command[1:]...)}
	s.cmd.Env = append(append(os.Environ(), inCache(t, env)...), "THROTTLED_PASSWORD="+trioPassword,
		"THROTTLED_NODES="+strings.Join(c.all(first, portForCluster), ","), "THROTTLED_SENTINELS="+strings.Join(c.all(first, portForSentinel), ","))
	s.cmd.Stderr = &s.stderr
	s.cmd.WaitDelay = time.Second
	in, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in, s.out = in, bufio.NewScanner(out)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// expect sends the name of the program, and checks the answer.
func (s *session) expect(t *testing.T, name, want string) {
	t.Helper()
	if _, err := fmt.Fprintln(s.in, name); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	timer := time.AfterFunc(answerTimeout, func() { _ = s.cmd.Process.Kill() }) // fails if the program has exited
	defer timer.Stop()
	if !s.out.Scan() || s.out.Text() != want {
		t.Errorf("%s prints %q, want %q; standard error:\n%s", name, s.out.Text(), want, &s.stderr)
	}
}
