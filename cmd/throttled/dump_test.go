package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
)

// epoch is the limiter time at which the tests of dump begin: a whole number of hours.
const epoch = uint64(1000 * time.Hour)

// charged is a key that the tests of dump charge at seconds after the epoch, and the end of its line at the last of them.
type charged struct {
	kind  limiter.Kind
	limit limiter.Limit
	at    []int // seconds
	want  string
}

// dumped has the lines of all kinds. Each charge has 2 units.
var dumped = []charged{
	{limiter.Throttle, limiter.Limit{Max: 10, Interval: time.Second}, []int{0, 0, 1},
		`"kind":"throttle","algorithm":"gcra","expires_ns":3600006000000000,"ttl_ns":5000000000,"used_percent":47}`},
	{limiter.ScaledThrottle, limiter.Limit{Max: 10, Interval: time.Second}, []int{0, 0, 1},
		`"kind":"throttle","algorithm":"gcra","rules":true,"expires_ns":3600006000000000,"ttl_ns":5000000000,"used_percent":47,"used":5,"interval_ns":1000000000}`},
	{limiter.LeakyBucket, limiter.Limit{Max: 10, Interval: time.Second}, []int{0},
		`"kind":"leaky","algorithm":"queue","expires_ns":3600002000000000,"ttl_ns":2000000000,"used_percent":19}`},
	{limiter.ScaledLeaky, limiter.Limit{Max: 10, Interval: time.Second}, []int{0},
		`"kind":"leaky","algorithm":"queue","rules":true,"expires_ns":3600002000000000,"ttl_ns":2000000000,"used_percent":19,"used":2,"interval_ns":1000000000}`},
	{limiter.FixedWindow, limiter.Limit{Max: 8, Interval: time.Minute, Amount: 1}, []int{5, 61, 70},
		`"kind":"window","algorithm":"fixed","expires_ns":3600120000000000,"ttl_ns":50000000000,"used_percent":50,"used":4,"window_ns":60000000000,"begin_ns":3600060000000000,"counts":[4]}`},
	{limiter.SlidingWindow, limiter.Limit{Max: 8, Interval: time.Minute, Amount: 1}, []int{5, 90},
		`"kind":"window","algorithm":"sliding","expires_ns":3600180000000000,"ttl_ns":90000000000,"used_percent":38,"used":3,"window_ns":60000000000,"begin_ns":3600060000000000,"counts":[2,2]}`},
	{limiter.WindowBuckets, limiter.Limit{Max: 20, Interval: time.Second, Amount: 5}, []int{0, 0, 2, 3, 5},
		`"kind":"window","algorithm":"buckets","expires_ns":3600010000000000,"ttl_ns":5000000000,"used_percent":28,"used":6,"window_ns":5000000000,"begin_ns":3600005000000000,"counts":[0,2,2,0,2]}`},
	{limiter.WindowLog, limiter.Limit{Max: 20, Interval: 10 * time.Second, Amount: 5}, []int{0, 4, 7, 12},
		`"kind":"window","algorithm":"log","expires_ns":3600022000000000,"ttl_ns":10000000000,"used_percent":28,"used":6,"window_ns":10000000000,"requests":3,"first_ns":3600004000000000,"last_ns":3600012000000000}`},
	{limiter.TokenBucket, limiter.Limit{Max: 10, Interval: 10 * time.Second, Amount: 1}, []int{0, 15},
		`"kind":"bucket","algorithm":"tokens","expires_ns":3600040000000000,"ttl_ns":25000000000,"used_percent":28,"used":3,"refilled_ns":3600010000000000}`},
	{limiter.ScaledBucket, limiter.Limit{Max: 10, Interval: 10 * time.Second, Amount: 1}, []int{0, 15},
		`"kind":"bucket","algorithm":"tokens","rules":true,"expires_ns":3600040000000000,"ttl_ns":25000000000,"used_percent":28,"used":3,"interval_ns":10000000000,"refill":1,"refilled_ns":3600010000000000}`},
	{limiter.Calendar, limiter.Limit{Max: 4, Interval: time.Hour, Amount: int64(epoch + uint64(time.Hour))}, []int{0, 10},
		`"kind":"window","algorithm":"calendar","rules":true,"expires_ns":3603600000000000,"ttl_ns":3590000000000,"used_percent":100,"used":4}`},
	{limiter.Ban, limiter.Limit{Max: 1, Interval: time.Minute}, []int{0},
		`"kind":"ban","algorithm":"ban","rules":true,"expires_ns":3600060000000000,"ttl_ns":60000000000}`},
}

