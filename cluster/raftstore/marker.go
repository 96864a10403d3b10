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

// markerName is the name of a file whose presence in the directory "current" requests that this directory be
// set aside. The file is moved with the directory, so the request is executed only once.
const markerName = "set-aside"

// RequestSetAside requests that the files in dir be set aside. why is the reason, which is
// stored with the request. The files cannot be moved while raft is using them, so
// SetAsideIfRequested moves them at the next start. RequestSetAside may be called at any time.
func RequestSetAside(dir, why string) error {
	current := filepath.Join(dir, currentName)
	if err := errors.Join(writeSynced(filepath.Join(current, markerName), []byte(why+"\n")), fsutil.Sync(current)); err != nil {
		return fmt.Errorf("request to set %s aside: %w", current, err)
	}
	return nil
}

// CancelSetAside withdraws the request made by RequestSetAside, if there is one.
func CancelSetAside(dir string) error {
	current := filepath.Join(dir, currentName)
	err := os.Remove(filepath.Join(current, markerName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err = errors.Join(err, fsutil.Sync(current)); err != nil {
		return fmt.Errorf("cancel the request to set %s aside: %w", current, err)
	}
	return nil
}

// SetAsideIfRequested calls SetAside if RequestSetAside was called for dir. It returns the reason
// and the new path of the files, or two empty strings if there is no request.
func SetAsideIfRequested(dir string) (why, to string, err error) {
	b, err := os.ReadFile(filepath.Join(dir, currentName, markerName)) // #nosec G304 -- a file of data-dir
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("read the reason for setting %s aside: %w", dir, err)
	}
	to, err = SetAside(dir)
	return strings.TrimSpace(string(b)), to, err
}
