package options

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// environment is a set of environment variables. Its method lookup is passed to Load as lookupEnv.
type environment map[string]string

func (e environment) lookup(name string) (string, bool) {
	text, ok := e[name]
	return text, ok
}

// mustLoad returns the Store loaded by Load and fails the test on an error.
func mustLoad(t *testing.T, env environment, args ...string) *Store {
	t.Helper()
	s, err := Load(args, env.lookup)
	if err != nil {
		t.Fatalf("Load(%q): %v", args, err)
	}
	return s
}

// mustNew returns the Store created by New and fails the test on an error.
func mustNew(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return s
}

// mustWrite writes a configuration file to a new temporary directory.
func mustWrite(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "throttled.conf")
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// mustSet changes settings and fails the test on an error.
func mustSet(t *testing.T, s *Store, nameValue ...string) {
	t.Helper()
	if err := s.Set(pairs(nameValue...)); err != nil {
		t.Fatalf("Set(%q): %v", nameValue, err)
	}
}

func pairs(nameValue ...string) []Pair {
	var out []Pair
	for i := 0; i < len(nameValue); i += 2 {
		out = append(out, Pair{nameValue[i], nameValue[i+1]})
	}
	return out
}

// wantText checks an option's value as text.
func wantText(t *testing.T, o *Options, name, want string) {
	t.Helper()
	if got := find(name).get(o); got != want {
		t.Errorf("%s = %q, want %q", name, got, want)
	}
}

// wantError checks the text of an error.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("error = %v\n     want %s", err, want)
	}
}

// wantSame checks that two sets of values are equal.
func wantSame(t *testing.T, got, want *Options) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("options = %+v\n   want %+v", *got, *want)
	}
}
