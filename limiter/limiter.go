package limiter

import (
	"errors"
	"math"
	"time"
)

// Kind names the algorithm whose state a key holds. Its values are stored with the
// keys, so they never change their meaning.
type Kind uint8

// The kinds of limiter state. Zero is no kind, so that zeroed memory is never taken
// for a record.
const (
	Throttle      Kind = 1 // GCRA: one theoretical arrival time
	SlidingWindow Kind = 2 // the counts of two windows, the older one weighted
	FixedWindow   Kind = 3 // the count of one window that is aligned to the calendar
	WindowBuckets Kind = 4 // the counts of several windows, one after the other
	WindowLog     Kind = 5 // a timestamp for each admitted request
	TokenBucket   Kind = 6 // tokens that come back in whole intervals
	LeakyBucket   Kind = 7 // a queue that is drained at a constant rate
)

// kinds are the names of each kind: what TYPE reports, the word of its command, and what
// OBJECT ENCODING reports, the algorithm by its name in the field.
var kinds = [...]struct{ name, encoding string }{
	Throttle:      {"throttle", "gcra"},
	SlidingWindow: {"window", "sliding"},
	FixedWindow:   {"window", "fixed"},
	WindowBuckets: {"window", "buckets"},
	WindowLog:     {"window", "log"},
	TokenBucket:   {"bucket", "tokens"},
	LeakyBucket:   {"leaky", "queue"},
}

// Known reports whether k is one of the kinds.
func (k Kind) Known() bool { return k > 0 && int(k) < len(kinds) }

// String returns the name that TYPE reports for a key of this kind, or "none".
func (k Kind) String() string {
	if !k.Known() {
		return "none"
	}
	return kinds[k].name
}

// Encoding returns the name that OBJECT ENCODING reports for a key of this kind, or "none".
func (k Kind) Encoding() string {
	if !k.Known() {
		return "none"
	}
	return kinds[k].encoding
}

// Limit is a limit compiled to integers. Packages of arithmetic make it (see
// gcra.NewLimit), and guarantee that Max and Interval are at least 1 and that nothing which
// they compute from it overflows.
type Limit struct {
	Max int64 // units that a key at rest can admit at once
	// Interval is the emission interval of Throttle and LeakyBucket: the time in which one
	// unit comes back. It is the refill interval of a TokenBucket, and the length of a
	// window; of WindowBuckets that of one sub-window.
	Interval time.Duration
	// Amount is what one refill brings to a TokenBucket, how many sub-windows a window of
	// WindowBuckets has, how many requests a WindowLog may hold, and 0 for the others.
	Amount int64
}

// Period is a length of time as a caller states it: N units. It may be longer than what a
// Duration holds.
type Period struct {
	N    int64
	Unit time.Duration // above 0
}

// Seconds returns a period of n seconds.
func Seconds(n int64) Period { return Period{n, time.Second} }

// Duration returns the period as a Duration, and whether it is above 0 and fits.
func (p Period) Duration() (time.Duration, bool) {
	if p.N <= 0 || p.N > int64(math.MaxInt64/p.Unit) {
		return 0, false
	}
	return time.Duration(p.N) * p.Unit, true
}

// ErrRange is returned for parameters that describe no limit, or one whose times or
// quantities do not fit an int64.
var ErrRange = errors.New("rate limit parameters out of range")

// Request asks an Engine for one decision.
type Request struct {
	Kind     Kind
	Key      []byte // borrowed: an Engine copies what it keeps
	Limit    Limit
	Quantity int64 // units to charge; 0 peeks, a negative number refunds
	// Linked joins the request to the next one in a group, which is decided in one atomic
	// step: each of its requests is charged, or none. The last of a group is not Linked.
	// See Engine.Decide.
	Linked bool
}

// MaxGroup is how many requests a group may have.
const MaxGroup = 32

// State is what is stored of a key.
type State struct {
	// Expires is the limiter time in nanoseconds from which the state equals that of an
	// absent key. For Throttle and LeakyBucket it is the theoretical arrival time, and all
	// there is.
	Expires uint64
	// Data is what the algorithm keeps besides, in a form that only it knows.
	Data []byte
}

// Change is what a decision makes of a State.
type Change struct {
	// Set is false for a decision that leaves the state as it is. The other fields then mean
	// nothing.
	Set bool
	// Expires is the new time. At or before now it says that the key is at rest, and need
	// not be stored any more.
	Expires uint64
	// The new Data is the first Keep bytes of the old one and then Tail. So a large state
	// of which little changes is not copied, and can be replicated by what is new in it.
	// Where Keep is above 0, the new Data is as long as the old.
	Keep int
	Tail []byte
}

// Record is a key and its state in the form in which they are stored, saved and copied.
type Record struct {
	Kind Kind
	Key  []byte
	// Expires is the limiter time in nanoseconds from which the record equals an absent
	// one.
	Expires uint64
	// State is the Data of the key's State: nothing for Throttle and LeakyBucket.
	State []byte
	// Gauge is the measure by which an Engine that evicts keys ranks this one, in a form that
	// only the Engine knows; 0 if it is unknown.
	Gauge byte
}

// NoRetry is the RetryAfter of a decision that leaves nothing to wait for: the
// request was admitted, or it asks for more than can ever be admitted.
const NoRetry time.Duration = -1

