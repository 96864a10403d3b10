package fsutil

import (
	"io/fs"
	"os"
	"path/filepath"
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
	if err := Replace(filepath.Join(dir, "directory"), nil, 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 2 {
		t.Errorf("the directory has the entries %v, want a file and a directory", entries)
	}
}
