// Package counts counts decisions by domain, limit and outcome.
//
// A [Table] holds one [Limit] for each limit of the rules, by name. [Table.Resolve] finds the counters of all limits of a
// set when the set becomes active, so that a decision is counted by one atomic addition, without a lookup and without
// allocation. Counters keep their values when the rules change.
//
// The number of limits with counters of their own is bounded, so that a file with many limits cannot make metrics
// expensive. The other limits share the counters of [Other].
package counts

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Outcome is the outcome of a decision on one limit.
type Outcome uint8

// The outcomes of decisions. If a limit has several amounts, its outcome is the last of theirs in this order.
const (
	Admitted      Outcome = iota // within the limit; another limit may have refused the request
	Soft                         // admitted, with units of the soft share
	FailOpen                     // admitted by on_failure, because no leader has decided
	Local                        // admitted by the counters of this node, because no leader has decided
	Error                        // a shadow limit that was not decided
	ShadowRefused                // a shadow limit would have refused the request
	FailClosed                   // refused by on_failure, because no leader has decided
	LocalRefused                 // refused by the counters of this node, because no leader has decided
	Refused                      // beyond the limit
	Banned                       // refused by a ban
	Unmatched                    // neither a live limit nor a default applies to the request
)

// Outcomes is the number of outcomes.
const Outcomes = int(Unmatched) + 1

var outcomeNames = [Outcomes]string{
	"admitted", "soft", "fail_open", "local", "error", "shadow_refused", "fail_closed", "local_refused", "refused", "banned", "unmatched",
}

// String returns the name of an outcome in metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// Name is the name of a limit. The default of a domain, and requests that no limit applies to, have the limit "".
type Name struct{ Domain, Limit string }

// Other is the name of the counters that limits beyond the bound share.
var Other = Name{"other", "other"}

// Limit holds the counters of one limit. It fills two cache lines, so that decisions on different limits do not delay each
// other.
type Limit struct {
	counts [Outcomes]atomic.Uint64
	_      [128 - 8*Outcomes]byte
}

// Add counts n decisions.
func (l *Limit) Add(o Outcome, n uint64) { l.counts[o].Add(n) }

// Row is the counters of one limit at one time.
type Row struct {
	Name
	Counts [Outcomes]uint64 // by Outcome
}

// Resolved is the counters of the limits of one set, by their numbers. A nil Resolved has no limits.
type Resolved struct{ limits []*Limit }

// At returns the counters of the limit with a number of the set.
func (r *Resolved) At(number int) *Limit { return r.limits[number] }

// DefaultMax is the maximum number of limits with counters of their own, unless SetMax is called.
const DefaultMax = 1000

// Table holds the counters of limits, by name. Its methods may be called concurrently.
type Table struct {
	mu     sync.Mutex
	max    int
	limits map[Name]*Limit
	leases map[Name]*leased // of limits with counters of their own, of Other and of the zero Name
	start  time.Time
	shared int // number of limits of the newest set without counters of their own
}

// NewTable returns a Table without limits, with the maximum DefaultMax.
func NewTable() *Table {
	return &Table{max: DefaultMax, limits: map[Name]*Limit{Other: {}}, leases: map[Name]*leased{}, start: time.Now()}
}

// SetMax sets the maximum number of limits with counters of their own. It has an effect on later calls of Resolve.
func (t *Table) SetMax(most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.max = most
}

// Resolve returns the counters of the limits of a set, in the order of names. Limits that had counters keep them. If the table
// is full, the counters of limits that the set does not have are removed, and further limits share the counters of Other.
func (t *Table) Resolve(names iter.Seq[Name]) *Resolved {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &Resolved{}
	added := 0
	for name := range names {
		l := t.limits[name]
		r.limits = append(r.limits, l)
		added += countNil(l)
	}
	if len(t.limits)-1+added > t.max {
		t.keepOnly(names)
	}
	t.shared = 0
	i := 0
	for name := range names {
		if r.limits[i] == nil {
			r.limits[i] = t.add(name)
		}
		i++
	}
	return r
}

func countNil(l *Limit) int {
	if l == nil {
		return 1
	}
	return 0
}

// keepOnly removes the counters of all other limits.
func (t *Table) keepOnly(names iter.Seq[Name]) {
	kept := map[Name]*Limit{Other: t.limits[Other]}
	for name := range names {
		if l := t.limits[name]; l != nil {
			kept[name] = l
		}
	}
	t.limits = kept
	maps.DeleteFunc(t.leases, func(name Name, _ *leased) bool { return name != Name{} && kept[name] == nil })
}

// add returns new counters for a limit, or those of Other if the table is full.
func (t *Table) add(name Name) *Limit {
	if len(t.limits)-1 >= t.max {
		t.shared++
		return t.limits[Other]
	}
	l := &Limit{}
	t.limits[name] = l
	return l
}

// Shared returns the number of limits of the newest set that share the counters of Other.
func (t *Table) Shared() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shared
}

// Rows returns the counters of all limits, ordered by name.
func (t *Table) Rows() []Row {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := make([]Row, 0, len(t.limits))
	for name, l := range t.limits {
		row := Row{Name: name}
		for i := range l.counts {
			row.Counts[i] = l.counts[i].Load()
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Limit, b.Limit))
	})
	return rows
}
