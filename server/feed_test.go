package server

import (
	"bytes"
	"testing"

	"github.com/throttledhq/throttled/options"
)

// testUsage returns the memory usage of a client of a server with the default limits.
func testUsage(t *testing.T) *usage {
	t.Helper()
	store, err := options.New(options.Default())
	if err != nil {
		t.Fatal(err)
	}
	m := &clientMemory{}
	m.init(store)
	return &usage{all: m}
}

// TestChunks checks that pop returns the pushed bytes in order, and that size counts the allocated
// memory.
func TestChunks(t *testing.T) {
	t.Parallel()
	var q chunks
	var pushed, popped []byte
	for i := range 500 {
		b := bytes.Repeat([]byte{byte(i)}, i*i%70_000)
		q.push(b)
		pushed = append(pushed, b...)
		if i%3 == 0 {
			popped = append(popped, q.pop()...)
		}
		if held := len(pushed) - len(popped); q.size < held || q.size > held+chunkSize {
			t.Fatalf("the queue holds %d bytes, but its size is %d, want at most chunkSize more", held, q.size)
		}
	}
	for b := q.pop(); b != nil; b = q.pop() {
		if len(b) > chunkSize {
			t.Fatalf("a chunk has %d bytes, want at most chunkSize", len(b))
		}
		popped = append(popped, b...)
	}
	if !bytes.Equal(pushed, popped) || q.size != 0 {
		t.Errorf("popped %d bytes, want the %d pushed bytes; the size of the empty queue is %d, want 0", len(popped), len(pushed), q.size)
	}
}

// TestFeedHasRoom checks that put waits until there is room in the feed, or until the feed fails.
func TestFeedHasRoom(t *testing.T) {
	t.Parallel()
	use := testUsage(t)
	f := newFeed(use, true)
	large := make([]byte, feedQueue)
	if ended, err := f.put(large, feedQueue, func() {}); ended || err != nil {
		t.Fatal(ended, err)
	}
	if n := use.all.total.Load(); n != feedQueue {
		t.Errorf("%d bytes are counted for a full feed, want feedQueue", n)
	}
	if err := f.add([]byte("x")); err != errSlowFeed {
		t.Errorf("add to a full feed: got %v, want errSlowFeed", err)
	}
	if queued, ended, err := f.tryPut([]byte("x"), feedQueue, func() {}); queued || ended || err != nil {
		t.Errorf("tryPut to a full feed: queued %v, ended %v, error %v; want false, false, nil", queued, ended, err)
	}
	put := make(chan error)
	go func() {
		_, err := f.put([]byte("x"), feedQueue, func() {})
		put <- err
	}()
	for range 2 { // the bytes that take returns are counted until the next call of take
		if b, last := f.take(); len(b) != chunkSize || last {
			t.Errorf("take returned %d bytes, last %v; want chunkSize and false", len(b), last)
		}
	}
	if err := <-put; err != nil {
		t.Error(err)
	}
	go func() {
		_, err := f.put(large, feedQueue, func() {})
		put <- err
	}()
	f.end()
	if err := <-put; err != errSlowFeed {
		t.Errorf("put to a failed feed: got %v, want errSlowFeed", err)
	}
	if n := use.all.total.Load(); n != 0 {
		t.Errorf("%d bytes are counted after the end of the feed, want 0", n)
	}
}

// TestFeedEndsWhenWritten checks that take makes the goroutine of a feed without pushed output stop after the last
// reply is written, and that tryPut then reports that the feed has ended.
func TestFeedEndsWhenWritten(t *testing.T) {
	t.Parallel()
	f := newFeed(testUsage(t), false)
	if _, err := f.put([]byte("reply"), feedQueue, func() {}); err != nil {
		t.Fatal(err)
	}
	if b, last := f.take(); string(b) != "reply" || last {
		t.Errorf("the first take returned %q, last %v; want reply and false", b, last)
	}
	if queued, ended, _ := f.tryPut([]byte("more"), feedQueue, func() {}); !queued || ended {
		t.Errorf("tryPut during a write: queued %v, ended %v; want true and false", queued, ended)
	}
	if b, last := f.take(); string(b) != "more" || last {
		t.Errorf("the second take returned %q, last %v; want more and false", b, last)
	}
	if b, last := f.take(); b != nil || !last {
		t.Errorf("take from an empty feed returned %q, last %v; want nil and true", b, last)
	}
	f.end()
	if queued, ended, err := f.tryPut([]byte("x"), feedQueue, func() {}); queued || !ended || err != nil {
		t.Errorf("tryPut after the end: queued %v, ended %v, error %v; want false, true, nil", queued, ended, err)
	}
	if f.accept() {
		t.Error("accept reports that an ended feed is running")
	}
}

// TestFeedAfterTheEnd publishes a message to feeds that no longer accept pushed output. It checks that the message is
// not delivered and not counted as client memory, and that the client is not closed.
func TestFeedAfterTheEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *feed){
		"released":                   func(f *feed) { f.release() },
		"closed":                     func(f *feed) { f.release(); f.close() },
		"released and fully written": func(f *feed) { f.release(); f.take(); f.end() },
		"failed":                     func(f *feed) { f.end() },
	} {
		use := testUsage(t)
		out := &output{closing: &closing{socket: &socket{Conn: fakeConn{}}, ended: make(chan struct{})}}
		f := newFeed(use, true)
		end(f)
		b := broker{subscribers: map[*output]subscriber{out: {listener: &listenerProfile{set: onData}, feed: f, channels: []string{"news"}}}}
		if matches := b.publish("news", "x", nil); matches != 0 || out.closing.hungUp.Load() {
			t.Errorf("%s feed: the message was delivered to %d subscribers, want 0; the client was closed: %v, want false", name, matches, out.closing.hungUp.Load())
		}
		if n := use.all.total.Load(); n != 0 {
			t.Errorf("%s feed: %d bytes are still counted, want 0", name, n)
		}
	}
}

// TestFeedAndItsSuccessor puts bytes in a second feed after the first feed is fully written, but before end is called
// for the first feed. It checks that the bytes of the second feed remain counted.
func TestFeedAndItsSuccessor(t *testing.T) {
	t.Parallel()
	use := testUsage(t)
	old, next := newFeed(use, false), newFeed(use, false)
	if _, last := old.take(); !last {
		t.Fatal("take does not report that the goroutine of an empty feed must stop")
	}
	if _, err := next.put(make([]byte, leastChunk), feedQueue, func() {}); err != nil {
		t.Fatal(err)
	}
	old.end()
	if n := use.queued.Load(); n != leastChunk {
		t.Errorf("%d bytes are counted for the second feed, want %d", n, leastChunk)
	}
}
