package forward

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/topology"
)

// stream is a connection to another node. A goroutine reads from the stream at all times, so that a closed idle stream
// is detected before its next use.
type stream struct {
	conn          net.Conn
	to            string // the id of the node
	protocol      int
	marks         bool       // the node sends ChargedMark
	out           resp.Reply // encoded commands to send
	scanner       replyScanner
	arrived       chan struct{} // holds a token if bytes have arrived
	timer         *time.Timer   // timer used by next
	changesLeader atomic.Bool   // a command in progress may change the leader
	expiry        *time.Timer   // closes the stream; nil while its node is the leader; guarded by Forwarder.mu

	mu    sync.Mutex
	in    []byte // bytes received
	taken int    // number of these bytes that next has returned
	err   error  // error that stopped receive
}

var errFull = errors.New("too many unread bytes from the other node")

// keepStream is the maximum size in bytes of each buffer that a stream keeps while it is idle.
const keepStream = 64 << 10

func newStream(conn net.Conn, to string, protocol int) *stream {
	return &stream{conn: conn, to: to, protocol: protocol, arrived: make(chan struct{}, 1)}
}

// receive reads until the stream is closed or fails, and closes the connection.
func (st *stream) receive() {
	buf := make([]byte, 16<<10)
	for {
		n, err := st.conn.Read(buf)
		if err = st.add(buf[:n], err); err != nil {
			_ = st.conn.Close()
			return
		}
	}
}

func (st *stream) add(b []byte, err error) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.in = append(st.in, b...)
	if err == nil && len(st.in)-st.taken > 2*maxReply {
		err = errFull
	}
	st.err = err
	select {
	case st.arrived <- struct{}{}:
	default:
	}
	return err
}

// next appends the next reply to dst. The error is ErrSilent if no reply arrives within the timeout.
func (st *stream) next(dst []byte, timeout time.Duration) ([]byte, error) {
	if dst, done, err := st.take(dst); done || err != nil {
		return dst, err
	}
	st.startTimer(timeout)
	defer st.timer.Stop()
	for {
		select {
		case <-st.arrived:
		case <-st.timer.C:
			return dst, ErrSilent
		}
		if dst, done, err := st.take(dst); done || err != nil {
			return dst, err
		}
	}
}

func (st *stream) startTimer(d time.Duration) {
	if st.timer == nil {
		st.timer = time.NewTimer(d)
		return
	}
	st.timer.Reset(d)
}

// take appends the next reply to dst if the complete reply has arrived, and reports whether it has.
func (st *stream) take(dst []byte) ([]byte, bool, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	size, err := st.scanner.scan(st.in[st.taken:])
	if size == 0 {
		if err == nil {
			err = st.err
		}
		return dst, false, err
	}
	dst = append(dst, st.in[st.taken:st.taken+size]...)
	st.taken += size
	if st.taken == len(st.in) || st.taken > keepStream {
		st.in, st.taken = st.in[:copy(st.in, st.in[st.taken:])], 0
	}
	return dst, true, nil
}

// unread reports whether bytes of a reply have arrived, or the stream has failed.
func (st *stream) unread() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return len(st.in) > st.taken || st.err != nil
}

// rest releases large buffers, and reports whether the stream can be used again. A stream with unread bytes cannot be
// used again: between exchanges, a node sends only the error Goaway, before it closes the stream.
func (st *stream) rest() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if cap(st.in) > keepStream {
		st.in = nil
	}
	st.out.Truncate(0, keepStream)
	return st.err == nil && len(st.in) == 0
}

func (st *stream) close() { _ = st.conn.Close() }

// greet negotiates the version of RESP, and enables ChargedMark with CLIENT CAPA. A node that does not support marks
// replies to CLIENT CAPA with an error.
func (st *stream) greet(timeout time.Duration) error {
	greeting, replies := "*3\r\n$6\r\nCLIENT\r\n$4\r\nCAPA\r\n$7\r\n"+ChargedCapability+"\r\n", 1
	if st.protocol == 3 {
		greeting, replies = "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"+greeting, 2
	}
	_ = st.conn.SetWriteDeadline(time.Now().Add(timeout))
	if _, err := st.conn.Write([]byte(greeting)); err != nil {
		return err
	}
	for ; replies > 0; replies-- {
		reply, err := st.next(nil, timeout)
		if err != nil {
			return err
		}
		isError := reply[0] == '-'
		if text := string(bytes.TrimSpace(reply[1:])); isError && topology.RefusesConn(text) {
			return &topology.ConnRefusedError{Node: st.to, Err: errors.New(text)}
		}
		if st.marks = !isError; replies > 1 && !st.marks {
			return errNoReply
		}
	}
	return nil
}
