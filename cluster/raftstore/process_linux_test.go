package raftstore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/smalldisk"
)

// The tests in this file run child processes. A child process is this test binary with a role: a
// function that TestMain runs in place of the tests.
const (
	roleEnv = "THROTTLED_TEST_ROLE"
	dirEnv  = "THROTTLED_TEST_DIR"
	// limitEnv names the environment variable with the Config.Limit of the roles append and vote. If the
	// variable is not set, the default applies.
	limitEnv = "THROTTLED_TEST_LIMIT"
)

const (
	exitStopped = 75 // exit code that Config.Fatal must use
	entrySize   = 2 << 10
)

func TestMain(m *testing.M) {
	roles := map[string]func(dir string) error{
		"append": func(dir string) error { return appendForEver(dir, true) },
		"nosync": func(dir string) error { return appendForEver(dir, false) },
		"vote":   voteForEver, "hold": hold, "tmpfs": fillFileSystem,
		"delete": deleteForEver, "snapshot": snapshotForLong,
	}
	run, ok := roles[os.Getenv(roleEnv)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := run(os.Getenv(dirEnv)); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// stop is the Config.Fatal of a role.
func stop(err error) {
	_, _ = fmt.Println("stopping")
	_, _ = fmt.Fprintln(os.Stderr, "fatal:", err)
	os.Exit(exitStopped)
}

// openRole opens the store of a role.
func openRole(dir string, sync bool) (*Store, error) {
	limit, _ := time.ParseDuration(os.Getenv(limitEnv)) // 0 if not set
	return Open(Config{Dir: dir, Sync: sync, Limit: limit, Fatal: stop})
}

// endWithParent exits the process when its standard input is closed, by the parent or by the exit of the
// parent.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// appendForEver stores one entry after another, and prints the index of each stored entry.
func appendForEver(dir string, sync bool) error {
	go endWithParent()
	s, err := openRole(dir, sync)
	if err != nil {
		return err
	}
	if _, _, err := s.Claim("cluster", "node"); err != nil {
		return err
	}
	last, err := s.Logs().LastIndex()
	for ; err == nil; last++ {
		_, _ = fmt.Println("stored", last)
		err = s.Logs().StoreLog(command(last+1, entrySize))
	}
	return fmt.Errorf("the store returns: %w", err)
}

// deleteForEver repeatedly stores one entry and deletes it, as a follower does when a new leader
// replaces its newest entry.
func deleteForEver(dir string) error {
	go endWithParent()
	s, err := Open(Config{Dir: dir, Sync: true, Fatal: stop})
	if err != nil {
		return err
	}
	for n := 1; err == nil; n++ {
		if err = s.Logs().StoreLog(command(1, entrySize)); err == nil {
			_, _ = fmt.Println("stored", n)
			err = s.Logs().DeleteRange(1, 1)
		}
	}
	return fmt.Errorf("the store returns: %w", err)
}

// snapshotForLong writes a snapshot of 128 MiB.
func snapshotForLong(dir string) error {
	go endWithParent()
	s, err := Open(Config{Dir: dir, Fatal: stop})
	if err != nil {
		return err
	}
	_, transport := raft.NewInmemTransport("")
	sink, err := s.Snapshots().Create(1, 1, 1, raft.Configuration{}, 1, transport)
	chunk := make([]byte, 64<<10)
	for n := 1; err == nil && n <= 2048; n++ {
		if _, err = sink.Write(chunk); err == nil {
			_, _ = fmt.Println("stored", n)
		}
	}
	return fmt.Errorf("the store returns: %w", err)
}

// voteForEver stores one term after another.
func voteForEver(dir string) error {
	go endWithParent()
	s, err := openRole(dir, false)
	if err != nil {
		return err
	}
	if _, _, err := s.Claim("cluster", "node"); err != nil {
		return err
	}
	for term := uint64(1); err == nil; term++ {
		if err = s.Stable().SetUint64([]byte("CurrentTerm"), term); err == nil {
			_, _ = fmt.Println("stored", term)
		}
	}
	return fmt.Errorf("the store returns: %w", err)
}

// hold keeps the directory locked until the standard input of the process is closed.
func hold(dir string) error {
	if _, err := Open(Config{Dir: dir, Fatal: stop}); err != nil {
		return err
	}
	_, _ = fmt.Println("held")
	endWithParent()
	return nil
}

// roleCommand returns the command that runs a role. wrapper is optional: a program, such as strace, and
// its arguments. The program then runs the role.
func roleCommand(role, dir string, wrapper ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	args := append(wrapper, exe)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role, dirEnv+"="+dir, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// ending describes the exit of a role.
type ending struct {
	stored   uint64        // last number that it reported as stored: an index, a term or a count
	code     int           // exit code; -1 if it was killed
	stderr   string        // its standard error
	reported time.Duration // time from the last such report to the call of Fatal
	took     time.Duration // time from the last such report to the exit
}

// runRole runs a role until it exits. If kill is not 0, runRole kills the role after the role has
// reported the number kill, or a higher one, as stored.
func runRole(cmd *exec.Cmd, kill uint64) (e ending, err error) {
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return e, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return e, err
	}
	if err := cmd.Start(); err != nil {
		return e, err
	}
	last := time.Now()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "stored "); ok {
			e.stored, _ = strconv.ParseUint(n, 10, 64) // printed by fmt
			last = time.Now()
		}
		if lines.Text() == "stopping" {
			e.reported = time.Since(last)
		}
		if kill > 0 && e.stored >= kill {
			_ = cmd.Process.Kill() // may be called several times, until the output is closed
			_ = in.Close()         // makes the role exit if only its wrapper was killed
		}
	}
	_ = cmd.Wait() // the exit code is checked
	e.took, e.code, e.stderr = time.Since(last), cmd.ProcessState.ExitCode(), stderr.String()
	return e, nil
}

