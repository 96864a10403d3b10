package rules

import (
	"iter"
	"time"
)

// Limit is a named limit of a domain.
type Limit struct {
	Name        string
	When        When
	Per         []string // attributes whose values are counted separately; if empty, the limit has one counter
	Allow       Allow
	Algorithm   Algorithm
	Zone        *time.Location // of calendar windows; nil if not set
	Anchor      int            // day of the month on which windows of months start; 0 if not set
	Cost        Cost
	Charge      []int // status codes that are charged, after the request; if empty, each admitted request is charged
	OnFailure   FailurePolicy
	Ban         Ban
	Overrides   []Override
	Soft        int // percentage above the limit that is admitted and flagged
	Warn        int // percentage of the limit from which requests are flagged
	Priority    Priority
	RetryJitter int // percentage by which the retry time varies
	Consistency Consistency
	Shadow      bool // decisions are counted, and no request is refused
	Envoy       EnvoyLimit
}

// Allow is the value of the key "allow": amounts that must all admit a request. It has Amounts or Tiers.
type Allow struct {
	Amounts []Amount
	Tiers   []TierAmounts
}

// amountLists returns the lists of amounts of a limit, one of which decides a request: that of all requests, or of each
// tier, and those of the overrides.
func (l *Limit) amountLists() iter.Seq[[]Amount] {
	return func(yield func([]Amount) bool) {
		more := l.Allow.eachList(yield)
		for i := 0; more && i < len(l.Overrides); i++ {
			more = l.Overrides[i].Allow.eachList(yield)
		}
	}
}

// eachList calls yield for each list, until it returns false.
func (a *Allow) eachList(yield func([]Amount) bool) (more bool) {
	if len(a.Tiers) == 0 {
		return yield(a.Amounts)
	}
	for i := range a.Tiers {
		if !yield(a.Tiers[i].Amounts) {
			return false
		}
	}
	return true
}

// TierAmounts is the amounts of one tier.
type TierAmounts struct {
	Tier    string
	Amounts []Amount
}

// Cost is the number of units that a request is charged. The zero Cost is 1 unit.
type Cost struct {
	Number    int64      // at least 1 if it is set
	Attribute string     // attribute that determines the cost
	Cases     []CostCase // in order; if empty, the value of Attribute is the cost
}

// CostCase is the cost of requests whose attribute matches. A request that matches no case costs 1.
type CostCase struct {
	Matcher Matcher
	Cost    int64
}

// FailurePolicy determines the decision if the limit cannot be evaluated.
type FailurePolicy uint8

// The failure policies.
const (
	FailDefault FailurePolicy = iota // not set: admit, or on a sidecar the option upstream-away
	FailOpen                         // admit
	FailClosed                       // refuse
	FailLocal                        // decide on the node that has the request
)

// Consistency determines when a decision is returned.
type Consistency uint8

// The kinds of Consistency.
const (
	Sync  Consistency = iota // after its change is committed
	Async                    // before its change is committed
)

// Ban refuses the requests with the same counted values for a time after a number of refusals, except requests whose
// amount is unlimited. The zero Ban refuses none.
type Ban struct {
	After Amount
	For   time.Duration
}

// Override replaces Allow for some requests. The first override that applies is used.
type Override struct {
	When   When
	Allow  Allow
	Until  time.Time // the override does not apply from this time on; zero if not set
	During During
}

// Priority reserves a share of the limit for some requests. The zero Priority reserves nothing.
type Priority struct {
	When  When
	Share int // percentage
}

var (
	failurePolicies = []string{"open", "closed", "local"}
	consistencies   = []string{"sync", "async"}
)

// String returns the value in a rules file, or "default".
func (p FailurePolicy) String() string {
	if p == FailDefault {
		return "default"
	}
	return failurePolicies[p-FailOpen]
}

// String returns the value in a rules file.
func (c Consistency) String() string { return consistencies[c] }
