package server

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/resp"
)

// clientPause is the pause that CLIENT PAUSE begins: commands of clients wait until it ends. Commands of other nodes and of
// a Caller do not wait.
type clientPause struct {
	present atomic.Pointer[pausePeriod] // nil if there is no pause; read before each command
	mu      sync.Mutex                  // held while present changes
}

// pausePeriod is a pause with a fixed end. It does not change; an extended pause is another pausePeriod.
type pausePeriod struct {
	end   time.Time
	all   bool          // all commands wait, not only writes
	over  chan struct{} // closed when the period has ended or was replaced
	timer *time.Timer
}

// begin begins a pause, or extends the present one: the later end applies, and all commands wait if this was true for
// either.
func (p *clientPause) begin(d time.Duration, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &pausePeriod{end: time.Now().Add(d), all: all, over: make(chan struct{})}
	if old := p.present.Load(); old != nil {
		next.all = next.all || old.all
		if old.end.After(next.end) {
			next.end = old.end
		}
	}
	p.replace(next)
	next.timer = time.AfterFunc(time.Until(next.end), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.present.Load() == next {
			p.replace(nil)
		}
	})
}

// stop ends the pause, if there is one.
func (p *clientPause) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replace(nil)
}

// replace sets the present period, and unblocks the commands that wait for the old one. p.mu must be held.
func (p *clientPause) replace(next *pausePeriod) {
	if old := p.present.Swap(next); old != nil {
		old.timer.Stop()
		close(old.over)
	}
}

// mustPause reports whether the current command must wait for the end of a pause.
func (p *pipeline) mustPause() bool {
	period := p.srv.pausing.present.Load()
	if period == nil || p.neverPaused || p.client.listener.trusted || p.srv.closing.Load() {
		return false
	}
	return period.all || p.changesKeys(p.current.cmd)
}

// changesKeys reports whether a command may change keys or is sent to subscribers, so that it waits for the end of a pause
// of writes.
func (p *pipeline) changesKeys(cmd *command) bool {
	return cmd != nil && (cmd.is(write) || cmd.name == "publish" || cmd.name == "exec" && p.session.tx.writes())
}

// awaitPause waits until the pause has ended or was changed, the connection is closed, or the server shuts down.
func (p *pipeline) awaitPause() {
	period := p.srv.pausing.present.Load()
	if period == nil {
		return
	}
	select {
	case <-period.over:
	case <-p.closing.ended:
	case <-p.srv.shutdownBegun:
	}
}

// maxPause is the maximum length of a pause in milliseconds.
const maxPause = int64(math.MaxInt64 / time.Millisecond)

// cmdClientPause implements CLIENT PAUSE.
func cmdClientPause(c *client, args [][]byte) error {
	if len(args) > 4 {
		return errSubcommand(args)
	}
	all := true
	if len(args) == 4 {
		switch {
		case isOneOf(args[3], "write"):
			all = false
		case !isOneOf(args[3], "all"):
			return replyError("ERR CLIENT PAUSE mode must be WRITE or ALL")
		}
	}
	ms, ok := resp.ParseInt(args[2])
	switch {
	case !ok || ms > maxPause:
		return replyError("ERR timeout is not an integer or out of range")
	case ms < 0:
		return replyError("ERR timeout is negative")
	}
	c.srv.pausing.begin(time.Duration(ms)*time.Millisecond, all)
	c.out.OK()
	return nil
}

// cmdClientUnpause implements CLIENT UNPAUSE.
func cmdClientUnpause(c *client, _ [][]byte) error {
	c.srv.pausing.stop()
	c.out.OK()
	return nil
}
