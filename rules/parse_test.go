package rules

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// loadZone loads the zones that the tests use, without reading files.
func loadZone(name string) (*time.Location, error) {
	switch name {
	case "", "UTC":
		return time.UTC, nil
	case "Local":
		return time.Local, nil
	case "Europe/Berlin":
		return time.FixedZone(name, 3600), nil
	}
	return nil, errors.New("unknown zone " + name)
}

// parse parses text, and fails the test if the file is refused.
func parse(t testing.TB, text string) *File {
	t.Helper()
	file, err := Parse("test.yaml", []byte(text), loadZone)
	if err != nil {
		t.Fatalf("Parse(%q):\n%v", text, err)
	}
	return file
}

// readAll returns the content of the files that match pattern, by name.
func readAll(t testing.TB, pattern string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("Glob(%q) = %v, %v", pattern, paths, err)
	}
	texts := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(path)] = string(text)
	}
	return texts
}

// TestParse_Valid checks that each file of testdata/valid is accepted.
func TestParse_Valid(t *testing.T) {
	texts := readAll(t, "testdata/valid/*.yaml")
	if len(texts) < 12 {
		t.Errorf("%d valid files, want at least 12", len(texts))
	}
	for name, text := range texts {
		if _, err := Parse(name, []byte(text), loadZone); err != nil {
			t.Error(err)
		}
	}
}

// wantLine is the first line of a malformed file: "# want LINE:COLUMN path: part of the reason". The path of an error
// of a whole document or of the syntax is "-".
var wantLine = regexp.MustCompile(`^# want (\d+):(\d+) (.*?): (.*)`)

// TestParse_Malformed checks the place, the path and the reason of the first error of each file of testdata/malformed.
func TestParse_Malformed(t *testing.T) {
	texts := readAll(t, "testdata/malformed/*.yaml")
	if len(texts) < 200 {
		t.Errorf("%d malformed files, want at least 200", len(texts))
	}
	for name, text := range texts {
		checkMalformed(t, name, text)
	}
}

// checkMalformed compares the first error of a file with its first line.
func checkMalformed(t *testing.T, name, text string) {
	t.Helper()
	want := wantLine.FindStringSubmatch(text)
	if want == nil {
		t.Fatalf("%s: no line # want", name)
	}
	file, err := Parse(name, []byte(text), loadZone)
	errs, ok := err.(Errors)
	if !ok || len(errs) == 0 || len(errs) > maxErrors || file != nil {
		t.Fatalf("%s: Parse = %+v, %v; want errors", name, file, err)
	}
	first := errs[0]
	line, _ := strconv.Atoi(want[1])
	column, _ := strconv.Atoi(want[2])
	path := strings.TrimPrefix(want[3], "-")
	if first.Line != line || first.Column != column || first.Path != path || !strings.Contains(first.Reason, want[4]) {
		t.Errorf("%s: want %s\n%v", name, want[0], err)
	}
}
