package main

import (
	"io"
	"strings"
	"testing"
)

func TestReportFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		do     func(r *report)
		failed bool
	}{
		{"nothing", func(*report) {}, false},
		{"bars that are reached", func(r *report) { r.atMost("a", 5, 5, ""); r.atLeast("b", 5, 5, ""); r.found(nil) }, false},
		{"too much", func(r *report) { r.atMost("a", 5.01, 5, "ms") }, true},
		{"too little", func(r *report) { r.atLeast("a", 4.99, 5, "ms") }, true},
		{"a finding", func(r *report) { r.found([]finding{{"interval", "x"}}) }, true},
	} {
		r := &report{w: io.Discard}
		tt.do(r)
		if r.failed() != tt.failed {
			t.Errorf("%s: failed returns %t, want the opposite", tt.name, r.failed())
		}
	}
}

func TestReportShows(t *testing.T) {
	var out strings.Builder
	r := &report{w: &out}
	r.atMost("gap", 51, 50, "ms")
	r.found(make([]finding, 10))
	r.detail("not shown")
	for _, want := range []string{"51.00 <= 50.00 ms   MISSED", "... and 2 more"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report %q lacks %q", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "not shown") {
		t.Error("a detail is printed without verbose")
	}
}

func TestCounts(t *testing.T) {
	if got := counts(map[string]int{"b": 2, "a": 1}); got != "a 1, b 2" {
		t.Errorf("two counts: got %q, want a 1, b 2", got)
	}
	if got := counts(nil); got != "none" {
		t.Errorf("no counts: got %q, want none", got)
	}
	if got := checkersOf([]finding{{checker: "x"}, {checker: "b"}, {checker: "x"}}); got != "b x" {
		t.Errorf("checkers with findings: got %q, want b and x", got)
	}
	if checkersOf(nil) != "" {
		t.Error("checkersOf(nil) is not empty")
	}
}

// TestDivide checks that findings about safety are separated from the others. It also checks the
// text that the scenario mutants prints for the checkers that found a bug.
func TestDivide(t *testing.T) {
	unsafe, others := divide([]finding{{"process", "x"}, {"interval", "y"}, {"pressure", "z"}, {"agreement", "a"}, {"healing", "b"}})
	if checkersOf(unsafe) != "agreement interval" || checkersOf(others) != "healing pressure process" {
		t.Errorf("findings about safety: got %v, want agreement and interval; other findings: got %v, want the rest", unsafe, others)
	}
	for c, want := range map[foundBy]string{{}: "-", {"a", ""}: "a", {"a", "b"}: "a (and b)", {"", "b"}: "- (and b)"} {
		if c.String() != want {
			t.Errorf("foundBy is printed as %q; want the text of the case", c)
		}
	}
}
