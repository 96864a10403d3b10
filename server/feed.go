package server

import (
	"errors"
	"sync"
)

// feed is what has yet to be written to a client that is told of what it has not asked for just
// now, and the replies to its own commands. A goroutine writes it, so that nobody waits for the
// client; one whose queue overflows is closed.
type feed struct {
	mu     sync.Mutex
	queued []byte
	closed bool
	ended  bool          // the goroutine has
	room   *sync.Cond    // queued is taken, or will not be
	wake   chan struct{} // holds a token when there is something to do
	done   chan struct{} // closed when the goroutine has ended
}

// feedQueue is how many bytes wait for a client at the most: a few of the longest lines.
const feedQueue = 8 << 20

var errSlowFeed = errors.New("the client does not read what it is shown")

func newFeed() *feed {
	f := &feed{wake: make(chan struct{}, 1), done: make(chan struct{})}
	f.room = sync.NewCond(&f.mu)
	return f
}

// add queues bytes, or returns errSlowFeed.
func (f *feed) add(b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queued)+len(b) > feedQueue {
		return errSlowFeed
	}
	f.queued = append(f.queued, b...)
	f.signal()
	return nil
}

// put queues replies, for which it waits until there is room: the client has asked for them. It
// calls queued before any of them can be written.
func (f *feed) put(b []byte, queued func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queued) > 0 && len(f.queued)+len(b) > feedQueue && !f.ended {
		f.room.Wait()
	}
	if f.ended {
		return errSlowFeed
	}
	f.queued = append(f.queued, b...)
	queued()
	f.signal()
	return nil
}

// close lets the goroutine end once it has written what is queued.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.signal()
}

func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns what is queued, and whether that was the last.
func (f *feed) take() (b []byte, last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, f.queued = f.queued, nil
	f.room.Broadcast()
	return b, f.closed
}

// end is for the goroutine to say that it takes no more.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.room.Broadcast()
	close(f.done)
}

// writeFeed writes a feed until it is closed or the peer does not take it.
func (c *client) writeFeed(f *feed) {
	defer f.end()
	for range f.wake {
		b, last := f.take()
		if _, err := c.writeSlowly(b); err != nil {
			c.hangUp()
			return
		}
		if last {
			return
		}
	}
}

// beginFeed gives a connection a feed that has to have one, and reports whether it has just
// got it. It is yet to be fed.
func (c *client) beginFeed() bool {
	if c.feed != nil || !c.watching && !c.retune {
		return false
	}
	c.feed = newFeed()
	return true
}

// fill begins to feed a client. It has been answered before, or will have been: a new feed is
// written last, so that who has been answered is told all that happens from then on.
func (c *client) fill(fresh bool) {
	if c.watching {
		c.srv.monitors.add(c)
	}
	c.tune()
	if fresh {
		f := c.feed
		c.srv.active.Go(func() { c.writeFeed(f) })
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
	c.srv.monitors.remove(c)
	c.srv.news.remove(c)
	c.feed.close()
	<-c.feed.done
	c.feed = nil
}
