package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRulesFileIsAPipe checks that a pipe is refused. Opening it would block the watch, and the stop of the server.
func TestRulesFileIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, textOfRules("a"))
	p := newServer(t, "--rules", path)
	p.awaitRules(1, "a")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	p.askUntil("is not a regular file", "INFO", "rules")
	replace(t, path, textOfRules("b"))
	p.awaitRules(2, "b")
}
