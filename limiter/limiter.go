package limiter

import (
	"errors"
	"math"
	"time"
)

// Kind identifies the algorithm that owns the state of a key. Its values are stored with the keys, so their meaning
// must never change.
type Kind uint8

// The kinds of limiter state. Zero is not a kind, so that zeroed memory is never mistaken
// for a record.
const (
	Throttle      Kind = 1 // GCRA: one theoretical arrival time
	SlidingWindow Kind = 2 // the counts of two windows, the older one weighted
	FixedWindow   Kind = 3 // the count of one window that is aligned to the calendar
	WindowBuckets Kind = 4 // the counts of several consecutive windows
	WindowLog     Kind = 5 // a timestamp for each admitted request
	TokenBucket   Kind = 6 // tokens that are refilled in whole intervals
	LeakyBucket   Kind = 7 // a queue that is drained at a constant rate

	// The following kinds are used by rules, whose limits change while keys are in use. A Scaled kind is the kind
	// without this word, with the rate beside the state: used units stay used if the rate changes.

	ScaledThrottle Kind = 8  // Throttle with its emission interval
	ScaledBucket   Kind = 9  // TokenBucket with its refill interval and amount
	ScaledLeaky    Kind = 10 // LeakyBucket with its emission interval
	Calendar       Kind = 11 // the count of one window whose start and end are in the Limit, such as a month
	Ban            Kind = 12 // the end of a ban
)

// kinds holds the names of each kind. The field name is the reply of TYPE, and the name of the command without "CL.".
// The field encoding is the reply of OBJECT ENCODING, which distinguishes the kinds of one command, such as CL.WINDOW. The
// field raw is the name in a raw limit of CL.LEASE; it is empty for kinds that are not leased.
var kinds = [...]struct{ name, encoding, raw string }{
	Throttle:      {"throttle", "gcra", "throttle"},
	SlidingWindow: {"window", "sliding", "sliding"},
	FixedWindow:   {"window", "fixed", "fixed"},
	WindowBuckets: {"window", "buckets", "buckets"},
	WindowLog:     {"window", "log", "log"},
	TokenBucket:   {"bucket", "tokens", "bucket"},
	LeakyBucket:   {"leaky", "queue", ""},

	ScaledThrottle: {"throttle", "gcra", "scaled-throttle"},
	ScaledBucket:   {"bucket", "tokens", "scaled-bucket"},
	ScaledLeaky:    {"leaky", "queue", ""},
	Calendar:       {"window", "calendar", "calendar"},
	Ban:            {"ban", "ban", ""},
}

// leased is the bit of the kinds with leases. The numbers of all other kinds are below it.
const leased Kind = 16

// Leased reports whether k is the kind of a record with leases: the State of the record is the state of a key of the kind
// k.Base(), followed by a list of leases. Only stored records have such a kind, and never a Request.
func (k Kind) Leased() bool { return k&leased != 0 }

// Base returns the kind without leases.
func (k Kind) Base() Kind { return k &^ leased }

// WithLeases returns the kind of a record of kind k that has leases.
func (k Kind) WithLeases() Kind { return k | leased }

// Known reports whether k is one of the kinds, with or without leases.
func (k Kind) Known() bool { return k.Base() > 0 && int(k.Base()) < len(kinds) }

// OfRules reports whether only rules use keys of this kind.
func (k Kind) OfRules() bool { return k.Known() && k.Base() >= ScaledThrottle }

// Raw returns the name of a kind in a raw limit of CL.LEASE, or "" if limits of this kind are not leased.
func (k Kind) Raw() string {
	if !k.Known() || k.Leased() {
		return ""
	}
	return kinds[k].raw
}

// KindOfRaw returns the kind with a name that Raw returns, or 0.
func KindOfRaw(name string) Kind {
	for k := Throttle; k.Known(); k++ {
		if name != "" && kinds[k].raw == name {
			return k
		}
	}
	return 0
}

// RawNames returns the names of all kinds that are leased.
func RawNames() (names []string) {
	for k := Throttle; k.Known(); k++ {
		if kinds[k].raw != "" {
			names = append(names, kinds[k].raw)
		}
	}
	return names
}

// String returns the name that TYPE reports for a key of this kind, or "none".
func (k Kind) String() string {
	if !k.Known() {
		return "none"
	}
	return kinds[k.Base()].name
}

