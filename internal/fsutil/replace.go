package fsutil

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace atomically and durably replaces the content of a file, or creates the file: it writes and syncs a temporary
// file in the same directory, renames it, and syncs the directory. After an error or a crash, the file has either the old
// or the new content. The file has the given mode, and is owned by the owner of the process. The error wraps [ErrNotRegular] if
// path is not that of a regular file.
func Replace(path string, content []byte, mode fs.FileMode) (err error) {
	if err := CheckReplaceable(path); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error is returned
		}
	}()
	err = errors.Join(writeAndSync(f, content, mode), f.Close())
	if err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// CheckReplaceable returns an error that wraps [ErrNotRegular] if path is that of a directory, a pipe, a socket or a device. A
// rename to such a path would replace a device, such as /dev/null, by a file.
func CheckReplaceable(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s %w", path, ErrNotRegular)
	}
	return nil
}

func writeAndSync(f *os.File, content []byte, mode fs.FileMode) error {
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}
