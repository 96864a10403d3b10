package limiter

import (
	"errors"
	"time"
)

// Kind names the algorithm whose state a key holds. Its values are stored with the
// keys, so they never change their meaning.
type Kind uint8

// The kinds of limiter state. Zero is no kind, so that zeroed memory is never taken
// for a record.
const (
	Throttle Kind = 1 // GCRA: one theoretical arrival time
)

// String returns the name that TYPE reports for a key of this kind.
func (k Kind) String() string {
	if k == Throttle {
		return "throttle"
	}
	return "none"
}

// Encoding returns the name that OBJECT ENCODING reports for a key of this kind: the
// algorithm by its name in the field.
func (k Kind) Encoding() string {
	if k == Throttle {
		return "gcra"
	}
	return "none"
}

// Limit is a rate compiled to integers: at most Max units at once, and one unit back
// every Interval. Packages of arithmetic make it (see gcra.NewLimit), and guarantee
// that Max and Interval are at least 1 and that their product fits an int64.
type Limit struct {
	Max      int64         // units that a key at rest can admit at once
	Interval time.Duration // emission interval: the time one unit takes to come back
}

// Request asks an Engine for one decision.
type Request struct {
	Kind     Kind
	Key      []byte // borrowed: an Engine copies what it keeps
	Limit    Limit
	Quantity int64 // units to charge; 0 peeks, a negative number refunds
}

// Record is a key and its state in the form in which they are stored, saved and copied.
type Record struct {
	Kind Kind
	Key  []byte
	// Expires is the limiter time in nanoseconds from which the record equals an absent
	// one. For Throttle it is the theoretical arrival time.
	Expires uint64
	// State is what the algorithm keeps besides: nothing for Throttle.
	State []byte
}

// NoRetry is the RetryAfter of a decision that leaves nothing to wait for: the
// request was admitted, or it asks for more than can ever be admitted.
const NoRetry time.Duration = -1

// Decision answers a Request.
type Decision struct {
	Limited    bool
	Limit      int64         // the Max of the request's limit
	Remaining  int64         // units that could be charged now, 0..Limit
	RetryAfter time.Duration // until the same request would be admitted, or NoRetry
	ResetAfter time.Duration // until the full limit is back
	Err        error         // why no decision was made; the other fields are then zero
}

// The errors of an Engine. A face maps each to its own form of error.
var (
	// ErrWrongKind is returned when the key holds the state of another algorithm.
	ErrWrongKind = errors.New("key holds another kind of limiter")
	// ErrOutOfMemory is returned when a new key does not fit the memory limit. Keys
	// that exist go on being decided exactly.
	ErrOutOfMemory = errors.New("memory limit reached")
)

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
type Engine interface {
	// Decide answers reqs[i] in out[i], in order. The two have the same length.
	Decide(reqs []Request, out []Decision)
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
	// Clear forgets all keys.
	Clear()
	// Usage counts.
	Usage() Usage
}
