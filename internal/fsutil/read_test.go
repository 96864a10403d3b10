package fsutil

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadFile reads a file and a link to it. A pipe without a writer must not block, and all errors must contain the path.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.WriteFile(path("file"), []byte("text\n"), 0o600))
	must(t, os.Symlink("file", path("link")))
	must(t, syscall.Mkfifo(path("pipe"), 0o600))
	for _, name := range []string{path("file"), path("link")} {
		if text, err := ReadFile(name); string(text) != "text\n" || err != nil {
			t.Errorf("%s: got %q, error %v, want the text", name, text, err)
		}
	}
	for name, want := range map[string]error{path("pipe"): ErrNotRegular, dir: ErrNotRegular, os.DevNull: ErrNotRegular, path("none"): fs.ErrNotExist} {
		if text, err := ReadFile(name); text != nil || !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %q, error %v, want %v with the path", name, text, err, want)
		}
	}
}
