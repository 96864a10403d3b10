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

// firstTick is the tick at which the server starts. It is above 0, since 0 means that a time is unset.
const firstTick = 1

// runReaper runs the reaper until the server shuts down. The reaper closes connections that have exceeded a timeout, samples
// the counters from which INFO computes rates, and warns if the server begins to accept all clients. Unlike deadlines on each
// read and write, a single goroutine that checks all connections adds no cost to a command.
func (s *Server) runReaper() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for open := false; ; {
		open = s.warnIfOpened(open)
		select {
		case <-s.shutdownBegun:
			return
		case <-ticker.C:
		}
		// Ticks are counted, not derived from the time. If the reaper is delayed, connections record an old tick as
		// their last activity. If ticks were derived from the time, the next tick would skip several numbers, and these
		// connections would expire early. With counted ticks, timeouts are late instead.
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

// closeOverdue closes connections that have exceeded a timeout. It also closes connections that the peer has closed
// without causing a readiness event (see socket.loop).
func (s *Server) closeOverdue() {
	o := s.opts.Get()
	now := s.ticks.Load()
	m := reaperRun{now, s.clientMemory.check(now), s.crowded(o)}
	for _, cl := range s.clientsToCheck() {
		c := &cl.conn
		if c.closing.hungUp.Load() {
			continue // the connection is already being closed: do not count it again
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

// reasonNotReading is the reason for closing a connection whose client does not read replies. Unlike all other
// reasons, it is logged as a warning, since the close looks like a network failure to the client.
const reasonNotReading = "the client does not read its replies"

func (s *Server) closeOne(c *client, why string) {
	s.stats.timeouts.Add(1)
	log := s.debug
	if why == reasonNotReading {
		log = s.warn
	}
	log("timeout", "connection closed: "+why, "client", c.id, "addr", c.addr(),
		"command", c.session.lastCommand(), "bytes_unread", c.conn.usage.queued.Load()+c.conn.usage.replies.Load())
	c.conn.hangUp()
}

// reaperRun holds the time of a run of the reaper, in ticks, and the state of the server at that time.
type reaperRun struct {
	now        int64
	tightSince int64 // tick since which client memory has been tight, or 0
	crowded    bool  // few places for connections are left; see crowdedShare
}

// clientsToCheck returns the current connections, in any order. It returns a copy, so that s.mu is not held while the
// connections are checked. The reaper reuses the slice.
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

// overdue returns the reason for closing the connection if it has exceeded a timeout, and otherwise "".
func (c *connection) overdue(o *options.Options, m reaperRun) string {
	a := &c.activity
	over := func(since *atomic.Int64, limit time.Duration) bool {
		from := since.Load()
		return from > 0 && limit > 0 && time.Duration(m.now-from)*tick > limit
	}
	switch {
	case a.awaiting.Load():
		return ""
	case c.output.stalled(o, m):
		return reasonNotReading
	case over(&a.incomplete, o.CommandTimeout):
		return "a command is incomplete"
	case over(&a.unauthenticated, o.CommandTimeout), m.crowded && over(&a.unauthenticated, o.CommandTimeout/scarceTimeoutDivisor):
		return "the client does not authenticate"
	case over(&a.lastRead, o.Timeout) && !c.exemptFromIdle():
		return "the client is idle"
	}
	return ""
}

// exemptFromIdle reports whether the connection is exempt from the idle timeout. Other nodes are exempt, and so are
// clients that are in MONITOR mode, have subscriptions, or wait for a snapshot.
func (c *connection) exemptFromIdle() bool {
	i := c.session.currentInfo()
	return c.listener.trusted || i.monitor || i.saving || i.channels+i.patterns > 0
}

func sortByID(list []*client) {
	slices.SortFunc(list, func(a, b *client) int { return cmp.Compare(a.id, b.id) })
}

// linesPerSecond limits the log lines of each kind that clients can trigger.
const linesPerSecond = 10

func (s *Server) warn(kind, text string, args ...any) { s.logLimited(slog.LevelWarn, kind, text, args) }
func (s *Server) info(kind, text string, args ...any) { s.logLimited(slog.LevelInfo, kind, text, args) }
func (s *Server) debug(kind, text string, args ...any) {
	s.logLimited(slog.LevelDebug, kind, text, args)
}

// logLimited writes a log line that clients can trigger. It writes at most linesPerSecond lines of each kind.
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
		args = append(args, "dropped_lines", missed)
	}
	s.log.Log(ctx, level, text, args...)
}
