package http1

import (
	"io"
	"syscall"
	"unsafe"
)

const supported = true

// readDescriptor reads the available bytes. It returns errNothing if there are none. The system calls do not notify the
// scheduler, because they never block.
func readDescriptor(fd uintptr, p []byte) (int, error) {
	for {
		n, errno := rawCall(syscall.SYS_READ, fd, p)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			return 0, errNothing
		case errno != 0:
			return 0, errno
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// writeDescriptor writes as many bytes as possible without blocking. It returns 0 after an error, which a later write
// then returns.
func writeDescriptor(fd uintptr, p []byte) int {
	n, errno := rawCall(syscall.SYS_WRITE, fd, p)
	if errno != 0 {
		return 0
	}
	return n
}

func rawCall(number, fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))) // #nosec G103 -- system call; the length is that of the slice, or of the integer
	return int(n), errno
}
