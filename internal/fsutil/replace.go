package fsutil

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace atomically and durably replaces the content of a file, or creates the file: it writes and syncs a temporary
// file in the same directory, renames it, and syncs the directory. After an error or a crash, the file has either the old
// or the new content. The file has the given mode, and is owned by the owner of the process.
func Replace(path string, content []byte, mode fs.FileMode) (err error) {
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

func writeAndSync(f *os.File, content []byte, mode fs.FileMode) error {
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}
