package client

import (
	"fmt"
	"math"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Source states how a Decision was made.
type Source int

// Sources of decisions.
const (
	// FromServer is a decision of the server.
	FromServer Source = iota
	// FromLease is a decision in this process: by a unit of a lease, or by a refusal of the server that still applies.
	FromLease
	// FromPolicy is a decision by Options.Away.
	FromPolicy
)

// Decision is the result of a request.
type Decision struct {
	// Admitted reports whether the request is admitted.
	Admitted bool
	// Limit is the number of units that can be charged at once, and Remaining how many of them are left. Remaining is an
	// estimate if Source is FromLease.
	Limit, Remaining int64
	// RetryAfter is the time after which a refused request would be admitted. It is negative if the request is admitted, and
	// if no wait helps because the request exceeds the whole limit.
	RetryAfter time.Duration
	// ResetAfter is the time until the full limit is available.
	ResetAfter time.Duration
	Source     Source
	// Flagged reports that Options.Away has decided, because of Err.
	Flagged bool
	Err     error
}

func decision(d *limiter.Decision, source Source) Decision {
	return Decision{
		Admitted: !d.Limited, Limit: d.Limit, Remaining: d.Remaining,
		RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter, Source: source,
	}
}

// parse returns the decision in the five integers of a reply, whose times are in milliseconds.
func parse(reply any) (Decision, error) {
	var n [5]int64
	items, _ := reply.([]any)
	if len(items) != len(n) {
		return Decision{}, fmt.Errorf("%w: %v", ErrReply, reply)
	}
	for i := range n {
		value, ok := items[i].(int64)
		if !ok {
			return Decision{}, fmt.Errorf("%w: %v", ErrReply, reply)
		}
		n[i] = value
	}
	return Decision{
		Admitted: n[0] == 0, Limit: n[1], Remaining: n[2],
		RetryAfter: milliseconds(n[3]), ResetAfter: milliseconds(n[4]),
	}, nil
}

// parseAll returns the decisions on n limits: those in a reply to CL.ALL if there are several.
func parseAll(reply any, n int) ([]Decision, error) {
	if n == 1 {
		d, err := parse(reply)
		return []Decision{d}, err
	}
	items, _ := reply.([]any)
	if len(items) != allHeader+n {
		return nil, fmt.Errorf("%w: %v", ErrReply, reply)
	}
	ds := make([]Decision, n)
	for i := range ds {
		d, err := parse(items[allHeader+i])
		if err != nil {
			return nil, err
		}
		ds[i] = d
	}
	return ds, nil
}

// allHeader is the number of integers before the decisions in a reply to CL.ALL.
const allHeader = 5

// Deciding returns the decision of the limit that decides a request, of the decisions that AllowAll returns: a refusal with
// the longest time, or without refusals the one with the fewest units remaining, and of these the one that takes longest to
// reset. There must be at least one decision.
func Deciding(ds []Decision) Decision {
	deciding := ds[0]
	for _, d := range ds[1:] {
		if d.outranks(&deciding) {
			deciding = d
		}
	}
	return deciding
}

// outranks reports whether d, and not o, decides a request, by the rule of the server.
func (d *Decision) outranks(o *Decision) bool {
	a, b := d.ofLimiter(), o.ofLimiter()
	return a.Outranks(&b)
}

func (d *Decision) ofLimiter() limiter.Decision {
	return limiter.Decision{Limited: !d.Admitted, Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter}
}

// milliseconds converts a number of milliseconds. -1 becomes a negative time, and a time that a Duration cannot represent the
// longest Duration.
func milliseconds(n int64) time.Duration {
	if n < 0 {
		return limiter.NoRetry
	}
	return time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
