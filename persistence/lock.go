package persistence

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockDir takes the lock on a directory; closing the file that it returns gives it back,
// and so does the end of the process, however it ends. The lock is on the directory
// itself, so that no file is left behind.
func lockDir(path string) (*os.File, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the directory of snapshots: %w", err)
	}
	err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return dir, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	_ = dir.Close() // nothing was written to it
	return nil, fmt.Errorf("lock the directory %s: %w", path, err)
}
