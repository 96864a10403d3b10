package dirs

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

// Some tests run other processes, which are this test binary with a role.
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

// lock takes the lock and gives it back.
func lock(dir string) error {
	f, err := Lock(dir)
	if err != nil {
		return fmt.Errorf("locked=%t: %w", errors.Is(err, ErrLocked), err)
	}
	return f.Close()
}

// hold has the lock until it is killed.
func hold(dir string) error {
	if _, err := Lock(dir); err != nil {
		return err
	}
	return wait(dir)
}

// wait says that it runs, and ends when the standard input does.
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

// command is a process with a role, run by the words before it, if there are any.
func command(t *testing.T, role, dir string, before ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	args := append(before, exe)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role, dirEnv+"="+dir, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// says is what a process writes to its standard error, which is empty if it ends well.
func says(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var said strings.Builder
	cmd.Stderr = &said
	err := cmd.Run()
	if (err != nil) != (said.Len() > 0) {
		t.Fatalf("%q ends with %v and says %q", cmd.Args, err, said.String())
	}
	return said.String()
}

// start starts a process that waits, and kills it when the returned function is called.
func start(t *testing.T, role, dir string) (kill func()) {
	t.Helper()
	cmd := command(t, role, dir)
	cmd.Stderr = os.Stderr
	_, err := cmd.StdinPipe() // it would end with the input
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "here\n" {
		t.Fatalf("the process that is to %s says %q, %v", role, line, err)
	}
	return func() {
		t.Helper()
		must(t, cmd.Process.Kill())
		if err := cmd.Wait(); cmd.ProcessState.Exited() {
			t.Fatalf("the process ended by itself: %v", err)
		}
	}
}

// wantsLocked checks that the lock is taken, in this process and for another.
func wantsLocked(t *testing.T, path string) {
	t.Helper()
	want := "lock the directory " + path + ": another process uses it"
	f, err := Lock(path)
	if f != nil || !errors.Is(err, ErrLocked) || err.Error() != want {
		t.Errorf("Lock(%s) of a holder = %v, %v; want %s", path, f, err, want)
	}
	if got := says(t, command(t, "lock", path)); got != "locked=true: "+want {
		t.Errorf("another process is told %q; want %q", got, want)
	}
}

// wantsFree checks that the lock is free for another process, and takes it.
func wantsFree(t *testing.T, path string) *os.File {
	t.Helper()
	if got := says(t, command(t, "lock", path)); got != "" {
		t.Errorf("another process is told %q of a lock that is free", got)
	}
	f, err := Lock(path)
	if err != nil {
		t.Fatalf("Lock(%s) that is free: %v", path, err)
	}
	t.Cleanup(func() { _ = f.Close() }) // it may be closed already
	return f
}

func TestLock_OneProcess(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		f := wantsFree(t, dir)
		wantsLocked(t, dir)
		wantsLocked(t, dir) // who was refused has not taken it away
		must(t, f.Close())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("locking leaves %v, %v", left, err)
	}
}

// TestLock_Together lets many ask at once: one of them gets it.
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
		t.Errorf("%d have the lock at the same time", len(holders))
	}
}

func TestLock_HolderIsKilled(t *testing.T) {
	dir := t.TempDir()
	kill := start(t, "hold", dir)
	wantsLocked(t, dir)
	kill()
	wantsFree(t, dir)
}

// TestLock_NotInherited has the holder start a process that outlives the lock.
func TestLock_NotInherited(t *testing.T) {
	dir := t.TempDir()
	f := wantsFree(t, dir)
	kill := start(t, "wait", dir)
	must(t, f.Close())
	wantsFree(t, dir)
	kill()
}

// TestLock_Names has one directory under several names, and several under one.
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

// TestNotThere asks for directories that cannot be opened.
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
		t.Errorf("Sync of a directory that is not there: %v", err)
	}
	if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that was not there is: %v", err)
	}
}

// TestSync makes names durable in directories that are empty, full and locked.
func TestSync(t *testing.T) {
	dir := t.TempDir()
	must(t, Sync(dir))
	for i := range 100 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
	}
	must(t, Sync(dir))
	wantsFree(t, dir)
	must(t, Sync(dir))
	wantsLocked(t, dir) // closing another descriptor of the directory gives nothing back
	if names, err := os.ReadDir(dir); err != nil || len(names) != 100 {
		t.Errorf("after Sync there are %d names, %v", len(names), err)
	}
}
