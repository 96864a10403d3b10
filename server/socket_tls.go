package server

import (
	"errors"
	"net"
	"sync"
)

// ciphertext carries the encrypted bytes of a connection with TLS. Package tls reads from it and writes to it, instead of the
// connection.
//
// Reads do not block while the loop of the socket runs: if no bytes are available, they return errNothing, and the loop
// waits as it does without TLS. Writes append to a buffer. A method of the socket that has written replies then sends the
// buffer with one system call: tryWrite without blocking, and Write with blocking. Thus replies are queued in a feed if a
// client does not read them, as without TLS.
//
// The goroutine of the connection calls Read and tryWrite. Write, flush and Close may be called concurrently.
type ciphertext struct {
	net.Conn   // carries the encrypted bytes
	socket     *socket
	descriptor bool // reads use the descriptor and do not block
	drained    bool // the last read returned all available bytes

	mu  sync.Mutex
	out []byte // not yet written
}

// keepCipher is the maximum capacity in bytes of the write buffer that a connection keeps.
const keepCipher = 20 << 10

// useDescriptor sets whether Read uses the descriptor. It must be set only while the loop of the socket runs.
func (c *ciphertext) useDescriptor(yes bool) { c.descriptor = yes }

// maxCipher is the maximum number of bytes that may be left in the write buffer when a connection is read. Replies leave
// fewer.
const maxCipher = 4 * flushAt

// errUnreadCipher is the reason why a connection is closed.
var errUnreadCipher = errors.New("the client sends key updates, and does not read the answers")

// Read reads encrypted bytes. Before, it writes the answers of package tls to earlier bytes, such as key updates, since
// there may be no reply after which they would be written.
func (c *ciphertext) Read(p []byte) (int, error) {
	if !c.descriptor {
		return c.Conn.Read(p)
	}
	if !c.tryFlushAnswers() {
		return 0, errUnreadCipher
	}
	if c.drained { // later bytes cause an event
		c.drained = false
		return 0, errNothing
	}
	n, err := c.socket.readAvailable(p)
	c.drained = shortReadDrains && err == nil && n < len(p)
	return n, err
}

// Write appends encrypted bytes to the buffer.
func (c *ciphertext) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(c.out, p...)
	return len(p), nil
}

// tryWrite encrypts and writes replies until the socket buffer is full, and returns the number of encrypted bytes of p.
func (c *ciphertext) tryWrite(p []byte) (written int) {
	for written < len(p) {
		n, err := c.socket.Conn.Write(p[written:min(len(p), written+flushAt)])
		written += n
		if err != nil || !c.tryFlush() {
			break
		}
	}
	return written
}

// tryFlush writes as much of the buffer as possible without blocking, and reports whether the buffer is empty.
func (c *ciphertext) tryFlush() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, errno := writeDescriptor(c.socket.fd, c.out)
	if errno != 0 {
		n = 0
	}
	c.keep(n)
	return len(c.out) == 0
}

// tryFlushAnswers is like tryFlush, and reports whether at most maxCipher bytes are left. It does nothing while flush blocks,
// since package tls cannot write then.
func (c *ciphertext) tryFlushAnswers() bool {
	if !c.mu.TryLock() {
		return true
	}
	defer c.mu.Unlock()
	if len(c.out) == 0 {
		return true
	}
	n, errno := writeDescriptor(c.socket.fd, c.out)
	if errno != 0 {
		n = 0
	}
	c.keep(n)
	return len(c.out) <= maxCipher
}

// flush writes the buffer. While it blocks, package tls cannot write, for example to answer a key update.
func (c *ciphertext) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.Conn.Write(c.out)
	c.keep(n)
	return err
}

// keep removes the first n bytes from the buffer.
func (c *ciphertext) keep(n int) {
	c.out = append(c.out[:0], c.out[n:]...)
	if len(c.out) == 0 && cap(c.out) > keepCipher {
		c.out = nil
	}
}

// Close sends the rest of the buffer if the socket buffer has room, since the rest may be the alert that ends the
// connection, and closes the connection.
func (c *ciphertext) Close() error {
	if c.mu.TryLock() { // otherwise a write is blocked, and fails now
		c.socket.control(func(fd int) { _, _ = writeDescriptor(uintptr(fd), c.out) })
		c.mu.Unlock()
	}
	return c.Conn.Close()
}

// hasUnsent reports whether encrypted bytes are left that tryWrite has not written.
func (s *socket) hasUnsent() bool {
	if s.cipher == nil {
		return false
	}
	s.cipher.mu.Lock()
	defer s.cipher.mu.Unlock()
	return len(s.cipher.out) > 0
}

// Write writes p, and blocks until it is written.
func (s *socket) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	if s.cipher != nil && err == nil {
		err = s.cipher.flush()
	}
	return n, err
}

// CloseWrite closes the side that is written. It returns an error if this side cannot be closed separately.
func (s *socket) CloseWrite() error {
	half, ok := s.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	err := half.CloseWrite()
	if s.cipher != nil && err == nil {
		err = s.cipher.flush() // the alert that ends the data
	}
	return err
}
