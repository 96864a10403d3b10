package server

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
)

// maxAuthSources is how many addresses are remembered that gave wrong passwords.
const maxAuthSources = 16 << 10

// authLimiter limits the wrong passwords that an address may give, by the arithmetic of
// CL.THROTTLE. Only failures are charged, so that clients with the right password are never
// limited by their number, and are served as soon as an address may fail once more. An attempt
// beyond the limit is refused without a look at the password: the answer tells nothing about it.
//
// It is memory of this node only.
type authLimiter struct {
	failed  atomic.Int64 // attempts with a wrong user or password
	refused atomic.Int64 // attempts beyond the limit

	mu   sync.Mutex
	tats map[netip.Addr]uint64 // by address; one that is absent is at rest
}

// guesses is an address and how many wrong passwords it may give within a minute. There is no limit
// for the zero Addr, and if the number is 0.
type guesses struct {
	from      netip.Addr
	perMinute int
}

// attempt reports whether an attempt to log in at time now, in nanoseconds, succeeds. If
// the address has used up its guesses it is refused without calling right, and wait is the time
// until the next is not.
//
// Attempts are made one after the other: of many at the same time, no more than the limit fail.
func (l *authLimiter) attempt(g guesses, now uint64, right func() bool) (ok bool, wait time.Duration) {
	limit, err := gcra.NewLimit(int64(g.perMinute)-1, int64(g.perMinute), limiter.Period{N: 1, Unit: time.Minute})
	if err != nil || !g.from.IsValid() {
		return l.count(right()), 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	tat, d := gcra.Decide(limit, l.tats[g.from], now, 1)
	if d.Limited {
		l.refused.Add(1)
		return false, d.RetryAfter
	}
	ok = l.count(right())
	if !ok {
		l.charge(g.from, tat, now)
	}
	return ok, 0
}

func (l *authLimiter) count(ok bool) bool {
	if !ok {
		l.failed.Add(1)
	}
	return ok
}

// charge stores the state of an address, in place of another one if there are too many.
func (l *authLimiter) charge(from netip.Addr, tat, now uint64) {
	if l.tats == nil {
		l.tats = map[netip.Addr]uint64{}
	}
	if _, known := l.tats[from]; !known && len(l.tats) >= maxAuthSources {
		l.makeRoom(now)
	}
	l.tats[from] = tat
}

// makeRoom forgets, among some addresses, those that are at rest, or else the one that is the
// closest to it. So an attacker with more addresses than are remembered resets none that has
// failed more often than those.
func (l *authLimiter) makeRoom(now uint64) {
	const looked = 64
	var least netip.Addr
	seen, found := 0, false
	for from, tat := range l.tats { // in random order
		switch {
		case tat <= now:
			delete(l.tats, from)
			found = true
		case !least.IsValid() || tat < l.tats[least]:
			least = from
		}
		if seen++; seen == looked {
			break
		}
	}
	if !found {
		delete(l.tats, least)
	}
}

func (l *authLimiter) reset() {
	l.failed.Store(0)
	l.refused.Store(0)
}

// guesses returns the ones that the client's address has. Other nodes are not limited, and
// without a password there is nothing to guess.
func (c *client) guesses(o *options.Options) guesses {
	if c.face.trusted || o.RequirePass == "" {
		return guesses{}
	}
	return guesses{sourceOf(c.conn.RemoteAddr()), o.AuthFailuresPerMinute}
}
