package persistence

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/throttledhq/throttled/internal/smalldisk"
)

// The tests in this file run this test binary as a child process. These environment
// variables select the function that the child process runs, and the parameters of the function.
const (
	roleEnv = "THROTTLED_TEST_ROLE"
	dirEnv  = "THROTTLED_TEST_DIR"
	haltEnv = "THROTTLED_TEST_HALT"
)

func TestMain(m *testing.M) {
	roles := map[string]func(dir string) error{
		"hold": hold, "try": try, "save": saveForever, "tmpfs": fillFileSystem, "rlimit": fillFile,
	}
	run, ok := roles[os.Getenv(roleEnv)]
	if !ok {
		os.Exit(m.Run())
	}
	err := run(os.Getenv(dirEnv))
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child is a child process.
type child struct {
	*exec.Cmd
	t     *testing.T
	in    io.WriteCloser
	lines *bufio.Scanner
}

func command(t *testing.T, role, dir string, env ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), append(env, roleEnv+"="+role, dirEnv+"="+dir, "GORACE=atexit_sleep_ms=0")...)
	return cmd
}

func start(t *testing.T, role, dir string, env ...string) *child {
	t.Helper()
	c := &child{Cmd: command(t, role, dir, env...), t: t}
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	must(t, err)
	c.in, err = c.StdinPipe() // the child process exits when the pipe is closed
	must(t, err)
	must(t, c.Start())
	c.lines = bufio.NewScanner(out)
	return c
}

// line returns the next line of output, and reports whether there is one. There is none after the
// child has exited.
func (c *child) line() (string, bool) {
	ok := c.lines.Scan()
	return c.lines.Text(), ok
}

// kill sends SIGKILL, and returns the output that has not been read yet.
func (c *child) kill() (rest []string) {
	c.t.Helper()
	must(c.t, c.Process.Kill())
	for line, ok := c.line(); ok; line, ok = c.line() {
		rest = append(rest, line)
	}
	_ = c.Wait() // reports that the process was killed
	return rest
}

func say(args ...any) { _, _ = fmt.Println(args...) }

// waitForParent blocks until the parent closes the standard input or exits.
func waitForParent() { _, _ = io.Copy(io.Discard, os.Stdin) }

// hold locks the directory until the process is killed.
func hold(dir string) error {
	if _, err := Open(Config{Dir: dir, Name: "dump.thr"}); err != nil {
		return err
	}
	say("held")
	waitForParent()
	return nil
}

// try opens the directory and prints the result.
func try(dir string) error {
	_, err := Open(Config{Dir: dir, Name: "another.thr"})
	say(errors.Is(err, ErrLocked), err)
	return nil
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	holder := start(t, "hold", dir)
	if line, _ := holder.line(); line != "held" {
		t.Fatalf("the process that holds the lock printed %q; want held", line)
	}
	s, err := Open(Config{Dir: dir, Name: "dump.thr"})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("while a different process holds the lock, Open returns %v, %v; want ErrLocked, and the directory in the text", s, err)
	}
	holder.kill()
	s, err = Open(Config{Dir: dir, Name: "dump.thr"})
	if err != nil {
		t.Fatalf("after the process that held the lock was killed, Open returns %v; want no error", err)
	}
	if _, err := Open(Config{Dir: dir, Name: "dump.thr"}); !errors.Is(err, ErrLocked) {
		t.Errorf("a second Open in the same process returns %v; want ErrLocked", err)
	}
	out, err := command(t, "try", dir).Output()
	if err != nil || !strings.HasPrefix(string(out), "true ") || !strings.Contains(string(out), dir) {
		t.Errorf("while this process holds the lock, the second process printed %q, %v; want true (ErrLocked), and the directory", out, err)
	}
	must(t, s.Close())
	out, err = command(t, "try", dir).Output()
	if err != nil || string(out) != "false <nil>\n" {
		t.Errorf("after Close, the second process printed %q, %v; want false (not ErrLocked), and <nil>", out, err)
	}
	if got := names(t, dir); got != "" {
		t.Errorf("after Close the directory holds %s; want no files", got)
	}
}

const savedKeys = 2000

// generation returns the state of generation g, which in this file is the state written by save
// number g. All records of a generation have the same expiry time, which depends on g, so that a
// mixture of two generations can be detected.
func generation(g uint64) *memory {
	m := newMemory(0)
	for i := range savedKeys {
		m.set(fmt.Sprint("key:", i), 1_000_000+g)
	}
	return m
}

// saveForever saves one generation after another until the process is killed. It prints
// "op" before each file operation, and "saved" with the generation after each save. It
// blocks at the operation with the number in THROTTLED_TEST_HALT.
func saveForever(dir string) error {
	halt, err := strconv.Atoi(os.Getenv(haltEnv))
	if err != nil {
		return err
	}
	f := &faulty{}
	s, err := Open(Config{Dir: dir, Name: "dump.thr", FS: f})
	if err != nil {
		return err
	}
	s.blockSize = 8 << 10
	f.fault = func(n int, op string) fault {
		say("op", op)
		if n == halt {
			say("halt")
			waitForParent()
		}
		return fault{}
	}
	f.n = 0
	state := newMemory(0)
	if err := load(s, state); err != nil {
		return err
	}
	for g := generationOf(state) + 1; ; g++ {
		s.state = generation(g)
		if err := s.Save(); err != nil {
			return err
		}
		say("saved", g)
	}
}

