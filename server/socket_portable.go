//go:build !linux || portable

package server

import "syscall"

// shortReadDrains is false: whether a short read has taken all there was depends on the
// system, so a socket reads until there is nothing left.
const shortReadDrains = false

// readDescriptor reads once from a descriptor that does not block. The errno is 0 if it
// succeeds.
func readDescriptor(fd uintptr, p []byte) (int, syscall.Errno) {
	n, err := syscall.Read(int(fd), p)
	return n, errnoOf(err)
}

// writeDescriptor writes once to a descriptor that does not block, and returns the number of
// bytes written. The errno is 0 if it succeeds.
func writeDescriptor(fd uintptr, p []byte) (int, syscall.Errno) {
	n, err := syscall.Write(int(fd), p)
	return n, errnoOf(err)
}

// errnoOf returns the number of an error of package syscall, or 0 for nil.
func errnoOf(err error) syscall.Errno {
	errno, _ := err.(syscall.Errno)
	return errno
}
