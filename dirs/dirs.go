// Package dirs does for directories what package os does for files only: [Lock] keeps a
// second process out of one, and [Sync] makes the names in it durable.
//
// # Guarantees
//
// One holder at a time has the lock of a directory, among all processes of a machine and
// within each. It is given back by the end of the process, however that comes, and leaves no
// file. A process that the holder starts does not get it.
//
// # Caveats
//
// The lock is flock's, and keeps out only those who ask for it. Where the file system has no
// flock on directories, as some network file systems, Lock fails. The lock is on the directory
// and not on its name: it goes along when the directory is renamed, and one that is made in its
// place is free.
//
// Some file systems have no way to make names durable. Sync then does nothing.
package dirs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked is wrapped by Lock when another process, or somebody else in this one, has the
// lock.
var ErrLocked = errors.New("another process uses it")

// Lock takes the lock on a directory, which must be there; closing the file that it returns
// gives it back. It never waits. It wraps [ErrLocked] if the lock is taken, or else the error of
// the file system.
func Lock(path string) (*os.File, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
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

// Sync makes the names in a directory durable, of files that were made, linked, renamed or
// removed there; what the files hold is not its business. It returns errors of the file system.
func Sync(path string) error {
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
