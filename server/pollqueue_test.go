package server

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// pipeQueue returns a queue without a goroutine, and the end of its pipe from which that goroutine would read.
func pipeQueue(t *testing.T) (q *pollQueue, read *os.File) {
	t.Helper()
	q = new(pollQueue)
	if err := q.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.close)
	return q, q.read
}

// TestPollQueue checks that a queue with clients requests exactly one poll, and that each poll releases one client per
// processor.
func TestPollQueue(t *testing.T) {
	q, read := pipeQueue(t)
	processors := runtime.GOMAXPROCS(0)
	clients := 2*processors + 1
	var waiting sync.WaitGroup
	for range clients {
		waiting.Go(q.join)
	}
	for _, left := range []int{clients, clients - processors, clients - 2*processors, 0} {
		if !eventually(func() bool { return q.queued.Load() == int64(left) }) {
			t.Fatalf("%d clients are in the queue, want %d", q.queued.Load(), left)
		}
		if left == 0 {
			break
		}
		b := make([]byte, clients)
		if n, err := read.Read(b); n != 1 || err != nil { // blocks until a poll is requested
			t.Fatalf("%d requests of a poll (error %v), want 1", n, err)
		}
		q.polled()
	}
	waiting.Wait()
}

// TestPollQueue_Wait checks that clients in wait continue after polls of the network.
func TestPollQueue_Wait(t *testing.T) {
	q, _ := pipeQueue(t)
	clients := 3 * runtime.GOMAXPROCS(0)
	q.long.Store(int64(clients))
	var waiting sync.WaitGroup
	for range clients {
		waiting.Go(func() {
			for range 100 {
				q.wait()
			}
		})
	}
	waiting.Wait()
	if n := q.queued.Load(); n != 0 {
		t.Errorf("%d clients are in the queue, want 0", n)
	}
}

// TestPollQueue_NotPolled checks that clients only yield if the runtime does not poll the pipe. A regular file is not polled.
func TestPollQueue_NotPolled(t *testing.T) {
	files := make([]*os.File, 2)
	for i := range files {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		files[i] = f
	}
	var q pollQueue
	if err := q.use(files[0], files[1]); err == nil {
		t.Fatal("a file that is not polled is accepted")
	}
	q.long.Store(int64(runtime.GOMAXPROCS(0)))
	q.wait() // must not block
	q.close()
	for _, f := range files {
		if err := f.Close(); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("close of a file that must be closed already: %v", err)
		}
	}
}

// TestPollQueue_Open checks that a server has the pipe before it has clients, so that a lack of descriptors under load does not
// disable the queue, and that Shutdown closes the pipe.
func TestPollQueue_Open(t *testing.T) {
	s := setup{}.build(t)
	if s.polls.raw == nil {
		t.Fatal("the pipe is not open after New")
	}
	(&testServer{Server: s}).end()
	if err := s.polls.read.Close(); err == nil {
		t.Error("the pipe is open after Shutdown")
	}
}
