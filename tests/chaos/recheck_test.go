package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/check"
	"github.com/throttledhq/throttled/tests/chaos/history"
)

// asked returns a request that was sent at the given millisecond and granted one millisecond later,
// with the given remaining units.
func asked(k *history.Key, ms, quantity, remaining int64) history.Op {
	reset := ((k.Limit()-remaining)*k.Interval() + int64(time.Second) - 1) / int64(time.Second)
	return history.Op{Key: k, Quantity: quantity, Call: ms * 1e6, Return: ms*1e6 + 1e6, Remaining: remaining, ResetAfter: reset}
}

// histories returns histories of keys that admit a burst of two units, restored at one unit per
// minute. The want field names the checkers that must report a violation.
func histories() map[string]struct {
	ops  []history.Op
	want string
} {
	cold := &history.Key{Name: "cold:1", MaxBurst: 1, Count: 1, Period: time.Minute}
	window := &history.Key{Name: "window:LOG:0", Form: history.Window, MaxBurst: 1, Count: 1, Period: time.Minute}
	bound := &history.Key{Name: "bucket:0", Form: history.Bound, MaxBurst: 1, Count: 1, Period: time.Minute}
	searched := &history.Key{Name: "linear:0:0", MaxBurst: 1, Count: 1, Period: time.Minute}
	limited := asked(cold, 30, 1, 0)
	limited.Outcome, limited.RetryAfter = history.Limited, 60
	unknown := history.Op{Key: cold, Quantity: 1, Call: 5e6, Outcome: history.Unknown, Return: history.Never}
	return map[string]struct {
		ops  []history.Op
		want string
	}{
		"nothing":                     {nil, ""},
		"no violation":                {[]history.Op{asked(cold, 0, 1, 1), asked(cold, 10, 1, 0), limited}, ""},
		"one unknown outcome":         {[]history.Op{asked(cold, 0, 1, 1), unknown, limited}, ""},
		"one too many":                {[]history.Op{asked(cold, 0, 1, 1), asked(cold, 10, 1, 0), asked(cold, 20, 1, 0)}, "interval stale"},
		"a stale reply":               {[]history.Op{asked(cold, 0, 1, 1), asked(cold, 10, 0, 2)}, "stale"},
		"a full window":               {[]history.Op{asked(window, 0, 2, 0), asked(window, 60_000, 2, 0)}, ""},
		"an overfull window":          {[]history.Op{asked(window, 0, 2, 0), asked(window, 59_998, 1, 0)}, "interval"},
		"another algorithm":           {[]history.Op{asked(bound, 0, 1, 0), asked(bound, 10, 1, 2)}, ""},
		"another algorithm, violated": {[]history.Op{asked(bound, 0, 1, 0), asked(bound, 10, 2, 2)}, "interval"},
		"a starved key":               {starved(cold, 100), "starved"},
		"an order explains it":        {[]history.Op{asked(searched, 0, 1, 1), asked(searched, 10, 1, 0)}, ""},
		"no order explains it":        {[]history.Op{asked(searched, 0, 1, 0), asked(searched, 10, 1, 0)}, "linear"},
		"a refund":                    {[]history.Op{asked(cold, 0, 2, 0), asked(cold, 10, -2, 2), asked(cold, 20, 2, 0)}, ""},
	}
}

// starved returns a history of a key that grants its limit, and then nothing for the given number of
// minutes.
func starved(k *history.Key, minutes int64) (ops []history.Op) {
	for i := range minutes * 20 {
		o := asked(k, i*3000, 1, max(0, 1-i))
		if i > 1 {
			o.Outcome, o.RetryAfter, o.ResetAfter = history.Limited, 60, 120
		}
		ops = append(ops, o)
	}
	return ops
}

func TestJudgeKeys(t *testing.T) {
	for name, h := range histories() {
		findings, judged := judgeKeys(history.ByKey(h.ops), check.Clock{Behind: history.Never}, 0)
		if got := checkersOf(findings); got != h.want {
			t.Errorf("%s: checkers with findings: got %q, want %q: %v", name, got, h.want, findings)
		}
		if judged.decided != decidedOf(h.ops) && h.want != "" {
			t.Errorf("%s: %d decisions were judged, want all", name, judged.decided)
		}
		if len(h.ops) > 0 && (judged.keys != 1 || judged.searched != searchedOf(h.ops)) {
			t.Errorf("%s: judgeKeys has checked %+v; want 1 key, which is searched if it is a key for check.Linear", name, judged)
		}
	}
}

// searchedOf returns the number of keys whose histories Linear must check: 1 or 0, since all of ops
// are on one key.
func searchedOf(ops []history.Op) int {
	if searchable(ops[0].Key) {
		return 1
	}
	return 0
}

// TestCheckFiles checks that checkFiles has findings for exactly those saved histories that violate
// a guarantee.
func TestCheckFiles(t *testing.T) {
	for name, h := range histories() {
		if h.want == "starved" {
			h.want = "" // checkFiles disables this check
		}
		path := filepath.Join(t.TempDir(), "history")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := history.Write(f, h.ops); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := checkFiles([]string{path}, &out); (err != nil) != (h.want != "") || (out.Len() > 0) != (h.want != "") {
			t.Errorf("%s: checkFiles returns the error %v and prints %s; want an error and output only if the history has a violation", name, err, out.String())
		}
	}
	if err := checkFiles([]string{filepath.Join(t.TempDir(), "none")}, os.Stdout); err == nil {
		t.Error("missing file: no error, want one")
	}
}
