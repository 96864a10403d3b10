package server

import "syscall"

const (
	// unsentLimit is the number of bytes that the kernel stores for a peer that does not read its replies, besides those that
	// its receive window permits to send. Without a limit, the kernel stores up to 4 MiB, which neither
	// client-reply-buffer-limit nor maxmemory-clients counts.
	unsentLimit = 128 << 10

	tcpNotSentLowat = 25 // TCP_NOTSENT_LOWAT, which package syscall lacks
)

// limitUnsent sets unsentLimit. Bytes that were sent and not acknowledged do not count, so the limit does not reduce the
// throughput of slow networks. It has no effect on sockets other than TCP.
func (s *socket) limitUnsent() {
	s.control(func(fd int) { _ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpNotSentLowat, unsentLimit) })
}