// Ceil returns d in whole units, rounded up, which is how replies state a time to wait:
// whoever waits that long has waited long enough, and a wait is never 0. NoRetry stays -1.
func Ceil(d, unit time.Duration) int64 {
	if d == NoRetry {
		return -1
	}
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

// Decision answers a Request.
type Decision struct {
	Limited    bool
	Limit      int64         // the Max of the request's limit
	Remaining  int64         // units that could be charged now, 0..Limit
	RetryAfter time.Duration // until the same request would be admitted, or NoRetry
	ResetAfter time.Duration // until the full limit is back
	// Wait is how long a request that a LeakyBucket has admitted is to wait before it goes
	// on; NoRetry if it was refused, and 0 for all other kinds.
	Wait time.Duration
	Err  error // why no decision was made; the other fields are then zero
}

// The errors of an Engine. A face maps each to its own form of error.
var (
	// ErrWrongKind is returned when the key holds the state of another algorithm.
	ErrWrongKind = errors.New("key holds another kind of limiter")
	// ErrOutOfMemory is returned when a new key, or a state that has to grow, does not fit
	// the memory limit. All other keys that exist go on being decided exactly.
	ErrOutOfMemory = errors.New("memory limit reached")
	// ErrSameKey is returned for each request of a group in which two have the same key.
	ErrSameKey = errors.New("two limits of a group have the same key")
	// ErrNotLeading is returned by an engine that does not decide at present, because another
	// node of its cluster does, or none. Nothing has been charged.
	ErrNotLeading = errors.New("this node does not lead its cluster")
	// ErrUncertain is returned by Await for what was done shortly before a node stopped leading
	// its cluster: the others may have got it, or not.
	ErrUncertain = errors.New("leadership was lost: it may have been charged")
)

// Ticket stands for a moment in the history of an Engine: for all that was decided, changed
// or could be seen before it. The zero Ticket stands for the beginning.
type Ticket struct {
	Term       uint64 // counts the times that this engine began to decide
	Generation uint64 // counts, within the term, what is replicated together
}

// Entry describes one key that is in the keyspace.
type Entry struct {
	Kind  Kind
	TTL   time.Duration // until the key equals an absent one; above 0
	Bytes int64         // memory that the key takes, its share of the index included
	State uint64        // changes whenever the state of the key does
}

// Usage is what an Engine counts about its keyspace since it started.
type Usage struct {
	Keys    int64 // keys held, those included whose time has passed but that were not yet dropped
	Bytes   int64 // memory held for keys
	Peak    int64 // the most that Bytes has been
	Hits    int64 // decisions and lookups that found a live key
	Misses  int64 // those that found none
	Expired int64 // keys dropped because their time had passed
	Evicted int64 // keys dropped to make room for others
	Changes int64 // times that the state of a key changed, other than by expiring
	Dataset int64 // the sum of what Lookup says that keys take; Bytes holds slack besides
	Pauses  Pauses
}

// Pauses are the longest times, since an Engine was made, that decisions on some of its
// keys had to wait for other work.
type Pauses struct {
	Growth     time.Duration // making room for a new key, with all that this took
	Compaction time.Duration // moving records together, as a part of growth
	Eviction   time.Duration // choosing and dropping keys, as a part of growth
	Sweep      time.Duration // dropping what has expired
	Copy       time.Duration // copying records for a snapshot
}

// Engine decides requests and holds their state. Its methods may be called from many
// goroutines at once; each decision is one atomic step on its key.
//
// An Engine that replicates its state decides at once, and makes sure of it later: nobody is to
// be told of a decision, or of anything else that an Engine shows, before Await has returned
// for a Ticket that came with it or after it. Without replication Await never waits.
type Engine interface {
	// Decide answers reqs[i] in out[i], in order. The two have the same length.
	//
	// A group is decided as a whole: if any of its requests is refused, none is charged, and
	// those that could have been are answered as if they had only peeked. Where no decision
	// can be made on one of them, each has its Err. The keys of a group differ from each
	// other, and a group has at most MaxGroup requests.
	//
	// The Ticket is for what the decisions changed and for what they were based on.
	Decide(reqs []Request, out []Decision) Ticket
	// Mark returns a Ticket for all that was done before.
	Mark() Ticket
	// Await waits until nothing that a Ticket stands for can be lost any more, as long as most
	// nodes of the cluster keep what they have. The error is ErrUncertain where that may be lost
	// or not, and ErrNotLeading where this engine did not decide when the Ticket was made, so
	// that what it has shown may be out of date.
	Await(Ticket) error
	Keyspace
}

// Keyspace is the view of an Engine's state as a set of keys.
type Keyspace interface {
	// Lookup describes key, and reports whether it is there.
	Lookup(key []byte) (Entry, bool)
	// Delete forgets key, which gives it its full limit back, and reports whether it was there.
	Delete(key []byte) bool
	// Scan visits some of the keys, about count of them, and returns the cursor to go
	// on from. The first cursor is 0, and 0 is returned when all have been visited. A
	// key that is there during a whole round is visited at least once. The key is
	// borrowed for the length of the visit, which must not call the Engine.
	Scan(cursor uint64, count int, visit func(key []byte, kind Kind)) uint64
	// RandomKey returns a copy of a key that is there, which random chooses, and reports
	// whether there is any.
	RandomKey(random uint64) (key []byte, found bool)
	// Clear forgets all keys.
	Clear()
	// Usage counts.
	Usage() Usage
}
