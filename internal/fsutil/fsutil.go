// Package fsutil provides operations on files and directories that package os does not have: [Lock]
// locks a directory against other processes, [Sync] makes its entries durable, [Replace] replaces a file, [SameState]
// detects changed files, [Open] and [ReadFile] read regular files only, and [WarnReadable] and [WarnWritable] report
// secrets that other users can read or write, and directories to which all users can write.
//
// # Guarantees
//
// The lock of a directory has at most one holder at a time, among all processes of a machine and
// within each process. The lock is released when the process exits, for any reason, and leaves no
// file. A child process does not inherit the lock.
//
// # Caveats
//
// The lock is an advisory lock by flock. On file systems that do not support flock on
// directories, such as some network file systems, Lock fails. The lock belongs to the
// directory and not to its name: a renamed directory stays locked, and a new directory
// with the old name is not locked.
//
// On file systems that cannot make directory entries durable, Sync does nothing.
package fsutil

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked is wrapped by the error of Lock if the lock is already held, by another
// process or in this one.
var ErrLocked = errors.New("it is in use by another process")

// Lock locks an existing directory; closing the returned file releases the lock. Lock
// never blocks. The error wraps [ErrLocked] if the lock is held; otherwise it is an error
// of the file system.
func Lock(path string) (*os.File, error) {
	dir, err := os.Open(path) // #nosec G304 -- the caller has chosen the directory
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

// Sync makes the entries of a directory durable: files created, linked, renamed or removed in
// it. It does not sync the contents of the files. It returns the error of the file system.
func Sync(path string) error {
	d, err := os.Open(path) // #nosec G304 -- the caller has chosen the directory
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // not supported by the file system
	}
	return errors.Join(err, d.Close())
}

// SameState reports whether two results of os.Stat have the same file, size and time of the last change. A nil
// FileInfo means that there was no file.
func SameState(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
