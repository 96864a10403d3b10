package main

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// receiveBuffer returns the size of the receive buffer of a socket as Linux reports it, which is twice the one that was set.
func receiveBuffer(t *testing.T, socket any) (size int) {
	t.Helper()
	raw, err := socket.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	failed := raw.Control(func(fd uintptr) { size, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF) })
	if err := errors.Join(failed, err); err != nil {
		t.Fatal(err)
	}
	return size
}

// TestReceiveBuffer checks that the listeners of all ports for clients have the receive buffer of the option.
func TestReceiveBuffer(t *testing.T) {
	const size = 48 << 10
	s := startSecured(t, "no", "--client-receive-buffer", "48kb")
	if len(s.listeners) != 6 {
		t.Errorf("the program has %d listeners, want 6", len(s.listeners))
	}
	for _, ln := range s.listeners {
		if got := receiveBuffer(t, ln.Listener); got != size {
			t.Errorf("the receive buffer of %v has %d bytes, want %d", ln.Addr(), got, size)
		}
	}
}

// TestReceiveBuffer_Blocks sends to a connection that is not read. Accepted connections must have the receive buffer of the
// listener, which is not extended, so that the client blocks after few bytes.
func TestReceiveBuffer_Blocks(t *testing.T) {
	const size = 48 << 10
	ln, err := listenTCP("127.0.0.1:0", size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	client, dialed := net.Dial("tcp", ln.Addr().String())
	accepted, err := ln.Accept()
	if err := errors.Join(dialed, err); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = accepted.Close(), client.Close() })
	if got := receiveBuffer(t, accepted); got != size {
		t.Errorf("the receive buffer of an accepted connection has %d bytes, want %d", got, size)
	}
	if err := client.(*net.TCPConn).SetWriteBuffer(size); err != nil {
		t.Fatal(err)
	}
	sent, err := writeUntilBlocked(client)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("write: %v, want that it is blocked", err)
	}
	if bound := 3 * size; sent == 0 || sent > bound { // the receive buffer, and the send buffer of twice the size
		t.Errorf("the kernel has taken %d bytes, want at most %d", sent, bound)
	}
}

// writeUntilBlocked writes until no byte is taken for 300 ms.
func writeUntilBlocked(conn net.Conn) (sent int, err error) {
	for chunk := make([]byte, 4<<10); err == nil; {
		if err = conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err == nil {
			var n int
			n, err = conn.Write(chunk)
			sent += n
		}
	}
	return sent, err
}