// checkStored reopens a directory. It must contain the entries that were reported as stored, and at most
// one more.
func checkStored(dir string, stored uint64) error {
	var reported error
	s, err := Open(Config{Dir: dir, Fatal: func(err error) { reported = err }})
	if err != nil {
		return err
	}
	if err := s.Check(); err != nil {
		return err
	}
	last, err := s.Logs().LastIndex()
	if err == nil && (last < stored || last > stored+1) {
		err = fmt.Errorf("the last index is %d; %d was acknowledged", last, stored)
	}
	if err == nil {
		err = s.Logs().StoreLog(command(last+1, entrySize))
	}
	return errors.Join(err, reported, s.Close())
}

// traced runs a role under strace, which injects failures of system calls as specified by inject. It
// returns the trace of these calls and of all pwrite64 calls.
func traced(t *testing.T, role, dir, inject string) (e ending, trace string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace")
	calls, _, _ := strings.Cut(inject, ":")
	args := []string{"strace", "-f", "-qq", "-y", "-o", path, "-e", "trace=pwrite64," + calls, "-e", "signal=none", "-e", "inject=" + inject}
	if calls == "write" { // only writes to the log, not to the standard output
		args = append(args, "-P", inCurrent(dir, "front-0000000000000001.log"))
	}
	e, err := runRole(roleCommand(role, dir, args...), 0)
	if err != nil {
		t.Fatalf("cannot run strace, which the tests need: %v", err)
	}
	b, err := os.ReadFile(path)
	must(t, err)
	return e, string(b)
}

// TestProcess_FailingDisk injects disk errors during writes. The process must exit immediately, must not
// write to the file again, and must not lose acknowledged entries.
func TestProcess_FailingDisk(t *testing.T) {
	t.Setenv(limitEnv, patience.String()) // a busy machine under strace may take longer than the default limit
	for _, role := range []string{"append", "vote"} {
		for _, inject := range []string{
			"fsync,fdatasync:error=EIO:when=40+", "fsync,fdatasync:error=ENOSPC:when=40", "pwrite64:error=EIO:when=100", "pwrite64:error=ENOSPC:when=101+",
			"write:error=EIO:when=50", "write:error=ENOSPC:when=51+",
		} {
			if role == "vote" && strings.HasPrefix(inject, "write") {
				continue // votes are written with pwrite64
			}
			dir := t.TempDir()
			e, trace := traced(t, role, dir, inject)
			if e.code != exitStopped || !strings.Contains(e.stderr, "fatal: "+dir) || strings.Count(e.stderr, "fatal") != 1 {
				t.Errorf("%s, %s: exit code %d, stderr %q; want code 75 and one fatal error with the path", role, inject, e.code, e.stderr)
			}
			if e.took > patience || e.stored == 0 {
				t.Errorf("%s, %s: the process exits %v after it has stored number %d; want at most a minute, and a number above 0", role, inject, e.took, e.stored)
			}
			_, after, injected := strings.Cut(trace, "(INJECTED)")
			if strings.Contains(after, "write") || !injected {
				t.Errorf("%s, %s: the system calls after the injected error are %q; want no write", role, inject, after)
			}
			if role == "append" {
				err := checkStored(dir, e.stored)
				if err != nil {
					t.Errorf("%s, %s: checkStored returns %v; want nil", role, inject, err)
				}
			}
		}
	}
}

// TestProcess_HangingDisk makes disk operations hang for 6 s. The watchdog must call Fatal
// meanwhile. The process exits only when the disk responds, because one of its threads is blocked in
// the kernel. The other threads exit immediately.
//
// TestWatchdog checks that Fatal is called soon after the limit.
func TestProcess_HangingDisk(t *testing.T) {
	t.Parallel()
	const hangs = 6 * time.Second
	var all sync.WaitGroup // the subtests run concurrently, since they mostly wait
	defer all.Wait()
	for _, tt := range []struct{ role, call, on string }{
		{"append", "fdatasync:when=40+", "front-"},
		{"vote", "fdatasync:when=40+", stableName},
		{"delete", "unlinkat:when=20+", "front-"},
		{"delete", "fsync:when=20+", currentName},
		{"snapshot", "fsync:when=10+", stateName},
	} {
		name := tt.role + " " + tt.call
		all.Go(func() {
			t.Run(name, func(t *testing.T) {
				e, trace := traced(t, tt.role, t.TempDir(), fmt.Sprint(tt.call, ":delay_enter=", hangs.Microseconds()))
				if e.code != exitStopped || !strings.Contains(e.stderr, ErrStuck.Error()) {
					t.Errorf("exit code %d, stderr %q; want code 75 and ErrStuck", e.code, e.stderr)
				}
				if e.reported < defaultLimit/2 || e.reported > hangs || e.stored == 0 { // wide bounds: the test may read the output late
					t.Errorf("Fatal is called %v after number %d was stored; want 750 ms to 6 s, and a number above 0", e.reported, e.stored)
				}
				if last := lastCall(trace); !strings.Contains(last, tt.on) {
					t.Errorf("the last system call is %q; want one on %s", last, tt.on)
				}
			})
		})
	}
}