// load calls Load without a test context.
func load(s *Store, into State) error { return s.Load(context.Background(), into) }

// generationOf returns the number of the generation in m, or 0 if m is empty. It panics if m
// has records of several generations, or only some of the records of one.
func generationOf(m *memory) uint64 {
	if len(m.records) == 0 {
		return 0
	}
	g := m.records["key:0"].Expires
	for key, r := range m.records {
		if r.Expires != g || len(m.records) != savedKeys {
			panic(fmt.Sprintf("%d records; %s has %d and key:0 has %d", len(m.records), key, r.Expires, g))
		}
	}
	return g - 1_000_000
}

// checkKilled loads the snapshot left by a killed process. It must contain at least the
// last generation that the process reported as saved.
func checkKilled(t *testing.T, when, dir string, printed []string) {
	t.Helper()
	acknowledged := uint64(0)
	for _, line := range printed {
		if g, ok := strings.CutPrefix(line, "saved "); ok {
			n, err := strconv.ParseUint(g, 10, 64)
			must(t, err)
			acknowledged = n
		}
	}
	if got := generationOf(loadDir(t, dir)); got < acknowledged || got > acknowledged+1 && acknowledged > 0 {
		t.Errorf("%s: loaded generation %d, but generation %d was acknowledged; want the acknowledged generation or the next one", when, got, acknowledged)
	}
}

// TestKill_BeforeEachOperation kills processes that save, each immediately before a different
// operation of its first or second save.
func TestKill_BeforeEachOperation(t *testing.T) {
	dir := t.TempDir()
	seen := map[string]bool{}
	for halt := 25; halt < 80; halt++ {
		c := start(t, "save", dir, fmt.Sprint(haltEnv, "=", halt))
		var printed []string
		for {
			line, ok := c.line()
			if !ok {
				t.Fatalf("the process exited before it was killed; it had printed %q", printed)
			}
			printed = append(printed, line)
			if line == "halt" {
				break
			}
		}
		op := printed[len(printed)-2]
		seen[op] = true
		checkKilled(t, fmt.Sprint("before operation ", halt, ", ", op), dir, append(printed, c.kill()...))
	}
	for _, op := range []string{"create", "write", "sync", "close", "open", "read", "link", "rename", "remove", "syncdir"} {
		if !seen["op "+op] {
			t.Errorf("no process was killed before %s", op)
		}
	}
}

// TestKill_Anywhere kills processes that save, each after a different number of lines of output.
func TestKill_Anywhere(t *testing.T) {
	dir := t.TempDir()
	for round := range 20 {
		c := start(t, "save", dir, haltEnv+"=0")
		var printed []string
		for range 20 + 11*round {
			line, ok := c.line()
			if !ok {
				t.Fatalf("the process exited before it was killed; it had printed %q", printed)
			}
			printed = append(printed, line)
		}
		checkKilled(t, fmt.Sprint("round ", round), dir, append(printed, c.kill()...))
	}
}

// checkFull saves a state that does not fit into dir. The save must fail with the error want
// and leave the existing snapshot intact.
func checkFull(dir string, want error) error {
	s, err := Open(Config{Dir: dir, Name: "dump.thr"})
	if err != nil {
		return err
	}
	small, big := newMemory(100), &many{n: 100_000} // 2.7 MB
	if err := load(s, small); err != nil {
		return err
	}
	for range 3 {
		s.state = small
		if err := s.Save(); err != nil {
			return fmt.Errorf("save a state that fits: %w", err)
		}
		s.state = big
		if err := s.Save(); !errors.Is(err, want) {
			return fmt.Errorf("the save of a state that does not fit returned %w, want %w", err, want)
		}
		got, err := contentOf(s.path)
		if err != nil || len(got.records) != 100 {
			return fmt.Errorf("after the save of a state that does not fit: %d records, %w", len(got.records), err)
		}
		if !s.Status().LastFailed {
			return errors.New("the status does not show that the save failed")
		}
	}
	return s.Close()
}

// fillFileSystem runs checkFull on a small file system.
func fillFileSystem(dir string) error {
	smalldisk.Mount(dir, "256k")
	return checkFull(dir, syscall.ENOSPC)
}

// fillFile runs checkFull with a limit on the size of files.
func fillFile(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 256 << 10, Max: 256 << 10}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	return checkFull(dir, syscall.EFBIG)
}

// TestFull checks saves that fail because of a limit on the file size or a full file
// system. The limit on the file size works on every machine. The full file system is
// tested only if the machine permits a test to mount one.
func TestFull(t *testing.T) {
	if out, err := command(t, "rlimit", t.TempDir()).CombinedOutput(); err != nil {
		t.Errorf("with a limit on the file size, the child process fails: %v\n%s", err, out)
	}
	smalldisk.Run(t, command(t, "tmpfs", t.TempDir()))
}
