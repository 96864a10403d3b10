package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/internal/freeport"
	"github.com/throttledhq/throttled/persistence"
)

// redisSource starts a redis-server with a password. It stores the given number of limiter keys, as redis-cell does for
// CL.THROTTLE key 4 1 3600, and a string that is not a limiter key. It returns the URL of the server and a client.
func redisSource(t *testing.T, keys int) (string, *redis.Client) {
	t.Helper()
	port := strconv.Itoa(freeport.Of(t))
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir(), "--requirepass", "secret")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, Password: "secret"})
	t.Cleanup(func() {
		_ = client.Close()
		_ = cmd.Process.Kill() // it has no data to save
		_ = cmd.Wait()
	})
	ctx := context.Background()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); client.Ping(ctx).Err() != nil; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("redis-server does not answer")
		}
	}
	pipe := client.Pipeline()
	pipe.Set(ctx, "text", "hello", 0)
	for i := range keys {
		key := fmt.Sprint("user:", i)
		pipe.Set(ctx, key, time.Now().Add(time.Hour).UnixNano(), 0)
		pipe.PExpire(ctx, key, time.Hour)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	return "redis://:secret@127.0.0.1:" + port, client
}

// imports runs "throttled import". It checks the exit code, and that the output contains the given texts but not the
// password.
func imports(t *testing.T, code int, stdout, stderr string, args ...string) {
	t.Helper()
	var out, errs bytes.Buffer
	if got := words("import").run(context.Background(), args, &out, &errs); got != code {
		t.Errorf("import %q exits with %d; want %d\n%s", args, got, code, &errs)
	}
	if !strings.Contains(out.String(), stdout) || !strings.Contains(errs.String(), stderr) {
		t.Errorf("import %q prints %q on stdout and %q on stderr; want %q in stdout and %q in stderr", args, &out, &errs, stdout, stderr)
	}
	if strings.Contains(out.String()+errs.String(), "secret") {
		t.Errorf("import %q prints the password: stdout %q, stderr %q", args, &out, &errs)
	}
}

// TestImport imports the limits stored in a Redis server, and checks them in a throttled server that loads the
// snapshot.
func TestImport(t *testing.T) {
	t.Chdir(t.TempDir()) // the servers change the working directory
	url, source := redisSource(t, 100)
	dir := t.TempDir()
	imports(t, exitOK, "no snapshot was written", "", "--from", url, "--dir", dir, "--dry-run")
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Fatalf("after a dry run the directory contains %v, error %v; want no files", files, err)
	}
	imports(t, exitOK, `1 skipped: a string that is not a number: "text"`, "", "--from", url, "--dir", dir, "--count", "10", "--tolerance", "1m")

	r := startIn(t, dir)
	got := r.ask("DBSIZE", "CL.THROTTLE user:7 4 1 3600 0", "CL.THROTTLE text 4 1 3600 0")
	want := regexp.MustCompile(`^:100\r\n\*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:3[456]\d\d\r\n\*5\r\n:0\r\n:5\r\n:5\r\n:-1\r\n:0\r\n$`) // the reset time is an hour, less the time since the keys were stored
	if !want.MatchString(got) {
		t.Errorf("replies after the import: %q; want a match for %s", got, want)
	}
	imports(t, exitError, "", "it is in use by another process", "--from", url, "--dir", dir, "--replace")
	r.end()

	imports(t, exitError, "", "dump.thr already exists", "--from", url, "--dir", dir)
	source.FlushAll(context.Background())
	imports(t, exitError, "", "no limiter keys", "--from", url, "--dir", dir, "--replace")
	source.Set(context.Background(), "late", time.Now().Add(time.Hour).UnixNano(), time.Hour)
	imports(t, exitOK, "1 imported", "", "--from", url, "--dir", dir, "--replace", "--tolerance", "1m")
	r = startIn(t, dir)
	if got := r.ask("DBSIZE", "EXISTS late"); got != ":1\r\n:1\r\n" {
		t.Errorf("replies after --replace: %q; want only the key of the last import", got)
	}
}

// TestImportFailures checks that a failed import leaves the existing snapshot unchanged.
func TestImportFailures(t *testing.T) {
	url, _ := redisSource(t, 10)
	dir := t.TempDir()
	imports(t, exitOK, "10 imported", "", "--from", url, "--dir", dir, "--tolerance", "1m")
	before, err := os.ReadFile(filepath.Join(dir, "dump.thr"))
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	if got := words("import").run(ctx, []string{"--from", url, "--dir", dir, "--replace"}, &out, &errs); got != exitError || !strings.Contains(errs.String(), "canceled") {
		t.Errorf("an interrupted import exits with %d, want 1 and \"canceled\": %s", got, &errs)
	}
	imports(t, exitError, "", "WRONGPASS", "--from", strings.Replace(url, "secret", "wrong", 1), "--dir", dir, "--replace")
	imports(t, exitUsage, "", "not a URL", "--from", "http://:secret@host", "--dir", dir, "--replace")
	imports(t, exitError, "", "no such file or directory", "--from", url, "--dir", filepath.Join(dir, "nowhere"))
	imports(t, exitError, "", "must be a file name without a directory", "--from", url, "--dir", dir, "--dbfilename", "../x")
	if after, err := os.ReadFile(filepath.Join(dir, "dump.thr")); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the snapshot was changed by an import that failed, or cannot be read: error %v", err)
	}

	if err := os.WriteFile(filepath.Join(dir, "bad.thr"), []byte("not a snapshot"), 0o600); err != nil {
		t.Fatal(err)
	}
	imports(t, exitError, "", persistence.ErrDamaged.Error(), "--from", url, "--dir", dir, "--dbfilename", "bad.thr", "--replace")
}

func TestImportUsage(t *testing.T) {
	imports(t, exitOK, "--from URL", "", "--help")
	imports(t, exitOK, "Usage: throttled import", "", "-h")
	imports(t, exitUsage, "", "--from is missing")
	imports(t, exitUsage, "", "unexpected argument", "redis://:secret@host")
	imports(t, exitUsage, "", "unexpected argument", "--from", "redis://host", "redis://:secret@host")
	imports(t, exitUsage, "", "unknown flag --form, did you mean --from?", "--form=redis://:secret@host")
	imports(t, exitUsage, "", "count", "--from", "redis://host", "--count", "many")
	imports(t, exitUsage, "", "--count", "--from", "redis://host", "--count", "0")
	imports(t, exitUsage, "", "--tolerance", "--from", "redis://host", "--tolerance", "0s")
}

// TestImportProgress checks that no bar is drawn if the output is not a terminal.
func TestImportProgress(t *testing.T) {
	var log bytes.Buffer
	progress, remove := importProgress(&log)
	progress(1, 2)
	remove()
	if log.Len() != 0 {
		t.Errorf("the first progress report writes %q to a buffer, want nothing", &log)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	progress, remove = importProgress(file)
	progress(1, 2)
	remove()
	if info, err := file.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("the first progress report writes to a regular file, or Stat of the file fails: error %v", err)
	}
}
