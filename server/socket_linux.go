//go:build !portable

package server

import (
	"syscall"
	"unsafe"
)

// shortReadDrains is true: a read that does not fill the buffer has returned all available bytes, and later bytes cause
// a new event. epoll(7) guarantees these two properties for streams.
const shortReadDrains = true

// readDescriptor reads once from a nonblocking descriptor. The scheduler is not notified, since the call returns
// immediately. The errno is 0 on success.
func readDescriptor(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))) // #nosec G103 -- system call; the length is that of the slice, or of the integer
	return int(n), errno
}

// writeDescriptor writes once to a nonblocking descriptor, and returns the number of bytes written. The errno is 0 on
// success.
func writeDescriptor(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))) // #nosec G103 -- system call; the length is that of the slice, or of the integer
	return int(n), errno
}
