//go:build !linux || portable

package server

import "syscall"

// shortReadDrains is false: whether a read that does not fill the buffer has returned all available bytes depends on the
// system. A socket therefore reads until no bytes are left.
const shortReadDrains = false

// readDescriptor reads once from a nonblocking descriptor. The errno is 0 on success.
func readDescriptor(fd uintptr, p []byte) (int, syscall.Errno) {
	n, err := syscall.Read(int(fd), p)
	return n, errnoOf(err)
}

// writeDescriptor writes once to a nonblocking descriptor, and returns the number of bytes written. The errno is 0 on
// success.
func writeDescriptor(fd uintptr, p []byte) (int, syscall.Errno) {
	n, err := syscall.Write(int(fd), p)
	return n, errnoOf(err)
}

// errnoOf returns the errno of an error from package syscall, or 0 for nil.
func errnoOf(err error) syscall.Errno {
	errno, _ := err.(syscall.Errno)
	return errno
}
