package rediscli

import (
	"bufio"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/freeport"
)

// tool returns the path of a program. It fails the test if the program is missing.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is missing: apt-get install redis-tools redis-server (%v)", name, err)
	}
	return path
}

// lines starts a program and returns its output line by line. The program is killed at the end of
// the test unless it has exited.
func lines(t testing.TB, cmd *exec.Cmd) <-chan string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ch := make(chan string, 1<<10)
	go func() {
		defer close(ch)
		for s := bufio.NewScanner(out); s.Scan(); {
			ch <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range ch {
			// Wait must not be called before the output has been read.
		}
		_ = cmd.Wait() // the error reports the kill
	})
	return ch
}

// nextLine returns the next line of a program. ok is false if the program has exited, or
// prints no line within patience.
func nextLine(ch <-chan string) (line string, ok bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case line, ok = <-ch:
	case <-timer.C:
	}
	return line, ok
}

// awaitLine reads the output of a server up to a line that matches ready, and returns the
// match and its groups. Later output is discarded.
func awaitLine(t testing.TB, ch <-chan string, ready *regexp.Regexp) []string {
	t.Helper()
	var before []string
	for {
		line, ok := nextLine(ch)
		if !ok {
			t.Fatalf("the server does not become ready: %s", strings.Join(before, "\n"))
		}
		if m := ready.FindStringSubmatch(line); m != nil {
			go func() {
				for range ch {
					// A server whose output is not read would block.
				}
			}()
			return m
		}
		before = append(before, line)
	}
}

// buildProgram builds the program and returns its path.
func buildProgram(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "throttled")
	build := exec.Command("go", "build", "-o", path, "github.com/throttledhq/throttled/cmd/throttled")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	return path
}

// startProgram builds the program and starts it on a free port.
func startProgram(t testing.TB) place {
	t.Helper()
	out := lines(t, exec.Command(buildProgram(t), "--port", "0", "--dir", t.TempDir()))
	return place{addr: awaitLine(t, out, regexp.MustCompile(`msg=ready .*(127\.0\.0\.1:\d+)`))[1]}
}

// startRedis starts a redis-server with one database. The server does not save.
func startRedis(t testing.TB) place {
	t.Helper()
	path, port := tool(t, "redis-server"), strconv.Itoa(freeport.Of(t))
	out := lines(t, exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--databases", "1", "--dir", t.TempDir()))
	awaitLine(t, out, regexp.MustCompile(`Ready to accept connections`))
	return place{addr: net.JoinHostPort("127.0.0.1", port), redis: true}
}

// prepare resets a shared server to the state of a new one, and sets the options of a section until
// the end of the test.
func (where place) prepare(t testing.TB, sec *section) {
	t.Helper()
	admin, err := dial(where.addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"FLUSHALL", "CONFIG RESETSTAT", "SLOWLOG RESET"} {
		admin.mustAsk(t, line, "+OK")
	}
	admin.mustAsk(t, "LATENCY RESET", "<int>")
	undo := variables{}
	for _, pair := range sec.config {
		was, err := admin.ask("CONFIG GET " + pair[0])
		if err != nil || !(undo).match(`["<word>" "<any:`+plain(pair[0])+`>"]`, was) {
			t.Fatalf("CONFIG GET %s returns %s (error %v), want the option and its value", pair[0], was, err)
		}
		admin.mustAsk(t, "CONFIG SET "+pair[0]+" "+pair[1], "+OK")
	}
	admin.leave(t)
	if len(undo) > 0 {
		t.Cleanup(func() { where.restore(t, sec, undo) })
	}
}

// restore sets the options of a section to their previous values, which undo contains.
func (where place) restore(t testing.TB, sec *section, undo variables) {
	admin, err := dial(where.addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range sec.config {
		if pair[0] == "requirepass" {
			admin.mustAsk(t, "AUTH "+pair[1], "+OK")
		}
	}
	for _, pair := range sec.config {
		admin.mustAsk(t, `CONFIG SET `+pair[0]+` "`+undo[plain(pair[0])]+`"`, "+OK")
	}
	admin.leave(t)
}

// plain converts the name of an option to a valid name of a script variable: hyphens become underscores.
func plain(option string) string { return strings.ReplaceAll(option, "-", "_") }

// leave sends QUIT, and returns when the server has closed the connection.
func (w *wire) leave(t testing.TB) {
	t.Helper()
	w.mustAsk(t, "QUIT", "+OK")
	if text, _, err := w.reply(patience); text != closed {
		t.Fatalf("after QUIT: reply %s (error %v), want a closed connection", text, err)
	}
	_ = w.conn.Close()
}
