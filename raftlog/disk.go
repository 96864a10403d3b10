package raftlog

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockDir takes the lock on a directory; closing the file that it returns gives it back,
// and so does the end of the process, however it ends.
func lockDir(path string) (*os.File, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the directory of the log: %w", err)
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

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // some file systems have no way to ask for it
	}
	return errors.Join(err, d.Close())
}

// writeSynced writes a file and makes its bytes durable.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// freeSpace returns the bytes that the file system of a directory has left for this user.
func freeSpace(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	blocks := max(s.Bavail, 0) // it is signed on some systems
	return uint64(float64(blocks) * float64(s.Bsize)), nil
}
