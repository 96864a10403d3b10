// Package history records the requests that clients sent to a rate limiter. For each
// request, it records the interval in which the request was decided, and the reply.
//
// An [Op] is one request on one [Key]. All times are nanoseconds since the start of the
// run, on the monotonic clock of the machine that runs the clients. A request with an
// unknown outcome is part of the history, since it may have been charged at any time after
// it was sent. A request that the server refused to decide is not part of the history,
// since it has changed nothing.
package history

import (
	"math"
	"slices"
	"time"
)

// Form is the guarantee for the decisions on a key.
type Form string

// The forms of keys.
const (
	// Rate is GCRA with the key's parameters, which determine every reply.
	Rate Form = ""
	// Bound is an algorithm that never admits more than GCRA with the key's parameters.
	Bound Form = "bound"
	// Window admits at most the limit in any interval shorter than the period. Count is ignored.
	Window Form = "window"
)

// Key is a limit that clients charge. Its parameters are constant during a run.
type Key struct {
	Name     string        `json:"name"`
	Form     Form          `json:"form,omitempty"`
	MaxBurst int64         `json:"max_burst"` // at least 0
	Count    int64         `json:"count"`     // at least 1
	Period   time.Duration `json:"period"`    // at least 1 ns; whole seconds if the form is Rate
}

// Limit returns the units that the key admits in one burst.
func (k *Key) Limit() int64 { return k.MaxBurst + 1 }

// Interval returns the emission interval in nanoseconds as the server computes it, rounded up.
func (k *Key) Interval() int64 { return (int64(k.Period) + k.Count - 1) / k.Count }

// Kind is the kind of a request.
type Kind uint8

// The kinds of requests.
const (
	Throttle Kind = iota // CL.THROTTLE; a quantity of 0 peeks, a negative quantity refunds
	Delete               // DEL
)

// Outcome is the outcome of a request.
type Outcome uint8

// The outcomes of requests.
const (
	Granted Outcome = iota // charged, peeked, refunded, or deleted
	Limited                // refused by the limit
	Unknown                // may have been applied, or may still be applied
)

// Never is the return time of a request whose outcome is unknown.
const Never = math.MaxInt64

// Op is one request.
type Op struct {
	Key      *Key    `json:"-"`
	Client   int     `json:"client"`
	Node     int     `json:"node"` // node that received the request, counted from 0
	Kind     Kind    `json:"kind,omitempty"`
	Outcome  Outcome `json:"outcome,omitempty"`
	Quantity int64   `json:"quantity"`
	Call     int64   `json:"call"`   // time at which it was sent
	Return   int64   `json:"return"` // time at which the reply was received; Never if Unknown

	// The reply to CL.THROTTLE: units, and seconds rounded up.
	Remaining  int64 `json:"remaining,omitempty"`
	RetryAfter int64 `json:"retry_after,omitempty"`
	ResetAfter int64 `json:"reset_after,omitempty"`
	// Existed is the reply to DEL: whether the key existed.
	Existed bool `json:"existed,omitempty"`
}

// Charges reports whether the request has certainly charged units.
func (o *Op) Charges() bool { return o.Kind == Throttle && o.Outcome == Granted && o.Quantity > 0 }

// Restores returns the largest number of units that a refund or a DEL may have restored: all units of the limit for a DEL,
// and 0 for other requests.
func (o *Op) Restores() int64 {
	switch {
	case o.Outcome == Limited:
		return 0
	case o.Kind == Delete:
		return o.Key.Limit()
	}
	return max(0, -o.Quantity)
}

// ByKey groups requests by key. The requests of a group are in the order in which they were sent.
func ByKey(ops []Op) map[*Key][]Op {
	groups := map[*Key][]Op{}
	for _, o := range ops {
		groups[o.Key] = append(groups[o.Key], o)
	}
	for _, g := range groups {
		slices.SortStableFunc(g, func(a, b Op) int { return compare(a.Call, b.Call) })
	}
	return groups
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// OnlyCharges reports whether ops contain neither a refund nor a DEL.
func OnlyCharges(ops []Op) bool {
	return !slices.ContainsFunc(ops, func(o Op) bool { return o.Kind != Throttle || o.Quantity < 0 })
}
