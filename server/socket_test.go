package server

import (
	"bytes"
	"errors"
	"syscall"
	"testing"
)

// socketPair returns two connected nonblocking descriptors.
func socketPair(t *testing.T) (near, far uintptr) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range pair {
		t.Cleanup(func() { _ = syscall.Close(fd) })
		if err := syscall.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
	}
	return uintptr(pair[0]), uintptr(pair[1])
}

func TestDescriptor(t *testing.T) {
	near, far := socketPair(t)
	buf := make([]byte, 16)
	if _, errno := readDescriptor(far, buf); errno != syscall.EAGAIN {
		t.Errorf("read without data: %v, want EAGAIN", errno)
	}
	if n, errno := writeDescriptor(near, []byte("hello")); n != 5 || errno != 0 {
		t.Errorf("write: %d bytes, %v; want 5 bytes and errno 0", n, errno)
	}
	for _, step := range []struct {
		room int
		want string
	}{{2, "he"}, {16, "llo"}} {
		if n, errno := readDescriptor(far, buf[:step.room]); string(buf[:max(n, 0)]) != step.want || errno != 0 {
			t.Errorf("read %q, %v; want %q and errno 0", buf[:max(n, 0)], errno, step.want)
		}
	}
	if _, errno := readDescriptor(1<<20, buf); errno != syscall.EBADF {
		t.Errorf("read from a descriptor that is not open: %v, want EBADF", errno)
	}
	if _, errno := writeDescriptor(1<<20, buf); errno != syscall.EBADF {
		t.Errorf("write to a descriptor that is not open: %v, want EBADF", errno)
	}
}

// TestDescriptor_Full checks that a write of more bytes than the socket buffers hold is partial, and that a write to full
// buffers returns EAGAIN.
func TestDescriptor_Full(t *testing.T) {
	near, far := socketPair(t)
	big := bytes.Repeat([]byte("x"), 8<<20)
	written := 0
	for {
		n, errno := writeDescriptor(near, big)
		if errno != 0 {
			if errno != syscall.EAGAIN {
				t.Fatal(errno)
			}
			break
		}
		written += n
	}
	if written == 0 || written >= len(big) {
		t.Fatalf("%d bytes fit in the socket buffers, want some but not all", written)
	}
	read := 0
	for {
		n, errno := readDescriptor(far, big)
		if errno != 0 {
			break
		}
		read += n
	}
	if read != written {
		t.Errorf("%d of the %d bytes written were read, want all", read, written)
	}
}

// TestSocket_Drained checks that a read that does not fill the buffer marks the socket as drained only if the system
// guarantees that no bytes are left. The next Read must return errNothing.
func TestSocket_Drained(t *testing.T) {
	near, far := socketPair(t)
	s := &socket{raw: noRaw{}, fd: far}
	if n := (&socket{raw: noRaw{}, fd: near}).tryWrite([]byte("hello")); n != 5 {
		t.Fatalf("tryWrite wrote %d bytes, want 5", n)
	}
	if n, err := s.Read(make([]byte, 16)); n != 5 || err != nil || s.drained != shortReadDrains {
		t.Errorf("Read: %d bytes, error %v, drained %t; want 5 bytes, no error, and drained equal to shortReadDrains", n, err, s.drained)
	}
	if _, err := s.Read(make([]byte, 16)); !errors.Is(err, errNothing) {
		t.Errorf("Read without data: %v, want errNothing", err)
	}
	_ = syscall.Shutdown(int(near), syscall.SHUT_WR)
	if n, err := s.Read(make([]byte, 16)); n != 0 || err == nil || errors.Is(err, errNothing) {
		t.Errorf("Read at the end of the stream: %d bytes, error %v; want 0 bytes and an error other than errNothing", n, err)
	}
}

// noRaw is a syscall.RawConn for tests that set the descriptor themselves.
type noRaw struct{ syscall.RawConn }
