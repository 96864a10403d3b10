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
)

// The tests in this file run other processes, which are this test binary with a role.
const (
	roleEnv = "THROTTLED_TEST_ROLE"
	dirEnv  = "THROTTLED_TEST_DIR"
	haltEnv = "THROTTLED_TEST_HALT"
)

// exitNotPermitted says that the system does not let a process have a role.
const exitNotPermitted = 77

func TestMain(m *testing.M) {
	roles := map[string]func(dir string) error{
		"hold": hold, "try": try, "save": saveForEver, "tmpfs": fillFileSystem, "rlimit": fillFile,
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

// child is another process.
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
	c.in, err = c.StdinPipe() // the roles end when it does
	must(t, err)
	must(t, c.Start())
	c.lines = bufio.NewScanner(out)
	return c
}

// line is the next that the child prints; ok is false if it has ended.
func (c *child) line() (string, bool) {
	ok := c.lines.Scan()
	return c.lines.Text(), ok
}

// kill is kill -9. It returns what the child had printed that was not read yet.
func (c *child) kill() (rest []string) {
	c.t.Helper()
	must(c.t, c.Process.Kill())
	for line, ok := c.line(); ok; line, ok = c.line() {
		rest = append(rest, line)
	}
	_ = c.Wait() // says that it was killed
	return rest
}

func say(args ...any) { _, _ = fmt.Println(args...) }

// waitForParent returns when the parent closes the standard input, or ends.
func waitForParent() { _, _ = io.Copy(io.Discard, os.Stdin) }

// hold has the lock until it is killed.
func hold(dir string) error {
	if _, err := Open(Config{Dir: dir, Name: "dump.thr"}); err != nil {
		return err
	}
	say("held")
	waitForParent()
	return nil
}

// try says what a second process is told.
func try(dir string) error {
	_, err := Open(Config{Dir: dir, Name: "another.thr"})
	say(errors.Is(err, ErrLocked), err)
	return nil
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	holder := start(t, "hold", dir)
	if line, _ := holder.line(); line != "held" {
		t.Fatalf("the holder says %q", line)
	}
	s, err := Open(Config{Dir: dir, Name: "dump.thr"})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("beside another process: %v, %v", s, err)
	}
	holder.kill()
	s, err = Open(Config{Dir: dir, Name: "dump.thr"})
	if err != nil {
		t.Fatalf("after the holder was killed: %v", err)
	}
	if _, err := Open(Config{Dir: dir, Name: "dump.thr"}); !errors.Is(err, ErrLocked) {
		t.Errorf("in the same process: %v", err)
	}
	out, err := command(t, "try", dir).Output()
	if err != nil || !strings.HasPrefix(string(out), "true ") || !strings.Contains(string(out), dir) {
		t.Errorf("another process is told %q, %v", out, err)
	}
	must(t, s.Close())
	out, err = command(t, "try", dir).Output()
	if err != nil || string(out) != "false <nil>\n" {
		t.Errorf("after Close another process is told %q, %v", out, err)
	}
	if got := names(t, dir); got != "" {
		t.Errorf("locking leaves %s", got)
	}
}

const savedKeys = 2000

// generation is a state whose records all have the same time, so that a mixture of two
// shows.
func generation(g uint64) *memory {
	m := newMemory(0)
	for i := range savedKeys {
		m.set(fmt.Sprint("key:", i), 1_000_000+g)
	}
	return m
}

// saveForEver saves one generation after the other, and says what it does: "op" before each
// operation on files, "saved" with the generation after each save. At the operation that
// it is told it waits to be killed.
func saveForEver(dir string) error {
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

// load is Load outside of a test.
func load(s *Store, into State) error { return s.Load(context.Background(), into) }

// generationOf is 0 if there is nothing, and panics on a mixture.
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

// checkKilled loads what a killed process left, which must hold at least the last
// generation that it said it had saved.
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
		t.Errorf("%s: generation %d is loaded; %d was acknowledged", when, got, acknowledged)
	}
}

// TestKill_BeforeEachOperation kills a process right before each operation of its second
// or third save.
func TestKill_BeforeEachOperation(t *testing.T) {
	dir := t.TempDir()
	seen := map[string]bool{}
	for halt := 25; halt < 80; halt++ {
		c := start(t, "save", dir, fmt.Sprint(haltEnv, "=", halt))
		var printed []string
		for {
			line, ok := c.line()
			if !ok {
				t.Fatalf("the process ends by itself after %q", printed)
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

// TestKill_Anywhere kills processes while they go on.
func TestKill_Anywhere(t *testing.T) {
	dir := t.TempDir()
	for round := range 20 {
		c := start(t, "save", dir, haltEnv+"=0")
		var printed []string
		for range 20 + 11*round {
			line, ok := c.line()
			if !ok {
				t.Fatalf("the process ends by itself after %q", printed)
			}
			printed = append(printed, line)
		}
		checkKilled(t, fmt.Sprint("round ", round), dir, append(printed, c.kill()...))
	}
}

// checkFull fills what dir is on by a state that does not fit, and sees that the save
// fails with want and harms nothing.
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
			return fmt.Errorf("save what fits: %w", err)
		}
		s.state = big
		if err := s.Save(); !errors.Is(err, want) {
			return fmt.Errorf("a save without room returns %w instead of %w", err, want)
		}
		got, err := contentOf(s.path)
		if err != nil || len(got.records) != 100 {
			return fmt.Errorf("after a save without room: %d records, %w", len(got.records), err)
		}
		if !s.Status().LastFailed {
			return errors.New("the status does not show that the save failed")
		}
	}
	return s.Close()
}

// fillFileSystem has a small file system of its own. Where the process may not mount
// one it exits with exitNotPermitted.
func fillFileSystem(dir string) error {
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k")
	}
	if err != nil {
		os.Exit(exitNotPermitted)
	}
	return checkFull(dir, syscall.ENOSPC)
}

// fillFile cannot write more than some bytes to one file.
func fillFile(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 256 << 10, Max: 256 << 10}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	return checkFull(dir, syscall.EFBIG)
}

// TestFull runs into limits that are real. Not every machine lets a test mount a file
// system; the limit on the size of files works everywhere.
func TestFull(t *testing.T) {
	if out, err := command(t, "rlimit", t.TempDir()).CombinedOutput(); err != nil {
		t.Errorf("with files of limited size: %v\n%s", err, out)
	}
	cmd := command(t, "tmpfs", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	notPermitted := errors.As(err, &exit) && exit.ExitCode() == exitNotPermitted
	if notPermitted || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Logf("no file system could be mounted (%v): the limit on files has to do", err)
		return
	}
	if err != nil {
		t.Errorf("on a small file system: %v\n%s", err, out)
	}
}
