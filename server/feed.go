package server

import (
	"errors"
	"sync"
)

// feed is the bytes that have yet to be written to a client: replies that it does not read as
// fast as it asks for them, and what it is shown without asking. A goroutine writes them, so that
// neither the client's own commands nor other clients wait for it.
type feed struct {
	mu      sync.Mutex
	use     *usage // of the client
	queue   chunks
	writing int  // bytes of memory that have been taken and are being written
	shows   bool // others add to it: the goroutine waits for more. Otherwise it ends when all is written
	closed  bool // nothing is added any more
	ended   bool // the goroutine has ended, or is about to
	failed  bool // and has not written all
	room    *sync.Cond
	wake    chan struct{} // holds a token when there is something to do
	done    chan struct{} // closed when the goroutine has ended
}

// feedQueue is how many bytes that a client has not asked for wait for it at the most: a few
// of the longest lines.
const feedQueue = 8 << 20

var (
	errSlowFeed  = errors.New("the client does not read what it is shown")
	errFeedEnded = errors.New("the client is shown nothing any more")
)

func newFeed(use *usage, shows bool) *feed {
	f := &feed{use: use, shows: shows, wake: make(chan struct{}, 1), done: make(chan struct{})}
	f.room = sync.NewCond(&f.mu)
	return f
}

// add queues what the client is shown. The error is errSlowFeed if the queue is full, and
// errFeedEnded if the client has left or is shown nothing any more: nothing would write the
// bytes or subtract them from the memory of clients.
func (f *feed) add(b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ended || !f.shows:
		return errFeedEnded
	case f.queue.size+len(b) > feedQueue:
		return errSlowFeed
	}
	f.push(b)
	return nil
}

// showTo queues what the client is shown, and reports whether it is queued. A client whose queue
// is full is closed.
func (f *feed) showTo(c *client, b []byte) bool {
	err := f.add(b)
	if err == errSlowFeed {
		c.hangUp()
	}
	return err == nil
}

// tryPut queues replies if there is room for them, within limit bytes of memory and as far as all
// clients leave some; an empty queue has room. It calls then before any of them can be written. It reports whether it has, and whether the
// goroutine has ended: because all is written, or with an error.
func (f *feed) tryPut(b []byte, limit int64, then func()) (queued, ended bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tryLocked(b, limit, then)
}

// put is tryPut, but waits until there is room.
func (f *feed) put(b []byte, limit int64, then func()) (ended bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		queued, ended, err := f.tryLocked(b, limit, then)
		if queued || ended {
			return ended, err
		}
		f.room.Wait()
	}
}

func (f *feed) tryLocked(b []byte, limit int64, then func()) (queued, ended bool, err error) {
	switch {
	case f.failed:
		return false, true, errSlowFeed
	case f.ended:
		return false, true, nil
	case f.queue.size > 0 && (int64(f.queue.size+len(b)) > limit || f.use.tight()):
		return false, false, nil
	}
	f.push(b)
	then()
	return true, false, nil
}

func (f *feed) push(b []byte) {
	f.queue.push(b)
	f.account()
	f.signal()
}

// account adds what has changed to the memory of the client.
func (f *feed) account() { f.use.set(&f.use.queued, int64(f.queue.size+f.writing)) }

// show makes the goroutine wait for what others add, and reports whether it still runs.
func (f *feed) show() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shows = true
	return !f.ended
}

// release lets the goroutine end once it has written what is queued, if nothing more is.
func (f *feed) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shows = false
	f.signal()
}

// close lets the goroutine end once it has written what is queued.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.signal()
}

// recheck has put look again whether there is room, which may depend on other clients.
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

// take returns what is to be written next, or nil if there is nothing at present, and whether
// there will be nothing.
func (f *feed) take() (b []byte, last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b = f.queue.pop()
	f.writing = cap(b)
	f.account()
	f.room.Broadcast()
	if b == nil && (f.closed || !f.shows) {
		f.ended = true
		return nil, true
	}
	return b, false
}

// end is for the goroutine to report that it takes no more. A feed that has ended before, as all
// is written, is accounted for: the client may have another one by now.
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

// writeFeed writes a feed until it is closed or empty, or the peer does not take it.
func (c *client) writeFeed(f *feed) {
	defer f.end()
	for {
		b, last := f.take()
		if last {
			return
		}
		if b == nil {
			<-f.wake
			continue
		}
		n, err := c.writeSlowly(b)
		c.countWrite(n)
		if err != nil {
			c.hangUp()
			return
		}
		note(&c.lastRead, c.srv.ticks.Load()) // a client that reads is not idle
	}
}

// beginFeed gives a connection a feed that is to be shown something, and reports whether its
// goroutine has yet to be started.
func (c *client) beginFeed() bool {
	if !c.watching && !c.retune {
		return false
	}
	c.backlog.patient.Store(false)
	if c.feed != nil && c.feed.show() {
		return false
	}
	c.feed = newFeed(&c.usage, true)
	return true
}

// fill begins to feed a client. It has been answered before, or will have been: a new feed is
// written last, so that who has been answered is told all that happens from then on.
func (c *client) fill(fresh bool) {
	if c.watching {
		c.srv.monitors.add(c)
	}
	c.tune()
	if !c.watching && !c.channels.any() { // any more
		c.backlog.patient.Store(true)
		c.feed.release()
	}
	if fresh {
		c.startFeed()
	}
}

func (c *client) startFeed() {
	f := c.feed
	c.backlog.fullSince.Store(0)
	c.srv.active.Go(func() { c.writeFeed(f) })
}

// leaveFeed ends what a client is shown. What is queued is still written.
func (c *client) leaveFeed() {
	c.srv.monitors.remove(c)
	c.srv.news.remove(c)
	if c.feed != nil {
		c.feed.release()
	}
}

// tune makes what the client is told follow its subscriptions.
func (c *client) tune() {
	if c.retune {
		c.srv.news.tune(c)
		c.retune = false
	}
}

// endFeed ends the feed of a client, if it has one, and waits until it is written.
func (c *client) endFeed() {
	if c.feed == nil {
		return
	}
	c.leaveFeed()
	c.feed.close()
	note(&c.backlog.fullSince, c.srv.ticks.Load())
	<-c.feed.done
	c.feed = nil
}
