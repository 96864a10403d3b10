package server

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/internal/sourceaddr"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
)

// maxAuthSources is the maximum number of addresses for which failures are stored.
const maxAuthSources = 16 << 10

// authLimiter limits authentication failures by address, with the algorithm of CL.THROTTLE. Only failures are charged:
// a client with the right password does not use up the limit. An attempt beyond the limit is refused without checking
// the password, so the reply does not reveal whether the password was right. As soon as the limit permits another
// failure, an attempt with the right password succeeds again.
//
// The state is local to this node and is not persistent.
type authLimiter struct {
	failed  atomic.Int64 // attempts with a wrong user or password
	refused atomic.Int64 // attempts beyond the limit

	mu   sync.Mutex
	tats map[netip.Addr]uint64 // theoretical arrival time (TAT) by address; an absent address has its full limit
}

// failureLimit is an address and the number of failures that the address may have per minute. There is no limit if the
// address is the zero Addr or the number is 0.
type failureLimit struct {
	from      netip.Addr
	perMinute int
}

// attempt reports whether an attempt to authenticate at time now, in nanoseconds, succeeds. The function right checks
// the password. If the address has exceeded its limit, attempt does not call right, and returns in wait the time until
// the next attempt is allowed.
//
// If there is a limit, attempts are serialized, so that concurrent attempts cannot exceed the limit.
func (l *authLimiter) attempt(f failureLimit, now uint64, right func() bool) (ok bool, wait time.Duration) {
	limit, err := gcra.NewLimit(int64(f.perMinute)-1, int64(f.perMinute), limiter.Period{N: 1, Unit: time.Minute})
	if err != nil || !f.from.IsValid() {
		return l.count(right()), 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	tat, d := gcra.Decide(limit, l.tats[f.from], now, 1)
	if d.Limited {
		l.refused.Add(1)
		return false, d.RetryAfter
	}
	ok = l.count(right())
	if !ok {
		l.charge(f.from, tat, now)
	}
	return ok, 0
}

func (l *authLimiter) count(ok bool) bool {
	if !ok {
		l.failed.Add(1)
	}
	return ok
}

// charge stores the TAT of an address after a failure. If maxAuthSources other addresses are stored, charge first
// removes at least one of them.
func (l *authLimiter) charge(from netip.Addr, tat, now uint64) {
	if l.tats == nil {
		l.tats = map[netip.Addr]uint64{}
	}
	if _, known := l.tats[from]; !known && len(l.tats) >= maxAuthSources {
		l.dropAddresses(now)
	}
	l.tats[from] = tat
}

// dropAddresses examines a few random addresses, and removes those whose TAT has passed. If no TAT has passed, it
// removes the examined address with the earliest TAT, which is the address with the fewest recent failures. Thus an
// attacker cannot remove an address with many failures by failing once from each of many other addresses.
func (l *authLimiter) dropAddresses(now uint64) {
	const looked = 64
	var least netip.Addr
	seen, found := 0, false
	for from, tat := range l.tats { // map iteration is in random order
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

// failureLimitOf returns the limit of an address. There is no limit for other nodes, and none if no user has a password.
func failureLimitOf(addr net.Addr, l *listenerProfile, o *options.Options, set *acl.Set) failureLimit {
	if l.trusted || set.Open() && set.Len() == 1 {
		return failureLimit{}
	}
	return failureLimit{sourceaddr.Of(addr), o.AuthFailuresPerMinute}
}
