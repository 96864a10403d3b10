package server

import (
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// socket moves the bytes of one connection.
//
// A server of many small requests spends most of its time in system calls. net.Conn
// tries to read before it waits, which fails nearly always, and tells the scheduler
// about calls that never block. A socket therefore uses the descriptor itself: it waits
// once, reads once, writes once. Connections that have no descriptor are read and
// written through net.Conn.
//
// The goroutine that serves the connection owns it. Others may only call hangUp,
// stopReading, ended and descriptor, which never wait: closing would wait for the owner, who may be waiting for them.
type socket struct {
	net.Conn
	raw     syscall.RawConn // nil: there is no descriptor
	fd      uintptr         // within loop
	drained bool            // the last Read took all there was
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

// progress is what a turn of the loop leads to.
type progress uint8

const (
	again progress = iota // there may be more to read
	wait                  // all has been read
	stop
)

// loop calls turn whenever there may be something to Read, until it says stop or the
// connection cannot be waited for any more, and then returns why: hung up, or closed.
//
// A whole connection is one call of raw.Read. Between its calls of turn the runtime
// keeps an arrival that happens meanwhile, so nothing is missed by waiting without
// having tried to read, but for one case: the end of the stream that came before the
// last read is not announced again. The housekeeper looks for that (see ended).
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
			// Others have their turn between two of a client that always has more to say.
			// Who never lets go is interrupted at an arbitrary place, in the worst case
			// with a shard locked.
			runtime.Gosched()
		}
	})
}

// Read reads what is there. Where there is a descriptor and nothing to read, it returns
// errNothing at once.
func (s *socket) Read(p []byte) (int, error) {
	if s.raw == nil {
		return s.Conn.Read(p)
	}
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, s.fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
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
		s.drained = int(n) < len(p)
		return int(n), nil
	}
}

// errNothing says that there is nothing to read at present.
var errNothing = errors.New("nothing to read")

// tryWrite writes what the system takes of p at once, and returns how much that was: 0
// also where there is no descriptor. Write is for the rest.
func (s *socket) tryWrite(p []byte) int {
	if s.raw == nil {
		return 0
	}
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, s.fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return 0
	}
	return int(n)
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// hangUp makes what the owner waits for fail, now and from now on.
func (s *socket) hangUp() { _ = s.SetDeadline(longAgo) }

// stopReading makes loop end once the owner waits for more. It goes on writing.
func (s *socket) stopReading() { _ = s.SetReadDeadline(longAgo) }

// ended reports whether the peer has sent all it will and all of it has been read, or has
// reset the connection. Looking takes the news of a reset away, so it is not to be ignored.
func (s *socket) ended() bool {
	end := false
	s.control(func(fd int) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		end = n == 0 && err == nil || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
	})
	return end
}

// descriptor returns the number of the socket, or -1.
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

// lastWords gives what has been written time to arrive: closing while the peer still
// sends would reset the connection, and the peer would not see why. It is called behind
// loop. Where only one side cannot be closed the peer does not see an end, and there is no use
// in waiting for its own, unless it is said to be worth the time anyway.
func (s *socket) lastWords(anyway bool) {
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
