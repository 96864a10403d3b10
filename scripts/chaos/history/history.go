// Package history is what clients have seen of a rate limiter: every request with the
// moments between which it was decided, and what came back.
//
// An [Op] is one request on one [Key]. All moments are nanoseconds of one monotonic clock,
// that of the machine on which the clients run, counted from the start of the run. A
// request whose outcome nobody knows is in the history as well, since it may have been
// charged at any time after it was sent; one that the server has refused to decide is not,
// as it has changed nothing.
package history

import (
	"math"
	"slices"
	"time"
)

// Form says what a key promises.
type Form string

// The forms of keys.
const (
	// Rate is GCRA with the key's parameters: every reply follows from them.
	Rate Form = ""
	// Bound is another algorithm, which never admits more than the key's parameters allow GCRA to.
	Bound Form = "bound"
	// Window admits no more than the limit in any stretch of time that is shorter than the period.
	// Count says nothing there.
	Window Form = "window"
)

// Key is a limit that clients draw on. A key keeps its parameters for a whole run.
type Key struct {
	Name     string        `json:"name"`
	Form     Form          `json:"form,omitempty"`
	MaxBurst int64         `json:"max_burst"` // at least 0
	Count    int64         `json:"count"`     // at least 1
	Period   time.Duration `json:"period"`    // at least 1 ns; whole seconds where the form is Rate
}

// Limit returns the units that the key admits at once.
func (k *Key) Limit() int64 { return k.MaxBurst + 1 }

// Interval returns the emission interval in nanoseconds as the server computes it, rounded up.
func (k *Key) Interval() int64 { return (int64(k.Period) + k.Count - 1) / k.Count }

// Kind says what was asked.
type Kind uint8

// The kinds of requests.
const (
	Throttle Kind = iota // CL.THROTTLE with a quantity: 0 peeks, a negative one refunds
	Delete               // DEL
)

// Outcome says what came back.
type Outcome uint8

// The outcomes of requests.
const (
	Granted Outcome = iota // charged, or done
	Limited                // refused by the limit
	Unknown                // it may have happened, or not, or may happen yet
)

// Never is the return of a request whose outcome is unknown.
const Never = math.MaxInt64

// Op is one request.
type Op struct {
	Key      *Key    `json:"-"`
	Client   int     `json:"client"`
	Node     int     `json:"node"` // that was asked, counted from 0
	Kind     Kind    `json:"kind,omitempty"`
	Outcome  Outcome `json:"outcome,omitempty"`
	Quantity int64   `json:"quantity"`
	Call     int64   `json:"call"`   // when it was sent
	Return   int64   `json:"return"` // when the reply had come; Never if Unknown

	// What CL.THROTTLE replied: units, and seconds rounded up.
	Remaining  int64 `json:"remaining,omitempty"`
	RetryAfter int64 `json:"retry_after,omitempty"`
	ResetAfter int64 `json:"reset_after,omitempty"`
	// Existed is what DEL replied: that there was something to delete.
	Existed bool `json:"existed,omitempty"`
}

// Charges reports whether the request has taken units for certain.
func (o *Op) Charges() bool { return o.Kind == Throttle && o.Outcome == Granted && o.Quantity > 0 }

// ByKey groups requests by key, each group in the order of its calls.
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

// OnlyCharges reports whether nothing in a history gives units back: no refund and no DEL.
func OnlyCharges(ops []Op) bool {
	return !slices.ContainsFunc(ops, func(o Op) bool { return o.Kind != Throttle || o.Quantity < 0 })
}
