package loadgen

import (
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller waits for sockets that are readable.
type poller struct {
	fd     int
	events [256]unix.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &poller{fd: fd}, nil
}

// add adds a socket. The poller reports it by its index.
func (p *poller) add(fd, index int) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(index)}
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &e)
}

// wait waits until sockets are readable, and at most for the given time. It returns the number of readable sockets,
// which index returns. epoll_pwait2 has a resolution of nanoseconds, unlike epoll_wait.
func (p *poller) wait(most time.Duration) (int, error) {
	limit := unix.NsecToTimespec(max(0, int64(most)))
	n, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
		uintptr(len(p.events)), uintptr(unsafe.Pointer(&limit)), 0, 0)
	if errno == syscall.EINTR {
		return 0, nil
	}
	if errno != 0 {
		return 0, fmt.Errorf("epoll: %w", errno)
	}
	return int(n), nil
}

// index returns the index of the i-th readable socket.
func (p *poller) index(i int) int { return int(p.events[i].Fd) }

func (p *poller) close() { _ = unix.Close(p.fd) }

// dial returns a non-blocking socket that is connected to a loopback address.
func dial(addr string) (int, error) {
	target, err := netip.ParseAddrPort(addr)
	if err != nil || !target.Addr().Is4() {
		return 0, fmt.Errorf("address %q: an IPv4 address and a port are required", addr)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(target.Port()), Addr: target.Addr().As4()})
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = unix.Close(fd)
		return 0, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return fd, nil
}

// read and write return 0 if the socket is not ready. They are system calls that do not inform the scheduler of Go,
// because they do not block.
func read(fd int, b []byte) (int, error) {
	return transfer(syscall.SYS_READ, fd, b)
}

func write(fd int, b []byte) (int, error) {
	return transfer(syscall.SYS_WRITE, fd, b)
}

func transfer(call uintptr, fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return 0, nil
	case errno != 0:
		return 0, errno
	case n == 0:
		return 0, errClosed
	}
	return int(n), nil
}

func closeSocket(fd int) { _ = unix.Close(fd) }

// ownThread binds the goroutine to a thread whose sleeps are not extended, and returns a function that undoes this and
// returns the CPU time of the thread since then.
func ownThread() func() time.Duration {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	before := threadTime()
	return func() time.Duration {
		defer runtime.UnlockOSThread()
		return threadTime() - before
	}
}

func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // cannot fail for this clock
	return time.Duration(t.Nano())
}
