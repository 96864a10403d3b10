package persistence

import (
	"errors"
	"fmt"

	"github.com/throttledhq/throttled/dirs"
)

// The ways in which a snapshot is refused; a [FileError] wraps one of them.
var (
	// ErrDamaged is wrapped when the bytes of a snapshot are not those that were written.
	ErrDamaged = errors.New("damaged")
	// ErrUnknown is wrapped when a snapshot is whole but holds what this version of the
	// program does not know: it was written by a later one.
	ErrUnknown = errors.New("not understood")
	// ErrUnreadable is wrapped, with the error of the file system, when the bytes of a
	// snapshot cannot be read.
	ErrUnreadable = errors.New("unreadable")
	// ErrMissing is wrapped when there is no current snapshot, but a previous one. No save leaves
	// that, however it ends.
	ErrMissing = errors.New("missing")
)

// The errors of a [Store].
var (
	// ErrLocked is wrapped by Open when another Store, in this process or another, has
	// the directory.
	ErrLocked = dirs.ErrLocked
	// ErrSaving is returned when a snapshot is asked for while another is being written.
	ErrSaving = errors.New("a snapshot is being written already")
	// ErrLoading is returned when a snapshot is asked for before Load has succeeded. The
	// state then lacks what is in the file, which must not be replaced by it.
	ErrLoading = errors.New("the state has not been loaded yet")
	// ErrClosed is returned when a snapshot is asked for after Close.
	ErrClosed = errors.New("snapshots have ended")
)

var (
	errStopped  = errors.New("reading was stopped")
	errChanging = errors.New("it was changed while it was read")
)

// FileError says that a snapshot is refused, and where in it the reason is.
type FileError struct {
	File   string
	Offset int64 // bytes from the start of the file
	Kind   error // ErrDamaged, ErrUnknown or ErrUnreadable
	Err    error // what is wrong there
}

func (e *FileError) Error() string {
	return fmt.Sprintf("snapshot %s is %v at byte %d: %v", e.File, e.Kind, e.Offset, e.Err)
}

// Unwrap gives both what kind of fault it is and what caused it.
func (e *FileError) Unwrap() []error { return []error{e.Kind, e.Err} }
