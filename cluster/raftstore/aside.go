package raftstore

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/throttledhq/throttled/internal/fsutil"
)

const (
	asidePrefix = "aside-"
	keptAside   = 2
)

// SetAside renames the directory "current" in dir, which contains the files of the store, to
// "aside-N" and returns its new path. It keeps the newest two directories of this name and removes
// older ones. The next Open creates an empty store, and the next Claim draws a new incarnation: the
// node joins as a new node. The votes that the node cast under its old ID are lost, so this ID must
// not be used again. SetAside is intended for a node whose files are rejected by Open or Check, or
// that receives the same snapshot repeatedly (see [InstallGuard]). The error wraps [ErrLocked] if the
// directory is in use.
//
// The log, the vote, the snapshots and the identity are moved by one rename, so a crash cannot
// separate them.
func SetAside(dir string) (string, error) {
	lock, err := fsutil.Lock(dir)
	if err != nil {
		return "", fmt.Errorf("set %s aside: %w", filepath.Join(dir, currentName), err)
	}
	defer func() { _ = lock.Close() }() // nothing was written to the lock file
	to, err := setAside(dir)
	if err != nil {
		return "", fmt.Errorf("set %s aside: %w", filepath.Join(dir, currentName), err)
	}
	return to, nil
}

func setAside(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	newest := 0
	for _, e := range entries {
		newest = max(newest, asideNumber(e.Name()))
	}
	to := filepath.Join(dir, asidePrefix+strconv.Itoa(newest+1))
	if err := os.Rename(filepath.Join(dir, currentName), to); err != nil {
		return "", err
	}
	for _, e := range entries {
		if n := asideNumber(e.Name()); n > 0 && n <= newest+1-keptAside {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // best effort
		}
	}
	return to, fsutil.Sync(dir)
}

// asideNumber returns the N of "aside-N", or 0 if name has another form.
func asideNumber(name string) int {
	digits, ok := strings.CutPrefix(name, asidePrefix)
	if n, err := strconv.Atoi(digits); ok && err == nil && n > 0 {
		return n
	}
	return 0
}
