package main

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "replace testdata/report.txt")

// report runs the program on testdata/tree.
func report(t *testing.T, figures string, write bool) string {
	t.Helper()
	var b bytes.Buffer
	if err := execute(&b, "testdata/tree", figures, write); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// read returns the content of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReport(t *testing.T) {
	committed := read(t, "testdata/figures.json")
	got := report(t, "testdata/figures.json", false)
	if read(t, "testdata/figures.json") != committed {
		t.Error("figures.json has changed, although the figures were not to be written")
	}
	if *update {
		if err := os.WriteFile("testdata/report.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := read(t, "testdata/report.txt"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures.json")
	first := report(t, path, true)
	if !strings.Contains(first, " - ") {
		t.Errorf("the report shows committed figures, although there is no file with figures:\n%s", first)
	}
	written := read(t, path)
	second := report(t, path, true)
	for _, change := range []string{"new", "was ", "gone", " - "} {
		if strings.Contains(second, change) {
			t.Errorf("%q in the report of a tree that has not changed:\n%s", change, second)
		}
	}
	if again := read(t, path); again != written {
		t.Errorf("first write:\n%s\nsecond write, want the same:\n%s", written, again)
	}
}

func TestErrors(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "figures.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, root, figures, want string }{
		{"no repository", t.TempDir(), "testdata/figures.json", "go.mod"},
		{"broken figures", "testdata/tree", broken, "figures.json: unexpected end of JSON input"},
		{"no module line", writeTree(t, map[string]string{"go.mod": "go 1.25.0\n"}), "none", "no module line"},
		{"syntax error", writeTree(t, map[string]string{"a.go": "package"}), "none", "a.go:1"},
		{"no floors", writeTree(t, map[string]string{"floors_test.go": "package m\n"}), "none", "no map named floors"},
		{"other floors", writeTree(t, map[string]string{"floors_test.go": "package m\nvar floors = map[string]int{\"a\": b}\n"}), "none", "not made of literals"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := execute(&bytes.Buffer{}, tt.root, tt.figures, false)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestRepository checks that the program loads this repository, and distinguishes its tests and floors.
func TestRepository(t *testing.T) {
	repository, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	isTest := map[string]bool{}
	for _, f := range repository.files {
		isTest[f.path] = f.test
	}
	for path, want := range map[string]bool{"gcra/decide.go": false, "gcra/decide_test.go": true, "tests/shape/main.go": true} {
		if got, known := isTest[path]; !known || got != want {
			t.Errorf("%s: known %v, a test %v; want true, %v", path, known, got, want)
		}
	}
	if repository.floors["cmd/throttled"] <= repository.floors["gcra"] {
		t.Errorf("cmd/throttled is not on a higher floor than gcra: %v", repository.floors)
	}
}

// TestCommittedFigures checks that no figure was added, removed or renamed since the figures were written.
func TestCommittedFigures(t *testing.T) {
	committed, err := readFigures("figures.json")
	if err != nil {
		t.Fatal(err)
	}
	current := measureTree(&tree{}).figures()
	for _, parts := range [][2]Part{{committed.Production, current.Production}, {committed.Tests, current.Tests}} {
		got, want := titles(parts[0]), titles(parts[1])
		if !slices.Equal(got, want) {
			t.Errorf("figures.json has figures with the titles %q, the program with the titles %q: run make shape ARGS=-write", got, want)
		}
	}
}

// titles returns the titles of measures and phrases that have a figure in p.
func titles(p Part) []string {
	return slices.Concat(slices.Sorted(maps.Keys(p.Findings)), slices.Sorted(maps.Keys(p.Words)))
}
