package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/persistence"
)

// fixed is a persistence.State with constant records. Each call of Now advances its clock
// by 100 ns. A save calls Now at its start and at its end, so that it takes 100 ns.
type fixed struct {
	now     uint64
	records []limiter.Record
}

func (f *fixed) Now() uint64 {
	f.now += 100
	return f.now
}

func (f *fixed) Records() iter.Seq[limiter.Record] { return slices.Values(f.records) }
func (f *fixed) Put(limiter.Record) error          { return nil }
func (f *fixed) Reset()                            {}
func (f *fixed) Usage() limiter.Usage              { return limiter.Usage{Keys: int64(len(f.records))} }

func throttleRecord(key string, expires uint64) limiter.Record {
	return limiter.Record{Kind: limiter.Throttle, Key: []byte(key), Expires: expires}
}

// snapshotOf writes a snapshot and returns its path. The save begins at 1100 ns of limiter
// time and ends at 1200 ns.
func snapshotOf(t testing.TB, records ...limiter.Record) string {
	t.Helper()
	dir := t.TempDir()
	s, err := persistence.Open(persistence.Config{Dir: dir, Name: "dump.thr", Version: "9.8.7"})
	if err != nil {
		t.Fatal(err)
	}
	state := &fixed{now: 900, records: records}
	if err := s.Load(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	state.now = 1000
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "dump.thr")
}

// words are the name of a command, as one string.
type words string

// run runs the command with the given arguments.
func (w words) run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	n, err := lookUp(strings.Fields(string(w)))
	if err != nil {
		panic(err)
	}
	return n.execute(ctx, args, stdout, stderr)
}

// with runs the command with the given arguments, and returns the exit code and the output.
func (w words) with(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = w.run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestCheck(t *testing.T) {
	file := snapshotOf(t, throttleRecord("user:1", 1150), throttleRecord("user:22", 1201), throttleRecord("ip", math.MaxUint64))
	code, out, errs := words("check").with(file)
	if code != exitOK || errs != "" {
		t.Fatalf("check exits with %d, want 0 and nothing on stderr: %s", code, errs)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		file, fmt.Sprintf("%d bytes in 1 blocks of records", info.Size()), "format: 1", "throttled 9.8.7",
		"created: 20", "1100 ns at the start of the save, 1200 ns at its end", "3, 2 live and 1 expired at the end of the save",
		"throttle (gcra): 3", "15 in total, 7 in the longest key", "result: ok",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("%q is not in the output:\n%s", want, out)
		}
	}
}

func TestDump(t *testing.T) {
	file := snapshotOf(t, throttleRecord("user:1", 1150), throttleRecord("<&\"\n\u2028é", 1201),
		throttleRecord("", 1300), throttleRecord("\xff\x00", math.MaxUint64))
	code, out, errs := words("dump").with(file)
	if code != exitOK || errs != "" {
		t.Fatalf("dump exits with %d, want 0 and nothing on stderr: %s", code, errs)
	}
	want := []string{
		`{"key":"user:1","kind":"throttle","algorithm":"gcra","expires_ns":1150,"ttl_ns":0}`,
		`{"key":"<&\"\n\u2028é","kind":"throttle","algorithm":"gcra","expires_ns":1201,"ttl_ns":1}`,
		`{"key":"","kind":"throttle","algorithm":"gcra","expires_ns":1300,"ttl_ns":100}`,
		`{"key_base64":"/wA=","kind":"throttle","algorithm":"gcra","expires_ns":18446744073709551615,"ttl_ns":18446744073709550415}`,
	}
	if got := strings.Split(strings.TrimSuffix(out, "\n"), "\n"); !slices.Equal(got, want) {
		t.Errorf("dump prints\n%s\nwant\n%s", out, strings.Join(want, "\n"))
	}
}

func TestDump_Nothing(t *testing.T) {
	if code, out, errs := words("dump").with(snapshotOf(t)); code != exitOK || out != "" || errs != "" {
		t.Errorf("dump of an empty snapshot exits with %d, stdout %q, stderr %q; want 0 and no output", code, out, errs)
	}
}

func TestInspect_Refuses(t *testing.T) {
	file := snapshotOf(t, throttleRecord("user:1", 1500))
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-40] ^= 1 // in the last block of records
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(want int, text string, args ...string) {
		t.Helper()
		for _, name := range []words{"check", "dump"} {
			code, out, errs := name.with(args...)
			if code != want || out != "" || !strings.Contains(errs, text) {
				t.Errorf("%s %q exits with %d, stdout %q, stderr %q; want %d, no stdout, and %q in stderr", name, args, code, out, errs, want, text)
			}
		}
	}
	f(exitError, "snapshot "+file+" is damaged at byte 41: checksum does not match", file)
	f(exitError, "no such file", filepath.Join(t.TempDir(), "none.thr"))
	f(exitError, errNoData.Error(), t.TempDir())
	empty := filepath.Join(t.TempDir(), "current")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	f(exitError, errNoData.Error(), filepath.Dir(empty))
	f(exitUsage, "wrong number of arguments: write throttled ")
	f(exitUsage, "FILE|DIR", "one", "two")
}

// closedPipe is a writer with a limited capacity. The field room is the number of bytes that
// it still accepts. A write of more bytes returns err.
type closedPipe struct {
	room int
	err  error
}

func (p *closedPipe) Write(b []byte) (int, error) {
	if len(b) > p.room {
		return 0, p.err
	}
	p.room -= len(b)
	return len(b), nil
}

// TestInspect_EndsEarly checks the exit code if an inspection of a valid snapshot stops
// early, because a write fails or the context is canceled.
func TestInspect_EndsEarly(t *testing.T) {
	records := make([]limiter.Record, 10_000)
	for i := range records {
		records[i] = throttleRecord(fmt.Sprint("key:", i), 5000)
	}
	file := snapshotOf(t, records...)
	f := func(command words, room int, fails error, want int, text string) {
		t.Helper()
		var errs bytes.Buffer
		code := command.run(t.Context(), []string{file}, &closedPipe{room, fails}, &errs)
		if code != want || !strings.Contains(errs.String(), text) || text == "" && errs.Len() > 0 {
			t.Errorf("if writes fail after %d bytes, the command exits with %d, stderr %q; want %d, and %q in stderr", room, code, &errs, want, text)
		}
	}
	f("dump", 0, syscall.EPIPE, exitOK, "")
	f("dump", 70_000, syscall.EPIPE, exitOK, "")
	f("dump", 0, syscall.ENOSPC, exitError, "no space left")
	f("dump", 70_000, syscall.ENOSPC, exitError, "no space left")
	f("check", 0, syscall.ENOSPC, exitError, "no space left")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []words{"check", "dump"} {
		var errs bytes.Buffer
		if code := name.run(ended, []string{file}, io.Discard, &errs); code != exitError || !strings.Contains(errs.String(), "context canceled") {
			t.Errorf("%s with a canceled context exits with %d, stderr %q; want 1 and \"context canceled\"", name, code, &errs)
		}
	}

	_, out, _ := words("dump").with(file)
	lines := 0
	for scan := bufio.NewScanner(strings.NewReader(out)); scan.Scan(); lines++ {
		if !json.Valid(scan.Bytes()) {
			t.Fatalf("line %d is not JSON: %s", lines, scan.Bytes())
		}
	}
	if lines != len(records) {
		t.Errorf("dump prints %d lines; want %d", lines, len(records))
	}
}
