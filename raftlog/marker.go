package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/throttledhq/throttled/dirs"
)

// markerName is a file among those in use that says that they are to be set aside. It goes with them.
const markerName = "set-aside"

// Mark notes in dir why its files are to be set aside, which SetAsideMarked does at the next start: while
// Raft runs on them that cannot be done. It may be called at any time.
func Mark(dir, why string) error {
	current := filepath.Join(dir, currentName)
	if err := errors.Join(writeSynced(filepath.Join(current, markerName), []byte(why+"\n")), dirs.Sync(current)); err != nil {
		return fmt.Errorf("mark %s to be set aside: %w", current, err)
	}
	return nil
}

// Unmark takes a mark back. That there is none is no error.
func Unmark(dir string) error {
	current := filepath.Join(dir, currentName)
	err := os.Remove(filepath.Join(current, markerName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err = errors.Join(err, dirs.Sync(current)); err != nil {
		return fmt.Errorf("take back that %s is to be set aside: %w", current, err)
	}
	return nil
}

// SetAsideMarked is SetAside if the files in dir are marked. It returns why they are, and where they are
// now; two empty strings if they are not marked.
func SetAsideMarked(dir string) (why, to string, err error) {
	b, err := os.ReadFile(filepath.Join(dir, currentName, markerName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("read why %s is to be set aside: %w", dir, err)
	}
	to, err = SetAside(dir)
	return strings.TrimSpace(string(b)), to, err
}