// Encoding returns the name that OBJECT ENCODING reports for a key of this kind, or "none".
func (k Kind) Encoding() string {
	if !k.Known() {
		return "none"
	}
	return kinds[k.Base()].encoding
}

// Limit holds the parameters of a limit, compiled to integers. It is made by a function of the package that implements
// the algorithm, such as gcra.NewLimit. That function guarantees that Max and Interval are at least 1 and that no
// computation with the Limit overflows. The caller may then lower Max, down to 0: such a limit refuses each charge.
type Limit struct {
	Max int64 // units that one request can charge when the full limit is available
	// Interval is the emission interval of Throttle and LeakyBucket: the time in which one
	// unit is restored. For a TokenBucket it is the refill interval, for WindowBuckets the
	// length of one sub-window, and for the other kinds of windows the length of the window. For a
	// Calendar it is the length of the present window, and for a Ban the length of the ban.
	Interval time.Duration
	// Amount is the number of tokens that one refill adds to a TokenBucket, or the number of requests that a
	// WindowLog can hold. For the other kinds of windows it is the number of sub-windows: 1, except for WindowBuckets.
	// For a Calendar it is the end of the present window, as a limiter time in nanoseconds. For Throttle, LeakyBucket
	// and Ban it is 0. A Scaled kind has the same fields as the kind without this word.
	Amount int64
}

// Period is a length of time as given by a caller: N units. It may be longer than a Duration
// can represent.
type Period struct {
	N    int64
	Unit time.Duration // above 0
}

// Seconds returns a period of n seconds.
func Seconds(n int64) Period { return Period{n, time.Second} }

// Duration returns the period as a Duration, and reports whether the period is above 0 and fits in a Duration.
func (p Period) Duration() (time.Duration, bool) {
	if p.N <= 0 || p.N > int64(math.MaxInt64/p.Unit) {
		return 0, false
	}
	return time.Duration(p.N) * p.Unit, true
}

// ErrRange is returned for parameters that do not describe a limit, and for limits whose times or quantities do not fit
// in an int64.
var ErrRange = errors.New("rate limit parameters out of range")

// Request is a request to an Engine for one decision.
type Request struct {
	Kind     Kind
	Key      []byte // borrowed: an Engine copies the part it keeps
	Limit    Limit
	Quantity int64 // units to charge; 0 peeks, a negative number refunds
	// Linked joins the request and the next request into a group. A group is decided in one atomic step: all of its
	// requests are charged, or none. The last request of a group is not Linked. See Engine.Decide.
	Linked bool
	// Trial decides the request as if it were charged, and charges nothing: the decision is that on the same request
	// without Trial, but no units are charged, and the state needs no more memory. A Trial in a group is a condition:
	// if it is refused, no request of the group is charged. A Trial of a Ban asks whether the key is banned.
	Trial bool
	// Draw is nil for a plain request. Otherwise the request draws Quantity units as a lease, or returns Quantity unused
	// units of a lease. Such a request is neither a Trial nor part of a group: the error is then ErrGroup.
	Draw *Draw
}

// MaxGroup is the largest number of requests in a group.
const MaxGroup = 32

// State is the stored state of a key.
type State struct {
	// Expires is the limiter time in nanoseconds at which the full limit is restored. From then on, the key is
	// equivalent to an absent key. For Throttle and LeakyBucket, Expires is the theoretical arrival time, which is the
	// whole state. For a Ban, it is the end of the ban, which is the whole state.
	Expires uint64
	// Data is the rest of the state, in a format private to the algorithm.
	Data []byte
}

// Change is the effect of a decision on a State. The Change of a refused request has the same used units: it only converts
// the State to a limit whose rate has changed. Only the Scaled kinds return one.
type Change struct {
	// Set is false if the decision does not change the state. The other fields are then
	// undefined.
	Set bool
	// Expires is the new value of State.Expires. If it is not after the time of the decision, the key is equivalent to
	// an absent key and need not be stored.
	Expires uint64
	// The new Data is the first Keep bytes of the old Data followed by Tail. A small change to a large state therefore
	// does not copy the state, and only the changed part is replicated. If Keep is above 0, the new Data is as long as
	// the old Data.
	Keep int
	Tail []byte
}

