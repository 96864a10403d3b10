package decision

import (
	"math"
	"strings"
	"time"
)

// Request is one CL.CHECK.
type Request struct {
	Domain string
	Pairs  []string // names and values of the attributes, alternating
	Cost   int64    // units of the request; negative refunds. Ignored if Peek is set
	Peek   bool     // read the state without a charge
	DryRun bool     // decide, and charge nothing
}

// Report is one CL.REPORT.
type Report struct {
	Domain  string
	Outcome string // such as "status=401"
	Pairs   []string
	Cost    int64
}

// Decision is the state of one limit after a request.
type Decision struct {
	Limited    bool
	Limit      int64         // units that the limit admits in one burst; Unlimited if there is no limit
	Remaining  int64         // units that remain; Unlimited if there is no limit
	RetryAfter time.Duration // whole milliseconds after which a refused request can succeed; negative if no wait helps, or if the request was admitted
	ResetAfter time.Duration // whole milliseconds until all units are restored
}

// Unlimited is the value of Limit and Remaining if no limit applies.
const Unlimited = math.MaxInt64

// Result is the reply to a request. The fields other than Err are valid only if Err is nil. The embedded Decision is
// that of the deciding limit.
type Result struct {
	Decision
	Name    string  // of the deciding limit; "" for the default of the domain, or if no limit applies
	Flags   Flags   // of a limiter command, those of a decision by the option upstream-away
	Limits  []Limit // amounts of all limits that apply, shadow limits last
	Version uint64  // version of the rules
	Err     error   // an *Error if the reply is an error
}

// The words for a decision, as in the header X-RateLimit-Decision.
const (
	Allow            = "allow"
	Deny             = "deny"
	AllowedByFailure = "fail-open"
	DeniedByFailure  = "fail-closed"
	DeniedByShadow   = "shadow-deny"
)

// Word returns the decision in a word. A refusal is never AllowedByFailure, although on_failure may have admitted the
// request for another of its limits.
func (r *Result) Word() string {
	switch {
	case r.Limited && r.Flags.Has(FailClosed):
		return DeniedByFailure
	case r.Limited:
		return Deny
	case r.Flags.Has(FailOpen):
		return AllowedByFailure
	case r.Flags.Has(Shadow):
		return DeniedByShadow
	}
	return Allow
}

// Limit is one amount of a limit that applies to a request.
type Limit struct {
	Decision
	Name   string        // "" for the default of the domain
	Window string        // name of the period, such as "15m", or "unlimited" or "none"
	Period time.Duration // length of Window; 0 if it has none
	Flags  Flags
	Wait   time.Duration // whole milliseconds for which the caller must delay an admitted request; only of leaky buckets
}

// Flags is a set of the flags of CL.CHECK.
type Flags uint16

// The flags of CL.CHECK, as docs/commands.md describes them.
const (
	Soft Flags = 1 << iota
	Warn
	Banned
	Shadow
	Reported
	Default
	Unmatched
	Unlimit // the amount is unlimited
	ShadowError
	FailOpen
	FailClosed
	Local
	Uncharged
)

// flagNames holds the names of the flags in replies, in the order of their bits.
var flagNames = [...]string{"soft", "warn", "banned", "shadow", "report", "default", "unmatched", "unlimited", "error", "failopen", "failclosed", "local", "uncharged"}

// Has reports whether the set contains a flag.
func (f Flags) Has(flag Flags) bool { return f&flag != 0 }

// AppendNames appends the names of the flags to names.
func (f Flags) AppendNames(names []string) []string {
	for i, name := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// flagOf returns the flag with a name, or 0: later versions of the leader may have others.
func flagOf(name []byte) Flags {
	for i := range flagNames {
		if string(name) == flagNames[i] {
			return 1 << i
		}
	}
	return 0
}

// Error is an error reply.
type Error struct {
	Code    string // such as "ERR" or "LOADING"
	Message string // without the code
}

func (e *Error) Error() string { return e.Code + " " + e.Message }

// Denied reports whether the user may not run the command.
func (e *Error) Denied() bool { return e.Code == "NOPERM" }

// Unauthenticated reports whether the user was deleted or disabled after the login.
func (e *Error) Unauthenticated() bool { return e.Code == "NOAUTH" }

// Unavailable reports whether the command was valid and could not be decided, for example because there is no leader, or
// no memory for new keys.
func (e *Error) Unavailable() bool {
	return e.Code != "ERR" && e.Code != "WRONGTYPE" && !e.Denied() && !e.Unauthenticated()
}

// Uncertain reports whether the command may have been run.
func (e *Error) Uncertain() bool { return e.Code == "UNCERTAIN" }

func newError(line []byte) *Error {
	code, message, _ := strings.Cut(string(line), " ")
	return &Error{code, message}
}
