package server

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

// pollQueue is a queue of clients that have used up a turn and have more commands. They continue after the runtime has
// polled the network, so that clients whose commands have arrived meanwhile run first.
//
// The Go runtime polls the network if a processor has no goroutine to run, and otherwise every 10 ms. If each processor
// runs a long pipeline that only yields, the runtime resumes the pipelines without a poll, and the commands of other
// clients wait for up to 10 ms. A client in the queue is not runnable. The first one writes a byte to a pipe, for which
// the goroutine of the queue waits in the same way as connections wait for commands. When this goroutine runs, the
// network has been polled, and the clients whose commands had arrived are runnable. The goroutine then releases at most
// one client per processor, so that the delay of other clients does not depend on the number of queued ones.
type pollQueue struct {
	long    atomic.Int64  // clients that have used up a turn and have not waited for commands since
	queued  atomic.Int64  // clients in wait
	release chan struct{} // each value releases one of them

	opening sync.Once // for the first client
	read    *os.File  // nil if the pipe could not be created: clients only yield then
	write   *os.File
	writeFD uintptr
}

// open creates the pipe and starts the goroutine of the queue.
func (q *pollQueue) open() {
	read, write, err := os.Pipe()
	if err != nil {
		return
	}
	q.release, q.read, q.write, q.writeFD = make(chan struct{}), read, write, write.Fd()
	go q.run()
}

// wait blocks until the network has been polled. If fewer clients than processors have used up a turn, wait only yields:
// a processor that runs no such client polls the network soon.
func (q *pollQueue) wait() {
	busy := q.long.Load() >= int64(runtime.GOMAXPROCS(0))
	if busy {
		q.opening.Do(q.open)
	}
	if !busy || q.read == nil {
		runtime.Gosched()
		return
	}
	if q.queued.Add(1) == 1 {
		q.requestPoll()
	}
	<-q.release
}

var oneByte = []byte{0}

// requestPoll makes the goroutine of the queue runnable at the next poll of the network.
func (q *pollQueue) requestPoll() {
	_, _ = writeDescriptor(q.writeFD, oneByte) // succeeds: the pipe is open and empty
}

// run releases clients until the queue is closed.
func (q *pollQueue) run() {
	raw, err := q.read.SyscallConn()
	if err != nil {
		return
	}
	var b [1]byte
	// A single call of raw.Read, as in socket.loop: a byte is read after the event that a poll has returned for it.
	_ = raw.Read(func(fd uintptr) (done bool) {
		if n, errno := readDescriptor(fd, b[:]); errno == 0 && n > 0 {
			q.polled()
		}
		return false
	}) // returns when the pipe is closed
}

// polled releases at most one client per processor.
func (q *pollQueue) polled() {
	n := min(q.queued.Load(), int64(runtime.GOMAXPROCS(0)))
	for range n {
		q.release <- struct{}{}
	}
	if q.queued.Add(-n) > 0 {
		q.requestPoll()
	}
}

// close ends run. No client may be in wait, now or later.
func (q *pollQueue) close() {
	if q.read != nil {
		_, _ = q.read.Close(), q.write.Close() // there is nothing to flush
	}
}
