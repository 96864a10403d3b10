package raftstore

import (
	"errors"
	"os"
	"syscall"
)

// writeSynced writes a file and makes its content durable.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) // #nosec G304 -- a file of data-dir
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// freeSpace returns the number of bytes that the user can still write to the file system
// of a directory.
func freeSpace(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	blocks := max(s.Bavail, 0) // Bavail is signed on some systems
	return uint64(float64(blocks) * float64(s.Bsize)), nil
}
