package server

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// pollQueue is a queue of clients that have used up a time slice and have more commands. They continue after the runtime has
// polled the network, so that clients whose commands have arrived meanwhile run first.
//
// The Go runtime polls the network if a processor has no goroutine to run, and otherwise every 10 ms. If each processor
// runs a long pipeline that only yields, the runtime resumes the pipelines without a poll, and the commands of other
// clients wait for up to 10 ms. A client in the queue is not runnable. The first one writes a byte to a pipe, for which
// the goroutine of the queue waits in the same way as connections wait for commands. When this goroutine runs, the
// network has been polled, and the clients whose commands had arrived are runnable. The goroutine then releases at most
// one client per processor, so that the delay of other clients does not depend on the number of queued ones.
type pollQueue struct {
	long    atomic.Int64  // clients that have used up a time slice and have not waited for anything else since
	queued  atomic.Int64  // clients in wait
	release chan struct{} // each value releases one of them

	raw      syscall.RawConn // end of the pipe that is read; nil before open and if open has failed: clients only yield then
	read     *os.File
	write    *os.File
	writeFD  uintptr
	starting sync.Once // of run, for the first client
	running  sync.WaitGroup
}

// open creates the pipe. It must be called before the first wait.
func (q *pollQueue) open() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	return q.use(read, write)
}

// use sets the ends of the pipe, or closes them if the runtime does not poll the end that is read.
func (q *pollQueue) use(read, write *os.File) error {
	raw, err := read.SyscallConn()
	if err == nil {
		err = read.SetReadDeadline(time.Time{}) // fails if the runtime does not poll
	}
	if err != nil {
		return errors.Join(err, read.Close(), write.Close())
	}
	q.release, q.raw, q.read, q.write, q.writeFD = make(chan struct{}), raw, read, write, write.Fd()
	return nil
}

// wait blocks until the network has been polled. If fewer clients than processors have used up a time slice, wait only
// yields: a processor that runs no such client polls the network soon.
func (q *pollQueue) wait() {
	if q.raw == nil || q.long.Load() < int64(runtime.GOMAXPROCS(0)) {
		runtime.Gosched()
		return
	}
	q.starting.Do(q.start)
	q.join()
}

// start starts the goroutine of the queue.
func (q *pollQueue) start() { q.running.Go(q.run) }

// join blocks until polled releases the client.
func (q *pollQueue) join() {
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
	var b [1]byte
	// A single call of raw.Read, as in socket.loop: a byte is read after the event that a poll has returned for it.
	_ = q.raw.Read(func(fd uintptr) (done bool) {
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

// close stops run. No client may be in wait, now or later.
func (q *pollQueue) close() {
	if q.raw != nil {
		_, _ = q.read.Close(), q.write.Close() // there is nothing to flush
		q.running.Wait()
	}
}
