package buckets

import (
	"sync"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/leaky"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

// algorithm is the arithmetic of one kind. It answers a request for quantity units at time
// now for a key in the old state, which is the zero State for a key that is not there. What
// it makes of the state may lie in room, and never in old.Data.
type algorithm func(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (limiter.Change, limiter.Decision)

// algorithms are those of all kinds.
var algorithms = [...]algorithm{
	limiter.Throttle:      throttle,
	limiter.SlidingWindow: window.Slide,
	limiter.FixedWindow:   window.Count,
	limiter.WindowBuckets: window.Count,
	limiter.WindowLog:     windowlog.Decide,
	limiter.TokenBucket:   tokenbucket.Decide,
	limiter.LeakyBucket:   leaky.Decide,
}

// throttle is gcra.Decide in the form of the others.
func throttle(l *limiter.Limit, old limiter.State, now uint64, quantity int64, _ []byte) (limiter.Change, limiter.Decision) {
	tat, d := gcra.Decide(*l, old.Expires, now, quantity)
	return limiter.Change{Set: tat != old.Expires, Expires: tat}, d
}

// desk is what a call of Decide needs besides the table: places to write down what is to
// be stored. It is too large for the stack.
type desk struct {
	room    [16 << 10]byte // for the states of all kinds but large logs
	free    []byte         // the part of it that a group has not used yet
	changes [limiter.MaxGroup]limiter.Change
	olds    [limiter.MaxGroup]limiter.State // what they are made of, as it lies in the arena
	places  [limiter.MaxGroup]int           // of the keys, where found
	found   [limiter.MaxGroup]bool
	shards  [limiter.MaxGroup]int // those that a group has locked, in order
	locked  int

	term, generation uint64 // of the Ticket
}

var desks = sync.Pool{New: func() any { return new(desk) }}
