package transport

import (
	"net"
	"syscall"
	"unsafe"
)

// queuedIn returns the number of bytes written to a connection that the other end has not acknowledged; 0
// if it is unknown.
func queuedIn(c net.Conn) int64 {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	var n int32
	_ = raw.Control(func(fd uintptr) { // a closed connection has no bytes in flight
		// On a socket, TIOCOUTQ is the same request as SIOCOUTQ.
		_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&n))) // #nosec G103 -- system call; the length is that of the slice, or of the integer
	})
	return int64(n)
}
