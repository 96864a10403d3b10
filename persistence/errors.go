package persistence

import (
	"errors"
	"fmt"

	"github.com/throttledhq/throttled/internal/fsutil"
)

// The reasons for rejecting a snapshot. A [FileError] wraps one of the first three.
var (
	// ErrDamaged is wrapped when the content of a snapshot is corrupt.
	ErrDamaged = errors.New("damaged")
	// ErrUnknown is wrapped when a snapshot is intact but contains a format, block or record that
	// this version of the program does not support, because a later version wrote the snapshot.
	ErrUnknown = errors.New("not supported")
	// ErrUnreadable is wrapped, with the error of the file system, when a snapshot cannot be
	// read.
	ErrUnreadable = errors.New("unreadable")
	// ErrMissing is wrapped when there is a previous snapshot but no current one. No save leaves
	// the directory in this state, even if the save is interrupted.
	ErrMissing = errors.New("missing")
)

// The errors of a [Store].
var (
	// ErrLocked is wrapped by Open when another Store, in this process or another, has locked the
	// directory.
	ErrLocked = fsutil.ErrLocked
	// ErrSaving is returned when a save is requested while another is running.
	ErrSaving = errors.New("another save is in progress")
	// ErrLoading is returned when a save is requested before Load has succeeded. The state is
	// then incomplete and must not replace the file.
	ErrLoading = errors.New("the state has not been loaded yet")
	// ErrClosed is returned when a save is requested after Close.
	ErrClosed = errors.New("the snapshot store is closed: the server is stopping")
)

var (
	errStopped  = errors.New("the iteration was stopped")
	errChanging = errors.New("the file changed while it was read")
)

// FileError reports that a snapshot is rejected, with the offset and the reason.
type FileError struct {
	File   string
	Offset int64 // bytes from the start of the file
	Kind   error // ErrDamaged, ErrUnknown or ErrUnreadable
	Err    error // the cause
}

// Error returns a text with the file, the kind of the error, the offset and the cause.
func (e *FileError) Error() string {
	return fmt.Sprintf("snapshot %s is %v at byte %d: %v", e.File, e.Kind, e.Offset, e.Err)
}

// Unwrap returns both Kind and Err.
func (e *FileError) Unwrap() []error { return []error{e.Kind, e.Err} }
