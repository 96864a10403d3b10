package rediscli

import (
	"io"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestThroughRedisCLI runs the sections that redis-cli supports against the built program. The
// output of redis-cli shows the types of replies.
func TestThroughRedisCLI(t *testing.T) {
	tool(t, "redis-cli") // a missing redis-cli fails the test once, not in each section
	where := startProgram(t)
	all, some := eachSection(t, (*section).runsInCLI, inTime(func(t testing.TB, sec *section) {
		where.prepare(t, sec)
		playCLI(t, sec, where)
	}))
	t.Logf("redis-cli ran %d of %d commands", some, all)
	if some*2 < all {
		t.Error("redis-cli runs less than half of the corpus")
	}
}

// cli is a redis-cli process that reads commands from a pipe.
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

// playCLI runs a section with one redis-cli per connection.
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
				t.Fatalf("%v: write to redis-cli: %v", st, err)
			}
			continue
		}
		if !c.matchReply(t, st, vars) {
			t.FailNow()
		}
	}
	for name, c := range clis {
		_ = c.in.Close()
		if line, ok := nextLine(c.out); ok {
			t.Errorf("connection %s: unexpected output of redis-cli: %s", name, line)
		}
	}
}

// duration matches the line that redis-cli prints after a slow reply.
var duration = regexp.MustCompile(`^\(\d+\.\d\ds\)$`)

// matchReply reads the output of redis-cli for one reply, and reports whether it matches the
// reply in the script.
func (c cli) matchReply(t testing.TB, st *step, vars variables) bool {
	tree, err := parseReply(vars.fill(st.text))
	if err != nil {
		t.Errorf("%v: parse the expected reply: %v", st, err)
		return false
	}
	for _, wantLine := range strings.Split(tree.render(""), "\n") {
		got, ok := nextLine(c.out)
		for ok && duration.MatchString(got) {
			got, ok = nextLine(c.out)
		}
		if !ok || !vars.match(wantLine, got) {
			t.Errorf("%s:%d: redis-cli prints\n     %s\nwant %s", st.file, st.line, got, vars.fill(wantLine))
			return false
		}
	}
	return true
}
