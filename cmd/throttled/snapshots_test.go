package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/persistence"
)

const loading = "-LOADING"

// charges charges one unit to a limit of 16 units, of which one is restored per hour. It checks that the reply shows
// exactly n charges, including this one.
func (r *running) charges(n int) {
	r.t.Helper()
	got := r.ask("CL.THROTTLE user 15 1 3600")
	head := fmt.Sprintf("*5\r\n:0\r\n:16\r\n:%d\r\n:-1\r\n:", 16-n)
	reset, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(got, head), "\r\n"))
	if longest := n * 3600; err != nil || reset > longest || reset < longest-600 { // time has passed since the first charge
		r.t.Errorf("charge number %d is answered with %q, want the remaining units and the reset time after that many charges", n, got)
	}
}

// startIn starts a program with dir as its snapshot directory and waits until the snapshot is loaded.
func startIn(t *testing.T, dir string, args ...string) *running {
	t.Helper()
	r := start(t, append(args, "--dir", dir)...)
	deadline := time.Now().Add(patience)
	for strings.HasPrefix(r.ask("PING"), loading) {
		if time.Now().After(deadline) {
			t.Fatal("the server does not become ready")
		}
	}
	return r
}

// end stops a program and waits until it exits, which releases the directory.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	r.wait()
}

func TestStateSurvives(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	steps := []struct {
		name, last string // last is the last command, or "" to stop the program with a signal only
		args       []string
		next       int // expected number of charges after the first charge of the next run
	}{
		{"SAVE", "SAVE", nil, 2},
		{"SHUTDOWN SAVE", "SHUTDOWN SAVE", nil, 3},
		{"SHUTDOWN NOSAVE", "SHUTDOWN NOSAVE", []string{"--save", "3600 1"}, 3},
		{"a signal without save points", "", nil, 3},
		{"a signal with save points", "", []string{"--save", "3600 1"}, 4},
		{"SHUTDOWN with save points", "SHUTDOWN", []string{"--save", "3600 1"}, 5},
	}
	next := 1
	for _, step := range steps {
		r := startIn(t, dir, step.args...)
		r.charges(next)
		if step.last != "" {
			r.ask(step.last)
		}
		r.end()
		next = step.next
	}
}

// TestEveryKindSurvives checks that charges of each kind of limit survive a restart.
func TestEveryKindSurvives(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	limits := []string{
		"THROTTLE throttle 9 1 1d", "WINDOW sliding 10 36500d", "WINDOW fixed 10 36500d FIXED", "WINDOW log 10 1d LOG",
		"WINDOW buckets 10 36500d BUCKETS 5", "BUCKET bucket 10 1 1d", "LEAKY leaky 10 1 1d",
	}
	charge := func(r *running, want string) {
		t.Helper()
		for _, limit := range limits {
			if got := r.ask("CL.ALL 4 " + limit); !strings.HasPrefix(got, want) {
				t.Errorf("%s is answered with %q; want a reply that begins with %q", limit, got, want)
			}
		}
	}
	r := startIn(t, dir)
	charge(r, "*6\r\n:0\r\n:10\r\n:6\r\n:-1\r\n")
	r.wants("+OK\r\n", "SAVE")
	r.end()
	r = startIn(t, dir)
	charge(r, "*6\r\n:0\r\n:10\r\n:2\r\n:-1\r\n")
	charge(r, "*6\r\n:1\r\n:10\r\n:2\r\n")
	r.end()
}

// TestSavePoints checks that a snapshot is written when a save point is reached.
func TestSavePoints(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	r := startIn(t, dir)
	r.charges(1)
	r.wants("+OK\r\n", "CONFIG SET save \"1 1\"")
	deadline := time.Now().Add(patience)
	for !strings.Contains(r.ask("INFO persistence"), "rdb_saves:1\r\n") {
		if time.Now().After(deadline) {
			t.Fatal("no snapshot was written")
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "dump.thr")); err != nil {
		t.Error(err)
	}
	r.end()
}

// runs runs a program until it exits, and returns its log and error.
func runs(t *testing.T, args ...string) (string, error) {
	t.Helper()
	opts, err := options.Load(append(args, "--port", "0"), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	p, err := open(opts, &log)
	if err != nil {
		return log.String(), err
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return log.String(), p.run(ctx)
}

func TestDamagedSnapshot(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	for n := range 2 {
		r := startIn(t, dir)
		r.charges(n + 1)
		r.wants("+OK\r\n", "SAVE")
		r.end()
	}
	path := filepath.Join(dir, "dump.thr")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, len(good) / 2, len(good) - 1} {
		bad := bytes.Clone(good)
		bad[at] ^= 0x10
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		log, err := runs(t, "--dir", dir)
		if !errors.Is(err, persistence.ErrDamaged) || !strings.Contains(err.Error(), "dump.thr") || !strings.Contains(err.Error(), "byte ") {
			t.Errorf("byte %d changed: the program exits with %v, want ErrDamaged with file and byte; its log:\n%s", at, err, log)
		}
		if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, bad) {
			t.Errorf("byte %d changed: the refused snapshot was overwritten, or cannot be read: error %v", at, err)
		}
	}
	// The previous snapshot contains only one charge.
	r := startIn(t, dir, "--snapshot-fallback", "yes")
	r.charges(2)
	r.end()
}

