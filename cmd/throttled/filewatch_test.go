package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestReplacedParentDirectory replaces a directory above that of the file by a rename, which no event reports. The next poll
// must detect it, and later changes must be reported without a poll.
func TestReplacedParentDirectory(t *testing.T) {
	dir := t.TempDir()
	at := func(words ...string) string { return filepath.Join(append([]string{dir}, words...)...) }
	for _, name := range []string{"app", "app2"} {
		if err := os.MkdirAll(at(name, "config"), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, at(name, "config", "f.yaml"), name)
	}
	poll := make(chan time.Time)
	w := newFileWatch(at("app", "config", "f.yaml"), poll, slog.New(slog.DiscardHandler))
	defer w.close()
	if w.watcher == nil {
		t.Fatal("the operating system cannot watch files")
	}
	for _, names := range [][2]string{{"app", "app.old"}, {"app2", "app"}} {
		if err := os.Rename(at(names[0]), at(names[1])); err != nil {
			t.Fatal(err)
		}
	}
	isReported := func(change string) {
		t.Helper()
		select {
		case <-w.changed():
		case <-time.After(patience):
			t.Fatalf("%s was not reported", change)
		}
	}
	poll <- time.Now()
	isReported("the replaced directory")
	replace(t, at("app", "config", "f.yaml"), "second")
	isReported("the replaced file")
}
