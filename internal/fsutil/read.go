package fsutil

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// ErrNotRegular is wrapped by the errors of Open and ReadFile if the path is that of a directory, a pipe, a socket or a device.
var ErrNotRegular = errors.New("is not a regular file")

// Open opens a regular file for reading. It never blocks: opening a pipe without a writer, or reading a terminal, could block
// until the process is killed. The error contains the path. It wraps [ErrNotRegular], or is an error of the file system.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // #nosec G304 G703 -- the operator chooses the path
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s %w", path, ErrNotRegular)
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, err
	}
	return f, nil
}

// ReadFile returns the content of a regular file. Its errors are those of [Open].
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading only
	return io.ReadAll(f)
}
