package fsutil

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSystemCalls makes system calls fail with strace. It checks the resulting error, and that the
// call was made for the directory.
func TestSystemCalls(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ role, inject, want string }{
		{"sync", "fsync:error=EIO", "sync " + dir + ": input/output error"},
		{"sync", "fsync:error=ENOSPC", "sync " + dir + ": no space left on device"},
		{"sync", "fsync:error=EINVAL", ""}, // not supported by the file system
		{"sync", "fsync:error=EOPNOTSUPP", ""},
		{"sync", "fsync:error=ENOSYS", ""},
		{"sync", "fsync:error=EINTR:when=1", ""}, // retried
		{"lock", "flock:error=EAGAIN", "locked=true: lock the directory " + dir + ": it is in use by another process"},
		{"lock", "flock:error=ENOLCK", "locked=false: lock the directory " + dir + ": no locks available"},
		{"lock", "flock:error=EBADF", "locked=false: lock the directory " + dir + ": bad file descriptor"},
	} {
		t.Run(tt.inject, func(t *testing.T) {
			call, _, _ := strings.Cut(tt.inject, ":")
			trace := filepath.Join(t.TempDir(), "trace")
			cmd := command(t, tt.role, dir, "strace", "-f", "-qq", "-y", "-o", trace,
				"-e", "trace="+call, "-e", "signal=none", "-e", "inject="+tt.inject)
			if got := stderrOf(t, cmd); got != tt.want {
				t.Errorf("the process writes the error %q; want %q", got, tt.want)
			}
			calls, err := os.ReadFile(trace)
			must(t, err)
			if !strings.Contains(string(calls), "<"+dir+">") || !strings.Contains(string(calls), "(INJECTED)") {
				t.Errorf("the trace has no injected error for %s: %s", dir, calls)
			}
		})
	}
}

// TestDescriptors checks that all opened descriptors are closed, with and without an error.
func TestDescriptors(t *testing.T) {
	dir := t.TempDir()
	wantsFree(t, dir)
	before := descriptors(t, dir)
	for range 100 {
		if f, err := Lock(dir); err == nil {
			t.Fatalf("Lock succeeded although the lock is held: %v", f)
		}
		must(t, Sync(dir))
	}
	if after := descriptors(t, dir); before != 1 || after != before {
		t.Errorf("%d descriptors of the directory are open, want %d", after, before)
	}
}

// descriptors returns the number of descriptors that this process has open for a
// directory.
func descriptors(t *testing.T, dir string) (n int) {
	t.Helper()
	const open = "/proc/self/fd"
	entries, err := os.ReadDir(open)
	must(t, err)
	for _, e := range entries {
		if path, err := os.Readlink(filepath.Join(open, e.Name())); err == nil && path == dir {
			n++
		}
	}
	return n
}