// Record is a key and its state in the form in which they are stored, saved and copied.
type Record struct {
	Kind Kind
	Key  []byte
	// Expires is the limiter time in nanoseconds from which the record is equivalent to an absent one. See
	// State.Expires.
	Expires uint64
	// State is the Data of the key's State: empty for Throttle, LeakyBucket and Ban.
	State []byte
	// Gauge is a value from which an Engine computes the order of eviction, in a format private to the Engine. 0 means
	// unknown.
	Gauge byte
}

// NoRetry is the RetryAfter of a decision without a time to wait: the request was admitted, or its quantity is more
// than the limit can ever admit.
const NoRetry time.Duration = -1

// Ceil returns d in whole units, rounded up. Replies contain times in this form, so that the time in a reply is never
// too short, and is not 0 if the client must wait. For NoRetry, Ceil returns -1.
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

// Decision is the result of a Request.
type Decision struct {
	Limited    bool
	Limit      int64         // the Max of the request's limit
	Remaining  int64         // units that could be charged now, 0..Limit
	RetryAfter time.Duration // time until the same request would be admitted, or NoRetry
	ResetAfter time.Duration // time until the full limit is restored
	// Wait is the time for which the caller must delay a request that a LeakyBucket or a ScaledLeaky has admitted. It is
	// NoRetry if the request was refused, and 0 for all other kinds.
	Wait time.Duration
	Err  error // the reason why no decision was made; the other fields are then zero
}

// Outranks reports whether d, and not o, determines the result of a group. A refusal outranks an admission. Of two refusals,
// the one with the longer wait has the higher rank, since a retry succeeds only after the longest wait. Of two admissions,
// the one with fewer remaining units has the higher rank. If they have the same number of remaining units, the one that
// takes longer to reset has the higher rank.
func (d *Decision) Outranks(o *Decision) bool {
	switch {
	case d.Limited != o.Limited:
		return d.Limited
	case d.Limited:
		// As an unsigned integer, NoRetry is the longest wait.
		return uint64(d.RetryAfter) > uint64(o.RetryAfter)
	case d.Remaining != o.Remaining:
		return d.Remaining < o.Remaining
	}
	return d.ResetAfter > o.ResetAfter
}

// The errors of an Engine. A protocol server converts them to errors of its protocol.
var (
	// ErrWrongKind is wrapped by WrongKindError.
	ErrWrongKind = errors.New("key is in use by another kind of limiter")
	// ErrOutOfMemory is returned when a new key, or a state that must grow, does not fit in the memory limit.
	// Requests that do not need additional memory are still decided exactly.
	ErrOutOfMemory = errors.New("memory limit reached")
	// ErrSameKey is returned for a request with the same key as an earlier request of its group.
	ErrSameKey = errors.New("two limits of a group have the same key")
	// ErrGroup is returned for requests that are not decided because another request of their group cannot be decided.
	ErrGroup = errors.New("another request of the group cannot be decided")
	// ErrNotLeading is returned by an engine that does not decide at present, because another node of its cluster is
	// the leader, or there is no leader. Nothing was charged.
	ErrNotLeading = errors.New("this node does not lead its cluster")
	// ErrUncertain is returned by WaitCommitted for decisions made shortly before a node lost leadership of its
	// cluster: the decisions may or may not be committed.
	ErrUncertain = errors.New("leadership was lost: the request may have been charged")
)

// WrongKindError is returned when the key of a request holds the state of a different algorithm than the request names.
// The value of the error is the Kind of that state. The error wraps ErrWrongKind. Converting a WrongKindError to an
// error does not allocate.
type WrongKindError Kind

// Error names the algorithm that holds the key.
func (e WrongKindError) Error() string {
	return ErrWrongKind.Error() + ": " + Kind(e).String() + " (" + Kind(e).Encoding() + ")"
}

// Unwrap returns ErrWrongKind.
func (e WrongKindError) Unwrap() error { return ErrWrongKind }

// CommitToken identifies a point in the history of an Engine. It covers everything that was decided, changed or visible
// before that point. The zero CommitToken is the beginning of the history.
type CommitToken struct {
	Epoch      uint64 // counts the periods in which this engine decides; in a cluster, its leaderships
	Generation uint64 // counts, within the epoch, the batches that are replicated together
}

