package wal

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/throttledhq/throttled/internal/fsutil"
)

// files is the file system of a Log. Tests replace it to inject faults.
type files interface {
	Names(dir string) ([]string, error)
	ReadFile(path string) ([]byte, error)
	Create(path string) (file, error) // truncates an existing file
	Remove(path string) error
	SyncDir(dir string) error // makes the directory entries durable
}

type file interface {
	io.WriteCloser
	Sync() error // makes the content and the length durable
}

// disk is the file system of the operating system.
type disk struct{}

// Names returns the names of the entries of a directory.
func (disk) Names(dir string) ([]string, error) {
	d, err := os.Open(dir) // #nosec G304 -- a file of data-dir
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	return names, errors.Join(err, d.Close())
}

// ReadFile returns the content of a file.
func (disk) ReadFile(path string) ([]byte, error) { return os.ReadFile(path) } // #nosec G304 -- a file of data-dir

// Create opens an empty file for writing.
func (disk) Create(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) // #nosec G304 -- a file of data-dir
	if err != nil {
		return nil, err
	}
	return &diskFile{f, int(f.Fd())}, nil
}

// Remove removes a file.
func (disk) Remove(path string) error { return os.Remove(path) }

// SyncDir makes the entries of a directory durable.
func (disk) SyncDir(dir string) error { return fsutil.Sync(dir) }

type diskFile struct {
	*os.File
	fd int
}

// Sync makes the content and the length durable. It does not sync other metadata.
func (f *diskFile) Sync() error {
	for {
		if err := syncData(f); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
