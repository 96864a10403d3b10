package fsutil

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// warnings checks for which modes of a path warn logs a warning. A path that does not exist causes none.
func warnings(t *testing.T, path, field string, warn func(log *slog.Logger, option, path string), modes map[os.FileMode]int) {
	t.Helper()
	for mode, want := range modes {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		warn(log, "an-option", path)
		warn(log, "an-option", path+"-missing")
		if n := strings.Count(text.String(), "level=WARN"); n != want || n > 0 && !strings.Contains(text.String(), "option=an-option "+field+"="+path) {
			t.Errorf("mode %v: %q, want %d warnings", mode, text.String(), want)
		}
	}
}

func TestWarnReadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	warnings(t, path, "file", WarnReadable, map[os.FileMode]int{0o600: 0, 0o640: 0, 0o644: 1, 0o604: 1, 0o602: 1, 0o660: 1, 0o777: 1})
	for mode, change := range map[os.FileMode]os.FileMode{0o777: 0o026, 0o666: 0o026, 0o622: 0o022} {
		warnings(t, path, "file", WarnReadable, map[os.FileMode]int{mode: 1, mode &^ change: 0}) // the remedy of the warning
	}
}

func TestWarnWritable(t *testing.T) {
	warnings(t, t.TempDir(), "dir", WarnWritable, map[os.FileMode]int{
		0o700: 0, 0o755: 0, 0o770: 0, 0o775: 0, 0o777: 1, 0o702: 1, 0o777 | os.ModeSticky: 1,
	})
}