// lastCall returns the line of a trace at which the last system call begins. Lines about the end of a call, or of a thread,
// can follow.
func lastCall(trace string) (last string) {
	for line := range strings.Lines(trace) {
		if !strings.Contains(line, " resumed>") && !strings.Contains(line, "<detached ...>") {
			last = line
		}
	}
	return last
}

// TestProcess_SlowDisk checks that a disk that takes 300 ms per sync does not stop the process.
func TestProcess_SlowDisk(t *testing.T) {
	t.Parallel()
	for role, stored := range map[string]uint64{"append": 3, "delete": 2, "snapshot": 200} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			cmd := roleCommand(role, t.TempDir(), "strace", "-f", "-qq", "-o", "/dev/null",
				"-e", "trace=fdatasync,fsync", "-e", "signal=none", "-e", "inject=fdatasync,fsync:delay_enter=300000")
			e, err := runRole(cmd, stored)
			must(t, err)
			if took := time.Since(begin); e.stored < stored || took < 6*300*time.Millisecond || strings.Contains(e.stderr, "fatal") {
				t.Errorf("exit code %d after %v, last stored number %d, stderr %q; want at least 1.8 s, the number at which the test kills the role, and no fatal error", e.code, took, e.stored, e.stderr)
			}
		})
	}
}

// TestProcess_Killed kills processes during writes, with and without Sync. Acknowledged entries must not
// be lost.
func TestProcess_Killed(t *testing.T) {
	for _, role := range []string{"append", "nosync"} {
		dir := t.TempDir()
		stored := uint64(0)
		for range 8 {
			e, err := runRole(roleCommand(role, dir), stored+50)
			must(t, err)
			if e.code != -1 {
				t.Fatalf("%s: exit code %d, stderr %q; want -1, the code of a killed process", role, e.code, e.stderr)
			}
			if err := checkStored(dir, e.stored); err != nil {
				t.Fatalf("%s: checkStored returns %v; want nil", role, err)
			}
			stored = e.stored + 1
		}
	}
}

// TestProcess_Twice checks that a second process cannot open a directory that is in use.
func TestProcess_Twice(t *testing.T) {
	dir := t.TempDir()
	holder := roleCommand("hold", dir)
	in, err := holder.StdinPipe()
	must(t, err)
	out, err := holder.StdoutPipe()
	must(t, err)
	must(t, holder.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the first process printed %q, error %v; want \"held\"", line, err)
	}
	e, err := runRole(roleCommand("append", dir), 0)
	must(t, err)
	if e.code != 1 || !strings.Contains(e.stderr, dir) || !strings.Contains(e.stderr, ErrLocked.Error()) || e.took > patience {
		t.Errorf("the second process exits after %v with code %d, stderr %q; want code 1, the path and ErrLocked", e.took, e.code, e.stderr)
	}
	if _, err := Inspect(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("Inspect returns %v; want ErrLocked", err)
	}
	must(t, in.Close())
	must(t, holder.Wait())
	openStore(t, Config{Dir: dir})
}

// fillFileSystem mounts a small file system, fills it, and then frees space.
func fillFileSystem(dir string) error {
	smalldisk.Mount(dir, "4m")
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 6<<19), 0o600); err != nil {
		return err
	}
	log := filepath.Join(dir, "log")
	e, err := runRole(roleCommand("append", log), 0)
	if err != nil {
		return err
	}
	if e.code != exitStopped || e.took > patience || e.stored < 100 || !strings.Contains(e.stderr, syscall.ENOSPC.Error()) {
		return fmt.Errorf("on a full disk the role exited %v after storing %d with code %d, stderr %q", e.took, e.stored, e.code, e.stderr)
	}
	if s, err := Inspect(log); err != nil || s.LastLog < e.stored || s.LastLog > e.stored+1 {
		return fmt.Errorf("on a full disk the last index is %d instead of %d: %w", s.LastLog, e.stored, err)
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	return checkStored(log, e.stored)
}

// TestProcess_FullDisk mounts a small file system and fills it. If the machine does not permit the
// mount, the test does nothing. TestProcess_FailingDisk injects the error of a full disk instead.
func TestProcess_FullDisk(t *testing.T) {
	smalldisk.Run(t, roleCommand("tmpfs", t.TempDir()))
}
