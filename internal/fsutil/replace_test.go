package fsutil

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestReplace creates and replaces a file, and checks that nothing else is left in its directory.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, file := range []struct {
		content string
		mode    fs.FileMode
	}{{"first", 0o600}, {"second", 0o640}} {
		must(t, Replace(path, []byte(file.content), file.mode))
		got, err := os.ReadFile(path)
		must(t, err)
		info, err := os.Stat(path)
		must(t, err)
		if string(got) != file.content || info.Mode().Perm() != file.mode {
			t.Errorf("the file contains %q with mode %o, want %q with %o", got, info.Mode().Perm(), file.content, file.mode)
		}
	}
	must(t, os.Mkdir(filepath.Join(dir, "directory"), 0o700))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for _, name := range []string{"directory", "pipe"} {
		if err := Replace(filepath.Join(dir, name), nil, 0o600); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: error %v, want ErrNotRegular", name, err)
		}
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 3 {
		t.Errorf("the directory has the entries %v, want a file, a directory and a pipe", entries)
	}
}
