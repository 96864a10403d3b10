package clienttests

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// quickStarts has the command of each program in examples/clients that a set of clients runs.
var quickStarts = []struct {
	file    string
	command []string
	env     []string
}{
	{"limit.py", []string{"/usr/bin/python3"}, nil},
	{"limit.js", []string{"node"}, []string{nodePath}},
	{"limit.php", []string{"php"}, nil},
	{"limit.rb", []string{"ruby"}, nil},
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

// TestQuickStarts runs each program of examples/clients with a cluster. Each must answer when the leader is killed, and
// the charges before must still count.
func TestQuickStarts(t *testing.T) {
	c := startTrio(t, usualBeat)
	leader := c.awaitLeader(t)
	sessions := make([]*session, len(quickStarts))
	for i, q := range quickStarts {
		sessions[i] = startQuickStart(t, c, leader, append(q.command, filepath.Join("..", "..", "examples", "clients", q.file)), q.env)
		sessions[i].expect(t, q.file, "admitted; 15 remain")
		sessions[i].expect(t, q.file, "admitted; 14 remain")
	}
	c.kill(t, leader)
	for i, q := range quickStarts {
		sessions[i].expect(t, q.file, "admitted; 13 remain")
		_ = sessions[i].in.Close() // the program may have exited
		if err := sessions[i].cmd.Wait(); err != nil {
			t.Errorf("%s exits with %v; standard error:\n%s", q.file, err, &sessions[i].stderr)
		}
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

// expect sends a name, and checks the answer.
func (s *session) expect(t *testing.T, file, want string) {
	t.Helper()
	if _, err := fmt.Fprintln(s.in, file); err != nil {
		t.Errorf("%s: %v", file, err)
	}
	timer := time.AfterFunc(answerTimeout, func() { _ = s.cmd.Process.Kill() }) // fails if the program has exited
	defer timer.Stop()
	if !s.out.Scan() || s.out.Text() != want {
		t.Errorf("%s prints %q, want %q; standard error:\n%s", file, s.out.Text(), want, &s.stderr)
	}
}
