package fsutil

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Some tests start other processes, which run this test binary. Two environment variables give the
// role of such a process (a key of the map in TestMain) and the directory that it uses.
const (
	roleEnv = "THROTTLED_TEST_ROLE"
	dirEnv  = "THROTTLED_TEST_DIR"
)

func TestMain(m *testing.M) {
	roles := map[string]func(dir string) error{"hold": hold, "lock": lock, "sync": Sync, "wait": wait}
	run, ok := roles[os.Getenv(roleEnv)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := run(os.Getenv(dirEnv)); err != nil {
		_, _ = fmt.Fprint(os.Stderr, err)
		os.Exit(1)
	}
}

// lock acquires the lock and releases it.
func lock(dir string) error {
	f, err := Lock(dir)
	if err != nil {
		return fmt.Errorf("locked=%t: %w", errors.Is(err, ErrLocked), err)
	}
	return f.Close()
}

// hold holds the lock until the process is killed.
func hold(dir string) error {
	if _, err := Lock(dir); err != nil {
		return err
	}
	return wait(dir)
}

// wait prints that it is running, and returns at the end of the standard input.
func wait(string) error {
	_, _ = fmt.Println("here")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// command returns the command that runs this binary in a role. The before parameter is an optional
// command with arguments that runs the binary, such as strace.
func command(t *testing.T, role, dir string, before ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	args := append(before, exe)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role, dirEnv+"="+dir, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// stderrOf runs a process and returns its standard error, which is empty if the process succeeds.
func stderrOf(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var said strings.Builder
	cmd.Stderr = &said
	err := cmd.Run()
	if (err != nil) != (said.Len() > 0) {
		t.Fatalf("%q exits with %v and writes %q; want either an error and a text, or neither", cmd.Args, err, said.String())
	}
	return said.String()
}

// start starts a process that waits. The returned function kills it.
func start(t *testing.T, role, dir string) (kill func()) {
	t.Helper()
	cmd := command(t, role, dir)
	cmd.Stderr = os.Stderr
	_, err := cmd.StdinPipe() // the process waits for the end of its input
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "here\n" {
		t.Fatalf("the process with the role %s writes %q, %v; want the line \"here\"", role, line, err)
	}
	return func() {
		t.Helper()
		must(t, cmd.Process.Kill())
		if err := cmd.Wait(); cmd.ProcessState.Exited() {
			t.Fatalf("the process was not killed, it exited: %v", err)
		}
	}
}

// wantsLocked checks in this process and in another one that the lock is held.
func wantsLocked(t *testing.T, path string) {
	t.Helper()
	want := "lock the directory " + path + ": it is in use by another process"
	f, err := Lock(path)
	if f != nil || !errors.Is(err, ErrLocked) || err.Error() != want {
		t.Errorf("Lock(%s) = %v, %v although the lock is held; want %s", path, f, err, want)
	}
	if got := stderrOf(t, command(t, "lock", path)); got != "locked=true: "+want {
		t.Errorf("another process gets the error %q, want %q", got, want)
	}
}

// wantsFree checks in another process that the lock is free, and then acquires it in this process.
func wantsFree(t *testing.T, path string) *os.File {
	t.Helper()
	if got := stderrOf(t, command(t, "lock", path)); got != "" {
		t.Errorf("another process gets the error %q although the lock is free", got)
	}
	f, err := Lock(path)
	if err != nil {
		t.Fatalf("Lock(%s) fails although the lock is free: %v", path, err)
	}
	t.Cleanup(func() { _ = f.Close() }) // it may be closed already
	return f
}

func TestLock_OneProcess(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		f := wantsFree(t, dir)
		wantsLocked(t, dir)
		wantsLocked(t, dir) // a refused call has not released the lock
		must(t, f.Close())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("after the lock is released, the directory has the entries %v (error %v); want none", left, err)
	}
}

// TestLock_Together calls Lock concurrently. Exactly one call must succeed.
func TestLock_Together(t *testing.T) {
	const many = 50
	dir := t.TempDir()
	type answer struct {
		*os.File
		err error
	}
	answers := make(chan answer, many)
	for range many {
		go func() {
			f, err := Lock(dir)
			answers <- answer{f, err}
		}()
	}
	var holders []*os.File
	for range many {
		if a := <-answers; a.err == nil {
			holders = append(holders, a.File)
		} else if !errors.Is(a.err, ErrLocked) {
			t.Error(a.err)
		}
	}
	for _, f := range holders {
		must(t, f.Close())
	}
	if len(holders) != 1 {
		t.Errorf("%d calls acquired the lock, want 1", len(holders))
	}
}

func TestLock_HolderIsKilled(t *testing.T) {
	dir := t.TempDir()
	kill := start(t, "hold", dir)
	wantsLocked(t, dir)
	kill()
	wantsFree(t, dir)
}

// TestLock_NotInherited starts a process while the lock is held. The process is still
// running when the lock is released. The lock must then be free.
func TestLock_NotInherited(t *testing.T) {
	dir := t.TempDir()
	f := wantsFree(t, dir)
	kill := start(t, "wait", dir)
	must(t, f.Close())
	wantsFree(t, dir)
	kill()
}

// TestLock_Names tests one directory with several names, and several directories with one name.
func TestLock_Names(t *testing.T) {
	parent := t.TempDir()
	dir, link, moved := filepath.Join(parent, "dir"), filepath.Join(parent, "link"), filepath.Join(parent, "moved")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.Symlink(dir, link))
	wantsFree(t, dir)
	wantsLocked(t, link)
	wantsLocked(t, filepath.Join(dir, "..")+"/dir/.")
	wantsFree(t, parent)
	must(t, os.Rename(dir, moved))
	wantsLocked(t, moved)
	must(t, os.Mkdir(dir, 0o700))
	wantsFree(t, dir)
}

// TestNotThere tests paths of directories that cannot be opened.
func TestNotThere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	loop := filepath.Join(dir, "loop")
	must(t, os.Symlink(loop, loop))
	gone := filepath.Join(dir, "gone")
	for _, tt := range []struct{ path, want string }{
		{gone, "open " + gone + ": no such file or directory"},
		{gone + "/below", "open " + gone + "/below: no such file or directory"},
		{"", "open : no such file or directory"},
		{file + "/below", "open " + file + "/below: not a directory"},
		{loop, "open " + loop + ": too many levels of symbolic links"},
	} {
		f, err := Lock(tt.path)
		if f != nil || err == nil || err.Error() != tt.want || errors.Is(err, ErrLocked) {
			t.Errorf("Lock(%q) = %v, %v; want %s", tt.path, f, err, tt.want)
		}
		if err := Sync(tt.path); err == nil || err.Error() != tt.want {
			t.Errorf("Sync(%q) = %v; want %s", tt.path, err, tt.want)
		}
	}
	if err := Sync(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Sync of an absent directory: %v, want ErrNotExist", err)
	}
	if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent directory was created: %v", err)
	}
}

// TestSync makes the entries of empty, full and locked directories durable.
func TestSync(t *testing.T) {
	dir := t.TempDir()
	must(t, Sync(dir))
	for i := range 100 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
	}
	must(t, Sync(dir))
	wantsFree(t, dir)
	must(t, Sync(dir))
	wantsLocked(t, dir) // closing another descriptor of the directory does not release the lock
	if names, err := os.ReadDir(dir); err != nil || len(names) != 100 {
		t.Errorf("after Sync the directory has %d names, %v; want 100", len(names), err)
	}
}

func TestSameState(t *testing.T) {
	dir := t.TempDir()
	state := func(name, text string) os.FileInfo {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		info, err := os.Stat(path)
		must(t, err)
		return info
	}
	first := state("a", "1")
	for name, test := range map[string]struct {
		a, b os.FileInfo
		want bool
	}{
		"none":       {nil, nil, true},
		"same":       {first, first, true},
		"removed":    {first, nil, false},
		"created":    {nil, first, false},
		"other file": {first, state("b", "1"), false},
		"other size": {first, state("a", "12"), false},
	} {
		if got := SameState(test.a, test.b); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}
