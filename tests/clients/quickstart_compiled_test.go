package clienttests

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// compiledQuickStarts has the command of each program in examples/clients for Go, Java and Rust, and the set of clients
// that it needs.
var compiledQuickStarts = []struct {
	set     string
	command []string
}{
	{"go", []string{"go", "run", quickStartFile("limit.go")}},
	{"java", []string{"java", "-cp", "{cache}/java/lib/*", quickStartFile("Limit.java")}},
	{"rust", []string{"{cache}/rust/debug/limit"}},
}

func quickStartFile(name string) string {
	return filepath.Join("..", "..", "examples", "clients", name)
}

// TestQuickStartsCompiled kills the leader while programs of examples/clients run, as TestQuickStarts does. It always
// runs the program for Go, and the others if the option -matrix selects their sets.
func TestQuickStartsCompiled(t *testing.T) {
	c := startTrio(t, usualBeat)
	leader := c.awaitLeader(t)
	sets := strings.Split(*matrixClients, ",")
	running := map[string]*session{}
	for _, q := range compiledQuickStarts {
		if q.set == "go" || slices.Contains(sets, q.set) || slices.Contains(sets, "all") {
			s := startQuickStart(t, c, leader, inCache(t, q.command), nil)
			s.expect(t, q.set, "admitted; 15 remain")
			s.expect(t, q.set, "admitted; 14 remain")
			running[q.set] = s
		}
	}
	c.kill(t, leader)
	for set, s := range running {
		s.expect(t, set, "admitted; 13 remain")
		_ = s.in.Close() // the program may have exited
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("%s: the program exits with %v; standard error:\n%s", set, err, &s.stderr)
		}
	}
}
