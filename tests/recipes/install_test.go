package recipes

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// installed returns a folder in the user's cache directory into which install has installed the packages of a lock file. The
// folder is kept for later runs, until the lock file or the version of the tool changes.
func installed(t *testing.T, lockFile, tool string, install func(folder string)) string {
	t.Helper()
	content, err := os.ReadFile(lockFile)
	if err != nil {
		t.Fatal(err)
	}
	version, err := exec.Command(tool, "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("%s --version: %v; install it, on Debian with \"make recipes\"", tool, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(append(content, version...))
	folder := filepath.Join(cache, "throttled-recipes", fmt.Sprintf("%s-%x", filepath.Base(tool), sum[:8]))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(folder + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }() // this also unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	complete := filepath.Join(folder, "complete")
	if _, err := os.Stat(complete); err == nil {
		return folder
	}
	install(folder)
	if err := os.WriteFile(complete, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// command runs a command, which must succeed.
func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

// copyFile copies a file into a folder.
func copyFile(t *testing.T, file, folder string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, filepath.Base(file)), content, 0o600); err != nil {
		t.Fatal(err)
	}
}
