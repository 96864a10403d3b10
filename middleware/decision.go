package middleware

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State is the state of a limit after a request.
type State struct {
	// Name is the name of the limit. It is empty for the default of a domain, and if no limit applies.
	Name string
	// Admitted reports whether the limit admits the request.
	Admitted bool
	// Limit is the number of units that can be charged at once, and Remaining how many of them are left. Both are
	// [math.MaxInt64] if no limit applies.
	Limit, Remaining int64
	// RetryAfter is the time after which a refused request would be admitted. It is negative if the request is admitted, and
	// if no wait helps because the request exceeds the whole limit.
	RetryAfter time.Duration
	// ResetAfter is the time until the full limit is available.
	ResetAfter time.Duration
}

// LimitState is the state of one of several limits that apply to a request.
type LimitState struct {
	State
	// Window is the name of the period, such as "15m", and Period its length, or 0 if it has no fixed length.
	Window string
	Period time.Duration
	// Flags are those of the reply to CL.CHECK.
	Flags []string
}

// Source states how a Decision was made.
type Source int

// Sources of decisions.
const (
	// FromServer is a decision of the server.
	FromServer Source = iota
	// FromExemption is the admission of a Request without limits.
	FromExemption
	// FromPolicy is a decision by Config.OnFailure. Decision.Err is the reason.
	FromPolicy
	// FromDecider is a decision of Config.Decider.
	FromDecider
)

// Decision is the result of a Request. Its State is that of the deciding limit.
type Decision struct {
	State
	// Delay is the time for which an admitted request must be delayed, because a leaky bucket of the rules shapes the traffic.
	// The caller of Allow must call AwaitTurn. Wait and HTTP do so themselves.
	Delay time.Duration
	// Flags are those of the reply to CL.CHECK, such as "soft" and "banned".
	Flags []string
	// Limits holds the states of all limits that apply.
	Limits []LimitState
	Source Source
	// Err is the reason why the server has not decided, if Source is FromPolicy.
	Err error
}

// unlimited is the state for a request to which no limit applies.
var unlimited = State{Admitted: true, Limit: math.MaxInt64, Remaining: math.MaxInt64, RetryAfter: -1}

// errReply is the error for a reply that this package does not understand.
var errReply = errors.New("unexpected reply of the server: the client must be connected to throttled")

// parse returns the decision in the reply to the command of a request.
func (r *Request) parse(reply any) (Decision, error) {
	if r.Domain == "" {
		return r.parseAll(reply)
	}
	return parseCheck(reply)
}

// parseAll returns the decision in a reply to CL.ALL.
func (r *Request) parseAll(reply any) (d Decision, err error) {
	items, _ := reply.([]any)
	if len(items) != 5+len(r.Limits) {
		return Decision{}, fmt.Errorf("%w: CL.ALL returned %v", errReply, reply)
	}
	if d.State, err = parseState(items); err != nil {
		return Decision{}, err
	}
	d.Limits = make([]LimitState, len(r.Limits))
	for i := range r.Limits {
		s := &d.Limits[i]
		values, _ := items[5+i].([]any)
		if s.State, err = parseState(values); err != nil {
			return Decision{}, err
		}
		same := s.State == d.State
		r.Limits[i].describe(s)
		if same && d.Name == "" {
			d.Name = s.Name
		}
	}
	return d, nil
}

// parseState returns the state in the first five elements of a reply.
func parseState(items []any) (State, error) {
	if len(items) < 5 {
		return State{}, fmt.Errorf("%w: %v", errReply, items)
	}
	var n [5]int64
	for i := range n {
		value, ok := items[i].(int64)
		if !ok {
			return State{}, fmt.Errorf("%w: %v", errReply, items)
		}
		n[i] = value
	}
	return State{Admitted: n[0] == 0, Limit: n[1], Remaining: n[2], RetryAfter: milliseconds(n[3]), ResetAfter: milliseconds(n[4])}, nil
}

// milliseconds converts a number of milliseconds. Times that a Duration cannot represent become the longest Duration.
func milliseconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// The keys of a reply to CL.CHECK in RESP3, in the order of the elements in RESP2.
var (
	checkKeys = []string{"limited", "limit", "remaining", "retry_after", "reset_after", "name", "flags", "limits", "version"}
	limitKeys = []string{"name", "window", "limited", "limit", "remaining", "retry_after", "reset_after", "flags", "wait_ms"}
)

// parseCheck returns the decision in a reply to CL.CHECK.
func parseCheck(reply any) (d Decision, err error) {
	items := inOrder(reply, checkKeys)
	if len(items) != len(checkKeys) {
		return Decision{}, fmt.Errorf("%w: CL.CHECK returned %v", errReply, reply)
	}
	if d.State, err = parseState(items); err != nil {
		return Decision{}, err
	}
	d.Name, _ = items[5].(string)
	d.Flags = texts(items[6])
	limits, _ := items[7].([]any)
	d.Limits = make([]LimitState, len(limits))
	for i := range limits {
		delay, err := d.Limits[i].parse(inOrder(limits[i], limitKeys))
		if err != nil {
			return Decision{}, err
		}
		d.Delay = max(d.Delay, delay)
	}
	if !d.Admitted {
		d.Delay = 0
	}
	return d, nil
}

// parse sets s to the state in an element of "limits". It returns the delay of a leaky bucket.
func (s *LimitState) parse(items []any) (delay time.Duration, err error) {
	if len(items) < len(limitKeys)-1 {
		return 0, fmt.Errorf("%w: a limit is %v", errReply, items)
	}
	if s.State, err = parseState(items[2:7]); err != nil {
		return 0, err
	}
	s.Name, _ = items[0].(string)
	s.Window, _ = items[1].(string)
	s.Period = parseWindow(s.Window)
	s.Flags = texts(items[7])
	if len(items) == len(limitKeys) && !s.has("shadow") {
		wait, _ := items[8].(int64)
		delay = milliseconds(wait)
	}
	return delay, nil
}

// has reports whether the limit has a flag.
func (s *LimitState) has(flag string) bool { return slices.Contains(s.Flags, flag) }

// inOrder returns the values of a map in the order of keys, without those that are absent at the end. An array is returned
// unchanged.
func inOrder(reply any, keys []string) []any {
	m, ok := reply.(map[any]any)
	if !ok {
		items, _ := reply.([]any)
		return items
	}
	items := make([]any, 0, len(keys))
	for _, key := range keys {
		value, ok := m[key]
		if !ok {
			break
		}
		items = append(items, value)
	}
	return items
}

// texts returns the texts of an array or set.
func texts(reply any) (all []string) {
	items, _ := reply.([]any)
	for _, item := range items {
		if text, ok := item.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// windowUnits holds the units of windows in replies, from the longest one. Months and years have no fixed length.
var windowUnits = []struct {
	name   string
	length time.Duration
}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// windowName returns the name of a period as the server writes it, such as "15m".
func windowName(period time.Duration) string {
	for _, unit := range windowUnits {
		if period%unit.length == 0 {
			return strconv.FormatInt(int64(period/unit.length), 10) + unit.name
		}
	}
	return period.String()
}

// parseWindow returns the length of a window such as "15m", or 0 if it has no fixed length.
func parseWindow(window string) time.Duration {
	number := strings.TrimRight(window, "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.ParseInt(number, 10, 64)
	for _, unit := range windowUnits {
		if window[len(number):] == unit.name && err == nil && n > 0 && n <= math.MaxInt64/int64(unit.length) {
			return time.Duration(n) * unit.length
		}
	}
	return 0
}
