package persistence

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/throttledhq/throttled/dirs"
)

// FS is the file system under a [Store]. Errors wrap those of package io/fs where there
// is one that fits.
type FS interface {
	// Create makes an empty file for writing and reading; one that is there is emptied.
	Create(path string) (File, error)
	// Open opens a file for reading.
	Open(path string) (File, error)
	// Rename replaces the file at to, if there is one, in one step.
	Rename(from, to string) error
	// Link gives a file a second name, which must be free.
	Link(from, to string) error
	Remove(path string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(path string) error
}

// File is an open file of an [FS].
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	// Sync makes what was written durable.
	Sync() error
	// Size returns the number of bytes in the file.
	Size() (int64, error)
}

// Disk is the file system of the machine. Files that it creates are readable by their
// owner only, since keys may tell who uses a service.
var Disk FS = disk{}

type disk struct{}

func (disk) Create(path string) (File, error) {
	return wrap(os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600))
}

// Open does not wait for who may write to a pipe of that name, nor take anything for a
// snapshot that has no end.
func (disk) Open(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	const endless = fs.ModeNamedPipe | fs.ModeSocket | fs.ModeDevice | fs.ModeCharDevice
	if info, err := f.Stat(); err != nil || info.Mode()&endless != 0 {
		_ = f.Close() // nothing was read
		return nil, errors.Join(err, &fs.PathError{Op: "open", Path: path, Err: errors.New("not a file on a disk")})
	}
	return diskFile{f}, nil
}

func (disk) Rename(from, to string) error { return os.Rename(from, to) }

func (disk) Link(from, to string) error { return os.Link(from, to) }

func (disk) Remove(path string) error { return os.Remove(path) }

func (disk) SyncDir(path string) error { return dirs.Sync(path) }

// diskFile adds to an os.File what File has besides.
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