// TestMissingSnapshot removes the latest snapshot and keeps the previous one. The program must fail to start, unless
// --snapshot-fallback is set.
func TestMissingSnapshot(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	for n := range 2 {
		r := startIn(t, dir)
		r.charges(n + 1)
		r.wants("+OK\r\n", "SAVE")
		r.end()
	}
	if err := os.Remove(filepath.Join(dir, "dump.thr")); err != nil {
		t.Fatal(err)
	}
	log, err := runs(t, "--dir", dir)
	if !errors.Is(err, persistence.ErrMissing) || !strings.Contains(err.Error(), "--snapshot-fallback yes") {
		t.Errorf("without dump.thr the program exits with %v, want ErrMissing with a hint at --snapshot-fallback; its log:\n%s", err, log)
	}
	// The previous snapshot contains only one charge.
	r := startIn(t, dir, "--snapshot-fallback", "yes")
	r.charges(2)
	r.wants("+OK\r\n", "SAVE")
	r.end()
	r = startIn(t, dir)
	r.charges(3)
	r.end()
}

// TestDirectoryIsTaken starts a second program in the same directory. It must run without saving if there are no
// snapshots and no save points, and must fail to start otherwise.
func TestDirectoryIsTaken(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	r := startIn(t, dir)
	second := startIn(t, dir) // has no snapshot and no save points
	if got := second.ask("SAVE"); !strings.HasPrefix(got, "-ERR") {
		t.Errorf("SAVE in a directory in use returns %q, want an error", got)
	}
	if got := second.ask(`CONFIG SET save "1 1"`); !strings.Contains(got, "it is in use by another process") {
		t.Errorf("CONFIG SET save in a directory in use returns %q, want an error with the reason", got)
	}
	second.wants("*2\r\n$4\r\nsave\r\n$0\r\n\r\n", "CONFIG GET save")
	second.end()
	if _, err := runs(t, "--dir", dir, "--save", "1 1"); !errors.Is(err, persistence.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second program with save points exits with %v, want ErrLocked with the directory", err)
	}
	r.wants("+OK\r\n", "SAVE")
	if _, err := runs(t, "--dir", dir); !errors.Is(err, persistence.ErrLocked) {
		t.Errorf("a second program in a directory with a snapshot exits with %v, want ErrLocked", err)
	}
	r.end()
}

// TestFullTableIsLoaded fills a table up to maxmemory, saves it, and restarts the program. All keys must be loaded,
// even if they need slightly more memory after the restart.
func TestFullTableIsLoaded(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	args := []string{"--maxmemory", "1000000"}
	commands := make([]string, 30_000)
	for i := range commands {
		commands[i] = fmt.Sprintf("CL.THROTTLE key%0*d 1 1 3600 2", i%7, i)
	}
	r := startIn(t, dir, args...)
	admitted := strings.Count(r.ask(commands...), "*5\r\n:0\r\n")
	if admitted == 0 || admitted == len(commands) {
		t.Fatalf("%d of the keys fit into maxmemory, want some but not all", admitted)
	}
	r.wants("+OK\r\n", "SAVE")
	r.end()
	r = startIn(t, dir, args...)
	if again := strings.Count(r.ask(commands...), "*5\r\n:1\r\n"); again != admitted {
		t.Errorf("%d keys were exhausted before the restart, %d after it; want the same number", admitted, again)
	}
	r.end()
}

// TestReasonIsInTheLogFile damages a snapshot in the middle, so that the program detects the damage only after it has
// opened its log file. The error must be in the log file, since standard error may not be visible to the operator.
func TestReasonIsInTheLogFile(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	r := startIn(t, dir)
	r.charges(1)
	r.wants("+OK\r\n", "SAVE")
	r.end()
	path := filepath.Join(dir, "dump.thr")
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(file, []byte("user"))
	file[at] ^= 1
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runs(t, "--dir", dir, "--logfile", "log.txt"); !errors.Is(err, persistence.ErrDamaged) {
		t.Errorf("the program exits with %v, want ErrDamaged", err)
	}
	if log, err := os.ReadFile(filepath.Join(dir, "log.txt")); err != nil || !strings.Contains(string(log), "damaged") {
		t.Errorf("the log file contains %q, error %v; want \"damaged\" in it", log, err)
	}
}

// TestLimitSetWhileLoading checks that a change of maxmemory during the load takes effect after the load.
func TestLimitSetWhileLoading(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	r := startIn(t, dir)
	r.charges(1)
	r.wants("+OK\r\n", "SAVE")
	r.end()
	opts, err := options.Load([]string{"--dir", dir, "--port", "0"}, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	p, err := open(opts, &lockedBuffer{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.release() }()
	if err := opts.Set([]options.Pair{{Name: "maxmemory", Value: "1"}}); err != nil {
		t.Fatal(err)
	}
	if err := p.load(t.Context()); err != nil {
		t.Fatalf("with maxmemory 1 the load fails: %v; the limit must apply only after the load", err)
	}
	rec := limiter.Record{Kind: limiter.Throttle, Key: []byte(strings.Repeat("x", 5000)), Expires: p.table.Now() + 1e9}
	if err := p.table.Put(rec); !errors.Is(err, limiter.ErrOutOfMemory) {
		t.Errorf("Put of a record after the load with maxmemory 1: error %v, want ErrOutOfMemory", err)
	}
	if err := p.shutdown(); err != nil {
		t.Error(err)
	}
}

// TestSnapshotBehind loads a snapshot whose limiter time is decades behind the wall clock, like the log time of a cluster that
// had no majority for a while. This time must not restore units.
func TestSnapshotBehind(t *testing.T) {
	file := snapshotOf(t, throttleRecord("user", uint64(16*time.Hour)))
	r := startIn(t, filepath.Dir(file))
	if got := r.ask("CL.THROTTLE user 15 1 3600"); !strings.HasPrefix(got, "*5\r\n:1\r\n:16\r\n:0\r\n") {
		t.Errorf("a limit that was used up is answered with %q, want a refusal", got)
	}
}
