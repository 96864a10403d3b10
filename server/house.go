package server

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/options"
)

// tick is how often the housekeeper looks, and so how exact time limits are.
const tick = 100 * time.Millisecond

// firstTick is the tick at which the server starts: 0 stands for "not so".
const firstTick = 1

// keepHouse closes connections that have exceeded a time limit, and samples rates, until
// the server ends. One goroutine that looks at all connections costs them nothing per
// command, where a deadline on each read and write would.
func (s *Server) keepHouse() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-ticker.C:
		}
		s.ticks.Store(firstTick + int64(s.uptime()/tick))
		s.closeOverdue()
		s.stats.rates.sample(rateSample{
			at:       s.uptime(),
			commands: s.stats.processed(),
			in:       s.stats.netIn.Load(),
			out:      s.stats.netOut.Load(),
		})
	}
}

// closeOverdue closes the connections that have exceeded a time limit, or ended unseen.
func (s *Server) closeOverdue() {
	o := s.opts.Get()
	now := s.ticks.Load()
	m := moment{now, s.clientMemory.check(now), s.crowded(o)}
	for _, c := range s.someOrder() {
		if c.hungUp.Load() {
			continue // it ends as soon as its goroutine runs, and counts once
		}
		if why := c.overdue(o, m); why != "" {
			s.closeOne(c, why)
			continue
		}
		if f := c.backlog.waiting.Load(); f != nil {
			f.recheck()
		}
		c.trimIdle(now)
		if last := c.lastRead.Load(); last < now && last != c.quietFrom {
			c.quietFrom = last
			if c.conn.ended() {
				c.conn.stopReading()
			}
		}
	}
}

// unread is the reason that is logged whatever the level: to the client it looks like a fault
// of the network.
const unread = "it does not read its replies"

func (s *Server) closeOne(c *client, why string) {
	s.stats.timeouts.Add(1)
	log := s.debug
	if why == unread {
		log = s.warn
	}
	log("timeout", "connection closed: "+why, "client", c.id, "addr", c.conn.RemoteAddr(),
		"command", c.lastCommand(), "bytes unread", c.usage.queued.Load()+c.usage.replies.Load())
	c.hangUp()
}

// moment is when the housekeeper looks, and what it has to consider then.
type moment struct {
	now        int64
	tightSince int64 // since when there is little memory for clients; 0 if there is enough
	crowded    bool  // places are scarce
}

// someOrder returns the connections of this moment. The slice is the housekeeper's, and
// used again: looking at each connection takes time that nobody should wait for.
func (s *Server) someOrder() []*client {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.inHouse)
	s.inHouse = s.inHouse[:0]
	for _, c := range s.clients {
		s.inHouse = append(s.inHouse, c)
	}
	return s.inHouse
}

// overdue returns which time limit a connection has exceeded, or "".
func (c *client) overdue(o *options.Options, m moment) string {
	over := func(since *atomic.Int64, limit time.Duration) bool {
		from := since.Load()
		return from > 0 && limit > 0 && time.Duration(m.now-from)*tick > limit
	}
	switch {
	case c.awaiting.Load():
		return ""
	case c.stalled(o, m):
		return unread
	case over(&c.halfSince, o.CommandTimeout):
		return "its command stays incomplete"
	case over(&c.guestFrom, o.CommandTimeout), m.crowded && over(&c.guestFrom, o.CommandTimeout/hurry):
		return "it does not authenticate"
	case over(&c.lastRead, o.Timeout) && !c.exemptFromIdle():
		return "it is idle"
	}
	return ""
}

// exemptFromIdle reports whether the client is one that waits to be told something, be
// it that its snapshot is written, or another node.
func (c *client) exemptFromIdle() bool {
	p := c.shown()
	return c.face.trusted || p.monitor || p.saving || p.channels+p.patterns > 0
}

func sortByID(list []*client) {
	slices.SortFunc(list, func(a, b *client) int { return cmp.Compare(a.id, b.id) })
}

// logLimiter keeps clients from flooding the log: of each kind of line it lets so many
// through a second.
type logLimiter struct {
	mu     sync.Mutex
	second int64
	lines  map[string]int
	missed map[string]int
}

const linesPerSecond = 10

// allow reports whether a line of the given kind may be written in the given second, and
// how many have not been since the last that was.
func (l *logLimiter) allow(kind string, second int64) (missed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.second != second || l.lines == nil {
		l.second, l.lines = second, map[string]int{}
	}
	if l.missed == nil {
		l.missed = map[string]int{}
	}
	if l.lines[kind] >= linesPerSecond {
		l.missed[kind]++
		return 0, false
	}
	l.lines[kind]++
	missed = l.missed[kind]
	delete(l.missed, kind)
	return missed, true
}

func (s *Server) warn(kind, text string, args ...any) { s.logLimited(slog.LevelWarn, kind, text, args) }
func (s *Server) info(kind, text string, args ...any) { s.logLimited(slog.LevelInfo, kind, text, args) }
func (s *Server) debug(kind, text string, args ...any) {
	s.logLimited(slog.LevelDebug, kind, text, args)
}

// logLimited writes a line that a client can cause, at most linesPerSecond of its kind.
func (s *Server) logLimited(level slog.Level, kind, text string, args []any) {
	ctx := context.Background()
	if !s.log.Enabled(ctx, level) {
		return
	}
	missed, ok := s.logged.allow(kind, int64(s.uptime()/time.Second))
	if !ok {
		return
	}
	if missed > 0 {
		args = append(args, "lines left out", missed)
	}
	s.log.Log(ctx, level, text, args...)
}
