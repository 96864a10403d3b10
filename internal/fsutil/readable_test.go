package fsutil

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWarnReadable checks for which modes of a file a warning is logged.
func TestWarnReadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o640: 0, 0o644: 1, 0o604: 1, 0o660: 0, 0o777: 1} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		WarnReadable(log, "aclfile", path)
		WarnReadable(log, "aclfile", path+"-missing")
		if n := strings.Count(text.String(), "level=WARN"); n != want || n > 0 && !strings.Contains(text.String(), "option=aclfile file="+path) {
			t.Errorf("mode %o: %q, want %d warnings", mode, text.String(), want)
		}
	}
}

// TestWarnWritable checks for which modes of a directory a warning is logged.
func TestWarnWritable(t *testing.T) {
	dir := t.TempDir()
	for mode, want := range map[os.FileMode]int{0o700: 0, 0o755: 0, 0o770: 0, 0o775: 0, 0o777: 1, 0o702: 1, 0o777 | os.ModeSticky: 1} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		WarnWritable(log, "data-dir", dir)
		WarnWritable(log, "data-dir", dir+"-missing")
		if n := strings.Count(text.String(), "level=WARN"); n != want || n > 0 && !strings.Contains(text.String(), "option=data-dir dir="+dir) {
			t.Errorf("mode %v: %q, want %d warnings", mode, text.String(), want)
		}
	}
}
