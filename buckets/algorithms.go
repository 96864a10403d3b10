package buckets

import (
	"sync"

	"github.com/throttledhq/throttled/ban"
	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/leaky"
	"github.com/throttledhq/throttled/lease"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

// algorithm computes the decision on a request of one kind: l is the limit, old the state of the
// key, now the limiter time, and quantity the units to charge. An absent key has the zero State.
// The slice room is a buffer: the Tail of the returned Change may use its memory, but never the
// memory of old.Data.
type algorithm func(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (limiter.Change, limiter.Decision)

// algorithms holds the algorithm of each kind.
var algorithms = [...]algorithm{
	limiter.Throttle:      gcra.DecideState,
	limiter.SlidingWindow: window.Slide,
	limiter.FixedWindow:   window.Count,
	limiter.WindowBuckets: window.Count,
	limiter.WindowLog:     windowlog.Decide,
	limiter.TokenBucket:   tokenbucket.Decide,
	limiter.LeakyBucket:   leaky.Decide,

	limiter.ScaledThrottle: gcra.DecideScaled,
	limiter.ScaledBucket:   tokenbucket.DecideScaled,
	limiter.ScaledLeaky:    leaky.DecideScaled,
	limiter.Calendar:       window.Calendar,
	limiter.Ban:            ban.Decide,
}

// compute decides a request on the old state of its key, and stores the result in c and out. The argument room is as in
// algorithm.
func compute(req *limiter.Request, old *limiter.State, now uint64, room []byte, c *limiter.Change, out *limiter.Decision) {
	if req.Kind == limiter.Throttle || req.Kind == limiter.ScaledThrottle && gcra.HasInterval(old, req.Limit.Interval) {
		// Direct call for the most common kinds: through the algorithms table, a decision takes
		// about 20% longer because of copied arguments.
		c.Expires, *out = gcra.Decide(req.Limit, old.Expires, now, req.Quantity)
		c.Set, c.Keep, c.Tail = c.Expires != old.Expires, len(old.Data), nil
		return
	}
	*c, *out = algorithms[req.Kind](&req.Limit, *old, now, quantityOf(req), room)
}

// quantityOf returns the quantity with which a request is decided. A trial of a Ban asks for the ban (quantity 0), because
// a charge is admitted even if the key is banned.
func quantityOf(req *limiter.Request) int64 {
	if req.Trial && req.Kind == limiter.Ban {
		return 0
	}
	return req.Quantity
}

// scratch is the scratch memory of one Decide call: pending changes and lookup results. It is pooled
// because it is too large for the stack.
type scratch struct {
	room    [16 << 10]byte // buffer for new states; a larger state is allocated
	free    []byte         // the part of room that the current group has not used yet
	changes [limiter.MaxGroup]limiter.Change
	olds    [limiter.MaxGroup]limiter.State // the old states; Data points into the arena
	places  [limiter.MaxGroup]int           // index positions of the keys, if found
	found   [limiter.MaxGroup]bool
	leased  [limiter.MaxGroup]bool         // the records have leases
	kinds   [limiter.MaxGroup]limiter.Kind // the kinds of the records after the changes
	shards  [limiter.MaxGroup]int          // numbers of the shards locked by a group, ascending
	locked  int                            // number of elements of shards in use
	peeked  limiter.Request                // the request that peek decides
	leases  lease.Buffer

	epoch, generation uint64 // of the returned CommitToken
}

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}
