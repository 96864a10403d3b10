package persistence

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/throttledhq/throttled/internal/fsutil"
)

// FS is the file system of a [Store]. Errors wrap the errors of package io/fs where
// applicable.
type FS interface {
	// Create creates an empty file for reading and writing. It truncates an existing
	// file.
	Create(path string) (File, error)
	// Open opens a file for reading.
	Open(path string) (File, error)
	// Rename renames a file. If a file with the new name exists, it is replaced atomically.
	Rename(from, to string) error
	// Link creates a hard link to a file. It fails if a file with the new name exists.
	Link(from, to string) error
	// Remove removes a file.
	Remove(path string) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(path string) error
}

// File is an open file of an [FS].
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	// Sync makes the written bytes durable.
	Sync() error
	// Size returns the size of the file in bytes.
	Size() (int64, error)
}

// Disk is the file system of the operating system. Files that it creates are readable by
// their owner only, since keys may identify users.
var Disk FS = disk{}

type disk struct{}

func (disk) Create(path string) (File, error) {
	return wrap(os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)) // #nosec G304 -- a snapshot in dir, or the argument of a command
}

// Open does not block on a named pipe without a writer. It rejects pipes, sockets and
// devices, which have no end.
func (disk) Open(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // #nosec G304 -- a snapshot in dir, or the argument of a command
	if err != nil {
		return nil, err
	}
	const endless = fs.ModeNamedPipe | fs.ModeSocket | fs.ModeDevice | fs.ModeCharDevice
	if info, err := f.Stat(); err != nil || info.Mode()&endless != 0 {
		_ = f.Close() // nothing was read, so an error has no effect
		return nil, errors.Join(err, &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")})
	}
	return diskFile{f}, nil
}

func (disk) Rename(from, to string) error { return os.Rename(from, to) }

func (disk) Link(from, to string) error { return os.Link(from, to) }

func (disk) Remove(path string) error { return os.Remove(path) }

func (disk) SyncDir(path string) error { return fsutil.Sync(path) }

// diskFile adds the Size method of File to an os.File.
type diskFile struct{ *os.File }

func wrap(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

func (f diskFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