// Entry describes one key of the keyspace.
type Entry struct {
	Kind  Kind
	TTL   time.Duration // time until the full limit is restored and the key expires; above 0
	Bytes int64         // memory used by the key, including its share of the index
	State uint64        // a value that changes whenever the state of the key changes
}

// Usage holds the present size of the keyspace of an Engine, and counters since the Engine was started.
type Usage struct {
	Keys    int64 // keys held, including expired keys that were not dropped yet
	Bytes   int64 // memory held for keys
	Peak    int64 // the maximum of Bytes
	Hits    int64 // decisions and lookups that found a key that had not expired
	Misses  int64 // decisions and lookups that found no such key
	Expired int64 // keys dropped because they had expired
	Evicted int64 // keys dropped to make room for others
	Changes int64 // changes of the state of a key, expiry excluded
	Dataset int64 // the sum of Entry.Bytes of all keys; Bytes also includes memory that no key uses
	Pauses  Pauses

	GrantedUnits  uint64 // units of leases that were granted
	ReturnedUnits uint64 // units of leases that were returned
}

// Pauses holds, for each type of maintenance work, the longest time for which the work has blocked decisions on some
// keys since the Engine was made.
type Pauses struct {
	Growth     time.Duration // making room for a new key, including Compaction and Eviction
	Compaction time.Duration // moving records together, as a part of growth
	Eviction   time.Duration // choosing and dropping keys, as a part of growth
	Sweep      time.Duration // dropping expired records
	Copy       time.Duration // copying records for a snapshot
}

// Engine decides requests and holds their state. Its methods are safe for concurrent use; each
// decision is one atomic step on its key.
//
// An Engine that replicates its state decides immediately, and commits the decision later. Do not reveal a decision, or
// any other state that the Engine has returned, to a client before the commit: first call WaitCommitted with the
// CommitToken that Decide has returned, or with one that LastWrite has returned after the state was read. Without
// replication, WaitCommitted never blocks.
type Engine interface {
	Leases

	// Decide decides the requests in order, and stores the decision on reqs[i] in out[i]. reqs and out must have the
	// same length.
	//
	// A group is decided as a whole: if any of its requests is refused, none is charged, and the other requests,
	// including a Trial, are answered as if they were peeks. If one of the requests cannot be decided, the Err of its
	// decision is the reason, and the Err of the other decisions is ErrGroup. ErrOutOfMemory and ErrNotLeading concern the
	// whole group, so they are the Err of all its decisions. The keys of a group must differ from each other, and a group
	// has at most MaxGroup requests.
	//
	// The CommitToken covers the changes made by the decisions, and the state on which the decisions were based.
	Decide(reqs []Request, out []Decision) CommitToken
	// LastWrite returns a CommitToken that covers everything done before the call.
	LastWrite() CommitToken
	// WaitCommitted blocks until everything that the CommitToken covers is committed. Committed changes are not lost as
	// long as a majority of the nodes keeps its data. WaitCommitted returns ErrUncertain if it is unknown whether
	// everything was committed. It returns ErrNotLeading if this engine was not the leader when the CommitToken was
	// made; the state returned with that CommitToken may then be stale.
	WaitCommitted(CommitToken) error
	Keyspace
}

// Keyspace provides access to the state of an Engine as a set of keys.
type Keyspace interface {
	// Lookup returns the entry of key, and reports whether the key exists.
	Lookup(key []byte) (Entry, bool)
	// Delete deletes key, which restores its full limit, and reports whether it existed. It returns ErrNotLeading,
	// and changes nothing, if this engine does not decide.
	Delete(key []byte) (found bool, err error)
	// Scan visits about count keys and returns the cursor from which to continue. A complete scan starts with cursor 0,
	// and continues until Scan returns 0. A key that exists during the whole scan is visited at least once.
	// The key passed to visit is valid only during the call. The function visit must not call the Engine.
	Scan(cursor uint64, count int, visit func(key []byte, kind Kind)) uint64
	// RandomKey returns a copy of an existing key, and reports whether there is one. The parameter random selects the
	// key.
	RandomKey(random uint64) (key []byte, found bool)
	// Clear deletes all keys. It returns ErrNotLeading, and changes nothing, if this engine does not decide.
	Clear() error
	// Usage returns the counters of the Engine.
	Usage() Usage
}
