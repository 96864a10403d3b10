package server

import (
	"io"
	"net"
	"runtime"
	"syscall"
	"time"

	"github.com/throttledhq/throttled/internal/tlsserver"
)

// socket reads and writes one connection.
//
// A server that handles many small requests spends most of its time in system calls. net.Conn tries to read before it
// waits, although nearly always no bytes have arrived yet. It also notifies the scheduler of each system call, although
// these calls never block. A socket therefore uses the descriptor directly, and waits once, reads once and writes once
// for each request. Connections without a descriptor are read and written through net.Conn. Connections with TLS are
// read and written through package tls, which uses the descriptor through ciphertext.
//
// Waiting uses syscall.RawConn on every system. The system calls for Linux are in socket_linux.go, and those for other
// systems in socket_portable.go. For tests, the build tag "portable" selects socket_portable.go on Linux as well.
//
// The goroutine that serves the connection owns the socket. Other goroutines may only call hangUp, stopReading, ended
// and descriptor, which never block. They must not call Close: Close waits for the owner, and if the owner is waiting
// for the calling goroutine, neither of the two can continue.
type socket struct {
	net.Conn
	cipher  *ciphertext     // nil without TLS
	raw     syscall.RawConn // nil if there is no descriptor
	fd      uintptr         // valid while loop runs
	drained bool            // the last Read returned all available bytes
}

func newSocket(conn net.Conn) *socket {
	s := &socket{Conn: conn}
	if c, ok := conn.(*tlsserver.Conn); ok {
		s.cipher = &ciphertext{socket: s, Conn: c.Under()}
		conn = c.Under()
		c.SetTransport(s.cipher)
	}
	if owner, ok := conn.(syscall.Conn); ok {
		if raw, err := owner.SyscallConn(); err == nil {
			s.raw = raw
		}
	}
	return s
}

// readResult is the result of one call of the step function that is passed to loop.
type readResult uint8

const (
	readAgain readResult = iota // more bytes may be available
	readWait                    // all available bytes have been read
	readStop                    // loop returns
)

// loop calls step whenever bytes may be available, until step returns readStop or the wait for more bytes fails
// because the connection was aborted or closed. It returns the error of the wait.
//
// loop makes a single call of raw.Read for the lifetime of the connection. The runtime records readiness events that
// arrive between calls of step, so loop can wait without a read attempt and misses no event, with one exception: if the
// end of the stream arrived before the last read, there is no further event. The reaper checks for this case (see
// ended).
func (s *socket) loop(step func() readResult) error {
	if s.raw == nil {
		for step() != readStop {
		}
		return nil
	}
	if s.cipher != nil {
		defer s.cipher.useDescriptor(false)
	}
	return s.raw.Read(func(fd uintptr) (done bool) {
		s.fd = fd
		if s.cipher != nil {
			s.cipher.useDescriptor(true)
		}
		for {
			switch step() {
			case readWait:
				return false
			case readStop:
				return true
			}
			// Yield after each step, so that other clients run. A goroutine that never yields is
			// preempted at an arbitrary place, in the worst case while it holds the lock of a shard.
			runtime.Gosched()
		}
	})
}

// Read reads the available bytes. If there is a descriptor and no bytes are available, Read immediately returns
// errNothing.
func (s *socket) Read(p []byte) (int, error) {
	if s.raw == nil || s.cipher != nil {
		return s.Conn.Read(p)
	}
	n, err := s.readAvailable(p)
	s.drained = shortReadDrains && err == nil && n < len(p)
	return n, err
}

// readAvailable reads the available bytes from the descriptor. If there are none, it returns errNothing.
func (s *socket) readAvailable(p []byte) (int, error) {
	for {
		n, errno := readDescriptor(s.fd, p)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			return 0, errNothing
		case errno != 0:
			return 0, errno
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// errNothing is returned by Read if no bytes are available.
var errNothing error = nothingError{}

// nothingError is the type of errNothing. It is a temporary net.Error, so that package tls can continue to read the record
// of which it has read a part.
type nothingError struct{}

func (nothingError) Error() string   { return "nothing to read" }
func (nothingError) Timeout() bool   { return false }
func (nothingError) Temporary() bool { return true }

// tryWrite writes as much of p as possible without blocking, and returns the number of bytes written. It returns 0 on
// an error or if there is no descriptor. The caller must pass the rest to Write. With TLS, encrypted bytes may be left that
// were not written: see hasUnsent.
func (s *socket) tryWrite(p []byte) int {
	switch {
	case s.raw == nil:
		return 0
	case s.cipher != nil:
		return s.cipher.tryWrite(p)
	}
	n, errno := writeDescriptor(s.fd, p)
	if errno != 0 {
		return 0
	}
	return n
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// hangUp makes blocked and future operations of the owner fail.
func (s *socket) hangUp() { _ = s.SetDeadline(longAgo) }

// stopReading makes loop return when the owner next waits for bytes. It does not affect writes.
func (s *socket) stopReading() { _ = s.SetReadDeadline(longAgo) }

// ended reports whether the peer has reset the connection, or has closed its side and all bytes have been read. The
// check consumes the error of a reset, so the result must not be ignored.
func (s *socket) ended() bool {
	end := false
	s.control(func(fd int) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		end = n == 0 && err == nil || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
	})
	return end
}

// descriptor returns the file descriptor, or -1.
func (s *socket) descriptor() int {
	number := -1
	s.control(func(fd int) { number = fd })
	return number
}

// control calls f with the descriptor, if there is one and it is open.
func (s *socket) control(f func(fd int)) {
	if s.raw != nil {
		_ = s.raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

// linger closes the write side, and then reads and discards bytes until the peer closes its side, until lingerTime has
// passed, or until lingerBytes bytes have been discarded. If the connection were closed immediately while the peer is
// still sending, the connection would be reset, and written bytes could be lost. linger must be called after loop has
// returned. If the write side cannot be closed separately, linger returns immediately unless the anyway parameter is
// set.
func (s *socket) linger(anyway bool) {
	if s.CloseWrite() != nil && !anyway {
		return
	}
	_ = s.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, s.Conn, lingerBytes)
}

const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
)
