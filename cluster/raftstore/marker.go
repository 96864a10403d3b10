package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/throttledhq/throttled/internal/fsutil"
)

// markerName is the name of a file whose presence in the current directory requests that
// the directory be set aside. The file is moved with the directory.
const markerName = "set-aside"

// Mark requests that the files in dir be set aside, and records why as the reason. The
// files cannot be moved while raft is using them, so SetAsideMarked moves them at the next
// start. Mark may be called at any time.
func Mark(dir, why string) error {
	current := filepath.Join(dir, currentName)
	if err := errors.Join(writeSynced(filepath.Join(current, markerName), []byte(why+"\n")), fsutil.Sync(current)); err != nil {
		return fmt.Errorf("mark %s to be set aside: %w", current, err)
	}
	return nil
}

// Unmark withdraws the request made by Mark. It succeeds if there is none.
func Unmark(dir string) error {
	current := filepath.Join(dir, currentName)
	err := os.Remove(filepath.Join(current, markerName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err = errors.Join(err, fsutil.Sync(current)); err != nil {
		return fmt.Errorf("cancel setting %s aside: %w", current, err)
	}
	return nil
}

// SetAsideMarked calls SetAside if the files in dir are marked. It returns the reason and the new path of
// the files, or two empty strings if they are not marked.
func SetAsideMarked(dir string) (why, to string, err error) {
	b, err := os.ReadFile(filepath.Join(dir, currentName, markerName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("read the reason for setting %s aside: %w", dir, err)
	}
	to, err = SetAside(dir)
	return strings.TrimSpace(string(b)), to, err
}
