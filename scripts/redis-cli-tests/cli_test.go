package rediscli

import (
	"io"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestThroughRedisCLI holds the conversations that redis-cli can hold with the program
// as it is built. What redis-cli prints tells the types of replies.
func TestThroughRedisCLI(t *testing.T) {
	tool(t, "redis-cli") // missing, it fails the test once and not each section
	where := startProgram(t)
	all, some := eachSection(t, (*section).runsInCLI, inTime(func(t testing.TB, sec *section) {
		where.prepare(t, sec)
		playCLI(t, sec, where)
	}))
	t.Logf("%d of %d commands", some, all)
	if some*2 < all {
		t.Error("less than half of the corpus goes through redis-cli")
	}
}

// cli is a redis-cli that reads commands from a pipe.
type cli struct {
	in  io.WriteCloser
	out <-chan string
}

func startCLI(t testing.TB, addr string, resp3 bool) cli {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tool(t, "redis-cli"), "-h", host, "-p", port, "--no-raw")
	if resp3 {
		cmd.Args = append(cmd.Args, "-3")
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	return cli{in, lines(t, cmd)}
}

// playCLI holds a conversation with a redis-cli for each connection.
func playCLI(t testing.TB, sec *section, where place) {
	clis, vars := map[string]cli{}, where.known()
	for _, st := range sec.steps {
		c, running := clis[st.conn]
		if !running {
			c = startCLI(t, where.at(st.conn), sec.resp3)
			clis[st.conn] = c
		}
		if st.kind == send {
			if _, err := io.WriteString(c.in, vars.fill(st.text)+"\n"); err != nil {
				t.Fatalf("%v: %v", st, err)
			}
			continue
		}
		if !c.shows(t, st, vars) {
			t.FailNow()
		}
	}
	for name, c := range clis {
		_ = c.in.Close()
		if line, ok := nextLine(c.out); ok {
			t.Errorf("connection %s: redis-cli shows more than expected: %s", name, line)
		}
	}
}

// duration is what redis-cli adds to a reply that has taken long.
var duration = regexp.MustCompile(`^\(\d+\.\d\ds\)$`)

// shows reads what a reply looks like, and compares.
func (c cli) shows(t testing.TB, st *step, vars variables) bool {
	tree, err := parseReply(vars.fill(st.text))
	if err != nil {
		t.Errorf("%v: %v", st, err)
		return false
	}
	for _, wantLine := range strings.Split(tree.render(""), "\n") {
		got, ok := nextLine(c.out)
		for ok && duration.MatchString(got) {
			got, ok = nextLine(c.out)
		}
		if !ok || !vars.match(wantLine, got) {
			t.Errorf("%s:%d: redis-cli shows\n     %s\nwant %s", st.file, st.line, got, vars.fill(wantLine))
			return false
		}
	}
	return true
}
