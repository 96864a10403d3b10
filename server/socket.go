package server

import (
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
	"time"
)

// socket reads and writes one connection.
//
// A server of many small requests spends most of its time in system calls. net.Conn tries to read
// before it waits, which nearly always fails, and notifies the scheduler of calls that never block.
// A socket therefore uses the descriptor directly: it waits once, reads once, writes once.
// Connections without a descriptor are read and written through net.Conn.
//
// Waiting uses syscall.RawConn on every system. The calls themselves are in socket_linux.go, and in
// socket_portable.go for other systems. The build tag "portable" selects the latter on Linux as well,
// for tests.
//
// The goroutine that serves the connection owns the socket. Other goroutines may only call hangUp,
// stopReading, ended and descriptor, which never block. They must not call Close, which waits for
// the owner, since the owner may wait for them.
type socket struct {
	net.Conn
	raw     syscall.RawConn // nil if there is no descriptor
	fd      uintptr         // valid within loop
	drained bool            // the last Read returned all available bytes
}

func newSocket(conn net.Conn) *socket {
	s := &socket{Conn: conn}
	if owner, ok := conn.(syscall.Conn); ok {
		if raw, err := owner.SyscallConn(); err == nil {
			s.raw = raw
		}
	}
	return s
}

// progress is the result of a turn of the loop.
type progress uint8

const (
	again progress = iota // more bytes may be available
	wait                  // all available bytes have been read
	stop
)

// loop calls turn whenever bytes may be available, until turn returns stop or waiting for the
// connection fails, and returns the error of the wait: the connection was aborted, or closed.
//
// loop is one call of raw.Read for the whole connection. The runtime records a readiness event that
// arrives between calls of turn, so loop can wait without a read attempt and misses no event, with one
// exception: an end of the stream that arrived before the last read is not announced again. The
// reaper checks for it (see ended).
func (s *socket) loop(turn func() progress) error {
	if s.raw == nil {
		for turn() != stop {
		}
		return nil
	}
	return s.raw.Read(func(fd uintptr) (done bool) {
		s.fd = fd
		for {
			switch turn() {
			case wait:
				return false
			case stop:
				return true
			}
			// Yield after each turn, so that other clients run. A goroutine that never yields is
			// preempted at an arbitrary place, in the worst case while it holds the lock of a shard.
			runtime.Gosched()
		}
	})
}

// Read reads the available bytes. If there is a descriptor and nothing to read, it immediately returns
// errNothing.
func (s *socket) Read(p []byte) (int, error) {
	if s.raw == nil {
		return s.Conn.Read(p)
	}
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
		s.drained = shortReadDrains && n < len(p)
		return n, nil
	}
}

// errNothing is returned by Read if no bytes are available.
var errNothing = errors.New("nothing to read")

// tryWrite writes as much of p as is possible without blocking, and returns the number of bytes
// written. It returns 0 on an error or if there is no descriptor. The caller passes the rest to Write.
func (s *socket) tryWrite(p []byte) int {
	if s.raw == nil {
		return 0
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

// stopReading makes loop return as soon as the owner waits for more bytes. Writes still work.
func (s *socket) stopReading() { _ = s.SetReadDeadline(longAgo) }

// ended reports whether the peer has closed its side and all bytes have been read, or has reset the
// connection. The check consumes the error of a reset, so the result must not be ignored.
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

// linger closes the write side, and then reads and discards until the peer closes, at most
// lingerTime and lingerBytes, so that the written bytes arrive: a close while the peer still sends
// would reset the connection. It is called after loop has returned. If the write side cannot be closed
// separately, it returns immediately unless anyway is set.
func (s *socket) linger(anyway bool) {
	half, ok := s.Conn.(interface{ CloseWrite() error })
	if closed := ok && half.CloseWrite() == nil; !closed && !anyway {
		return
	}
	_ = s.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, s.Conn, lingerBytes)
}

const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
)
