//go:build !portable

package server

import (
	"syscall"
	"unsafe"
)

// shortReadDrains is true where a read that returns less than it has room for has taken all
// there was, and the next arrival is announced: epoll(7) guarantees both for streams.
const shortReadDrains = true

// readDescriptor reads once from a descriptor that does not block. The scheduler does not
// learn of the call, as it returns at once. The errno is 0 if it succeeds.
func readDescriptor(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

// writeDescriptor writes once to a descriptor that does not block, and returns how much the
// system has taken. The errno is 0 if it succeeds.
func writeDescriptor(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}
