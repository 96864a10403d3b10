package server

import (
	"errors"
	"sync"
)

// feed is the asynchronous output queue of a client. It holds replies, if the client does not read them fast enough,
// and pushed output: published messages, and the commands that MONITOR shows. A goroutine writes the queue, so that
// neither the commands of this client nor those of other clients block on the write.
type feed struct {
	mu      sync.Mutex
	use     *usage // memory usage of the client
	queue   chunks
	writing int  // bytes of memory of the piece that is being written
	accepts bool // pushed output is accepted, so the goroutine does not stop when the queue is empty
	closed  bool // the goroutine stops when the queue is empty, even if accepts is true
	ended   bool // the goroutine has stopped, or is about to stop
	failed  bool // the goroutine stopped before everything was written
	room    *sync.Cond
	wake    chan struct{} // holds a token when the state has changed
	done    chan struct{} // closed when the goroutine has stopped
}

// feedQueue is the maximum size in bytes of a queue after pushed output is added. It has room for a few of the longest
// lines of MONITOR.
const feedQueue = 8 << 20

var (
	errSlowFeed  = errors.New("the output queue of the client is full, or a write to the client has failed")
	errFeedEnded = errors.New("the client accepts no more pushed output")
)

func newFeed(use *usage, accepts bool) *feed {
	f := &feed{use: use, accepts: accepts, wake: make(chan struct{}, 1), done: make(chan struct{})}
	f.room = sync.NewCond(&f.mu)
	return f
}

// add queues pushed output. The error is errSlowFeed if the queue is full, and errFeedEnded if the goroutine has
// stopped or the feed no longer accepts pushed output. In the cases of errFeedEnded, queued output might never be
// written, and would then count as client memory forever.
func (f *feed) add(b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ended || !f.accepts:
		return errFeedEnded
	case f.queue.size+len(b) > feedQueue:
		return errSlowFeed
	}
	f.append(b)
	return nil
}

// push queues pushed output for a client, and reports whether it was queued. A client whose queue is full is
// disconnected.
func (f *feed) push(to *closing, b []byte) bool {
	err := f.add(b)
	if err == errSlowFeed {
		to.hangUp()
	}
	return err == nil
}

// tryPut queues replies if there is room. There is room if the queue is empty, or if the queue with the replies has at
// most limit bytes and client memory is not tight (see clientMemory.tight). If it queues the replies, tryPut also calls
// onQueued, before any of the replies can be written. queued reports whether the replies were queued. ended reports
// whether the goroutine has stopped: either everything was written and err is nil, or a write has failed and err is
// errSlowFeed.
func (f *feed) tryPut(b []byte, limit int64, onQueued func()) (queued, ended bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tryLocked(b, limit, onQueued)
}

// put is like tryPut, but waits until there is room or the goroutine has stopped.
func (f *feed) put(b []byte, limit int64, onQueued func()) (ended bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		queued, ended, err := f.tryLocked(b, limit, onQueued)
		if queued || ended {
			return ended, err
		}
		f.room.Wait()
	}
}

func (f *feed) tryLocked(b []byte, limit int64, onQueued func()) (queued, ended bool, err error) {
	switch {
	case f.failed:
		return false, true, errSlowFeed
	case f.ended:
		return false, true, nil
	case f.queue.size > 0 && (int64(f.queue.size+len(b)) > limit || f.use.tight()):
		return false, false, nil
	}
	f.append(b)
	onQueued()
	return true, false, nil
}

func (f *feed) append(b []byte) {
	f.queue.push(b)
	f.account()
	f.signal()
}

// account updates the memory usage of the client.
func (f *feed) account() { f.use.set(&f.use.queued, int64(f.queue.size+f.writing)) }

// accept makes the feed accept pushed output, and reports whether the goroutine is still running.
func (f *feed) accept() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accepts = true
	return !f.ended
}

// release rejects further pushed output. The goroutine stops when the queue is empty.
func (f *feed) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accepts = false
	f.signal()
}

// close makes the goroutine stop when the queue is empty, even if the feed accepts pushed output.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.signal()
}

// recheck makes a waiting put check again whether there is room. When client memory is no longer tight, there may be
// room although the queue has not changed.
func (f *feed) recheck() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room.Broadcast()
}

func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns the next piece to write, or nil if the queue is empty. last reports whether the goroutine
// must stop.
func (f *feed) take() (b []byte, last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b = f.queue.pop()
	f.writing = cap(b)
	f.account()
	f.room.Broadcast()
	if b == nil && (f.closed || !f.accepts) {
		f.ended = true
		return nil, true
	}
	return b, false
}

// end records that the goroutine has stopped, and unblocks waiters. If the goroutine did not write everything, the
// queue is dropped. Otherwise take has already set ended, and the client may already count the memory of a new feed in
// the same usage, so end must not change the usage.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.failed, f.ended = true, true
		f.queue, f.writing = chunks{}, 0
		f.account()
	}
	f.room.Broadcast()
	close(f.done)
}