// recordOf charges a key, and returns its record and the time of the last charge.
func recordOf(t *testing.T, c charged) (rec limiter.Record, now uint64) {
	t.Helper()
	table := buckets.New(buckets.Config{Clock: func() uint64 { return now }})
	for _, at := range c.at {
		now = epoch + uint64(at)*uint64(time.Second)
		out := make([]limiter.Decision, 1)
		table.Decide([]limiter.Request{{Kind: c.kind, Key: []byte("k"), Limit: c.limit, Quantity: 2}}, out)
		if out[0].Err != nil || out[0].Limited {
			t.Fatalf("%v: decision %+v", c.kind, out[0])
		}
	}
	for rec = range table.Records() {
		rec.Key, rec.State = bytes.Clone(rec.Key), bytes.Clone(rec.State)
	}
	return rec, now
}

// TestDump_Kinds checks the lines of all kinds of state.
func TestDump_Kinds(t *testing.T) {
	seen := map[limiter.Kind]bool{}
	for _, c := range dumped {
		seen[c.kind] = true
		rec, now := recordOf(t, c)
		got, err := json.Marshal(newLine(&rec, now))
		if want := `{"key":"k",` + c.want; err != nil || string(got) != want {
			t.Errorf("%v: error %v, line\n%s\nwant\n%s", c.kind, err, got, want)
		}
		rec.Gauge, rec.State = 0, []byte("state")
		damaged, _ := json.Marshal(newLine(&rec, now))
		if !strings.HasSuffix(string(damaged), `"state_base64":"c3RhdGU="}`) || strings.Contains(string(damaged), "used") {
			t.Errorf("%v: the line of a state that cannot be decoded is %s, want the state without used units", c.kind, damaged)
		}
		expired, _ := json.Marshal(newLine(&rec, rec.Expires))
		if !strings.HasSuffix(string(expired), `"ttl_ns":0}`) {
			t.Errorf("%v: the line of an expired state is %s, want no details", c.kind, expired)
		}
	}
	for kind := limiter.Throttle; kind.Known(); kind++ {
		if !seen[kind] {
			t.Errorf("%v (%s) is not tested", kind, kind.Encoding())
		}
	}
}

// TestInspect_Directory checks and dumps the data directory of a node: while it runs, after it was closed, and after a
// snapshot.
func TestInspect_Directory(t *testing.T) {
	dir := t.TempDir()
	p, _, _ := openNode(t, dir)
	startNode(t, p)
	out := make([]limiter.Decision, 1)
	token := p.replica.node.Decide([]limiter.Request{{Kind: limiter.Throttle, Key: []byte("k"), Limit: limiter.Limit{Max: 10, Interval: time.Hour}, Quantity: 1}}, out)
	if err := errors.Join(out[0].Err, p.replica.node.WaitCommitted(token)); err != nil {
		t.Fatal(err)
	}
	for _, command := range []words{"check", "dump"} {
		if code, out, errs := command.with(dir); code != exitError || out != "" || !strings.Contains(errs, "is in use by another process") {
			t.Errorf("%s of a node that is running exits with %d, stdout %q, stderr %q; want 1, and that it is in use", command, code, out, errs)
		}
	}
	release(t, p)
	describes := func(wants ...string) {
		t.Helper()
		before := readTree(t, dir)
		code, out, errs := words("check").with(dir)
		for _, want := range wants {
			if text := strings.Join(strings.Fields(out), " "); code != exitOK || errs != "" || !strings.Contains(text, want) {
				t.Errorf("check exits with %d, stderr %q; want 0, and %q in\n%s", code, errs, want, out)
			}
		}
		code, out, errs = words("dump").with(dir)
		if code != exitOK || errs != "" || strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, `{"key":"k","kind":"throttle","algorithm":"gcra","expires_ns":`) || !strings.Contains(out, `"ttl_ns":`) {
			t.Errorf("dump exits with %d, stdout %q, stderr %q; want 0 and the key k", code, out, errs)
		}
		if after := readTree(t, dir); after != before {
			t.Errorf("check or dump has changed the directory")
		}
	}
	describes("node: "+alone, "keys: 1 live", "throttle (gcra): 1", "result: ok")
	p, _, _ = openNode(t, dir)
	startNode(t, p)
	if err := p.replica.saver.Save(); err != nil {
		t.Fatal(err)
	}
	release(t, p)
	describes("started 2 times", "bytes, usable", "keys: 1 live")
	if err := os.Remove(filepath.Join(dir, "current", "identity.json")); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := words("check").with(dir); code != exitError || out != "" || !strings.Contains(errs, errNoIdentity.Error()) {
		t.Errorf("without identity.json: check exits with %d, stdout %q, stderr %q; want 1 and errNoIdentity", code, out, errs)
	}
}

// readTree returns the names, sizes and contents of all files below a directory.
func readTree(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s %d\n%s\n", path, len(b), b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
