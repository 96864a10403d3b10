package server

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/options"
)

// tick is the interval of the reaper, and the resolution of timeouts.
const tick = 100 * time.Millisecond

// firstTick is the tick at which the server starts; 0 means unset.
const firstTick = 1

// runReaper is the reaper: until the server shuts down, it closes connections that have exceeded a
// timeout, and samples rates. One goroutine that checks all connections costs nothing per command;
// a deadline on each read and write would.
func (s *Server) runReaper() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-ticker.C:
		}
		// Ticks are counted, not derived from the time: if the machine delays the reaper, timeouts are late. The
		// time of the last run, which connections record meanwhile, would otherwise make them expire early.
		s.ticks.Add(1)
		s.closeOverdue()
		s.stats.rates.sample(rateSample{
			at:       s.uptime(),
			commands: s.stats.processed(),
			in:       s.stats.netIn.Load(),
			out:      s.stats.netOut.Load(),
		})
	}
}

// closeOverdue closes the connections that have exceeded a timeout, or whose peer has closed them
// unnoticed.
func (s *Server) closeOverdue() {
	o := s.opts.Get()
	now := s.ticks.Load()
	m := moment{now, s.clientMemory.check(now), s.crowded(o)}
	for _, cl := range s.clientsToCheck() {
		c := &cl.conn
		if c.closing.hungUp.Load() {
			continue // already being closed, and counted once
		}
		if why := c.overdue(o, m); why != "" {
			s.closeOne(cl, why)
			continue
		}
		if f := c.output.backlog.waiting.Load(); f != nil {
			f.recheck()
		}
		c.trimIdle(now)
		if last := c.activity.lastRead.Load(); last < now && last != c.activity.checked {
			c.activity.checked = last
			if c.socket.ended() {
				c.socket.stopReading()
			}
		}
	}
}

// unread is the only reason that is logged as a warning, since to the client it looks like a
// network failure.
const unread = "it does not read its replies"

func (s *Server) closeOne(c *client, why string) {
	s.stats.timeouts.Add(1)
	log := s.debug
	if why == unread {
		log = s.warn
	}
	log("timeout", "connection closed: "+why, "client", c.id, "addr", c.addr(),
		"command", c.session.lastCommand(), "bytes unread", c.conn.usage.queued.Load()+c.conn.usage.replies.Load())
	c.conn.hangUp()
}

// moment is the time of one run of the reaper, and the state of the server at that time.
type moment struct {
	now        int64
	tightSince int64 // tick since which client memory is tight; 0 if it is not
	crowded    bool  // few connections are free, see crowdedShare
}

// clientsToCheck returns the current connections, in any order. The slice is reused by the reaper. It is
// a copy, so that s.mu is not held while each connection is checked.
func (s *Server) clientsToCheck() []*client {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.toCheck)
	s.toCheck = s.toCheck[:0]
	for _, c := range s.clients {
		s.toCheck = append(s.toCheck, c)
	}
	return s.toCheck
}

// overdue returns the reason to close a connection that has exceeded a timeout, or "".
func (c *connection) overdue(o *options.Options, m moment) string {
	a := &c.activity
	over := func(since *atomic.Int64, limit time.Duration) bool {
		from := since.Load()
		return from > 0 && limit > 0 && time.Duration(m.now-from)*tick > limit
	}
	switch {
	case a.awaiting.Load():
		return ""
	case c.output.stalled(o, m):
		return unread
	case over(&a.incomplete, o.CommandTimeout):
		return "its command stays incomplete"
	case over(&a.unauthenticated, o.CommandTimeout), m.crowded && over(&a.unauthenticated, o.CommandTimeout/hurry):
		return "it does not authenticate"
	case over(&a.lastRead, o.Timeout) && !c.exemptFromIdle():
		return "it is idle"
	}
	return ""
}

// exemptFromIdle reports whether the idle timeout does not apply: to other nodes, and to clients
// that monitor, subscribe, or wait for a snapshot.
func (c *connection) exemptFromIdle() bool {
	i := c.session.currentInfo()
	return c.listener.trusted || i.monitor || i.saving || i.channels+i.patterns > 0
}

func sortByID(list []*client) {
	slices.SortFunc(list, func(a, b *client) int { return cmp.Compare(a.id, b.id) })
}

// linesPerSecond bounds the log lines of one kind that clients can cause.
const linesPerSecond = 10

func (s *Server) warn(kind, text string, args ...any) { s.logLimited(slog.LevelWarn, kind, text, args) }
func (s *Server) info(kind, text string, args ...any) { s.logLimited(slog.LevelInfo, kind, text, args) }
func (s *Server) debug(kind, text string, args ...any) {
	s.logLimited(slog.LevelDebug, kind, text, args)
}

// logLimited writes a log line that clients can trigger, at most linesPerSecond of its kind.
func (s *Server) logLimited(level slog.Level, kind, text string, args []any) {
	ctx := context.Background()
	if !s.log.Enabled(ctx, level) {
		return
	}
	missed, ok := s.logged.Allow(kind, time.Now())
	if !ok {
		return
	}
	if missed > 0 {
		args = append(args, "lines left out", missed)
	}
	s.log.Log(ctx, level, text, args...)
}
