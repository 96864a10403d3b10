package server

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/resp"
)

// stream is a connection to another node. A goroutine reads it at all times, so that the end
// of one that nobody uses is seen before anybody does.
type stream struct {
	conn     net.Conn
	to       string // the id of the node
	protocol int
	out      resp.Reply // what is sent: commands look like replies
	scanner  replyScanner
	came     chan struct{} // holds a token when there is something new
	timer    *time.Timer   // of next, used again
	changes  atomic.Bool   // what is asked may make another node lead: its answer is worth waiting for
	expiry   *time.Timer   // closes it; nil while it leads to the leader. The forwarder's mu guards it

	mu    sync.Mutex
	in    []byte // what has come
	taken int    // bytes of it that have been handed out
	err   error  // why nothing more comes
}

var (
	errSilent = errors.New("the other node does not answer")
	errFull   = errors.New("the other node says more than any command answers with")
)

// keepStream is how many bytes a stream keeps room for between its uses.
const keepStream = 64 << 10

func newStream(conn net.Conn, to string, protocol int) *stream {
	return &stream{conn: conn, to: to, protocol: protocol, came: make(chan struct{}, 1)}
}

// read takes in what comes until the stream ends.
func (st *stream) read() {
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
	case st.came <- struct{}{}:
	default:
	}
	return err
}

// next appends the next reply to dst. It waits for it that long.
func (st *stream) next(dst []byte, patience time.Duration) ([]byte, error) {
	if dst, done, err := st.take(dst); done || err != nil {
		return dst, err
	}
	st.startTimer(patience)
	defer st.timer.Stop()
	for {
		select {
		case <-st.came:
		case <-st.timer.C:
			return dst, errSilent
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

// take appends the next reply to dst if it has come.
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
	if st.taken == len(st.in) {
		st.in, st.taken = st.in[:0], 0
	}
	return dst, true, nil
}

// rest makes the stream ready for its next use, and reports whether it has one. What has come
// without being asked for says that it ends.
func (st *stream) rest() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if cap(st.in) > keepStream {
		st.in = nil
	}
	st.out.Truncate(0, keepStream)
	return st.err == nil && len(st.in) == 0
}

// close ends the stream.
func (st *stream) close() { _ = st.conn.Close() }
