package middleware

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Request is a request that the limiter admits or refuses. The zero Request is exempt: it is admitted without a call of
// the server.
type Request struct {
	// Domain selects the rules of the server that apply to the Attributes. If it is empty, Limits apply instead.
	Domain string
	// Attributes are the attributes for the rules. Those with an empty value are absent.
	Attributes []Attribute
	// Limits are charged all, or none if one of them refuses the request. With a Domain, they are used by the policy Local
	// only. Each limit needs a key of its own.
	Limits []Limit
	// Cost is the number of units that the request charges. 0 means 1. A negative Cost refunds units.
	// A refund that Config.OnFailure has decided may have been run, and must not be repeated then: see Decision.Err.
	Cost int64
}

// Attribute is a property of a request, such as its path, that the rules of the server use.
type Attribute struct {
	Name, Value string
}

// Algorithm is the algorithm of a Limit.
type Algorithm int

// Algorithms. GCRA restores units one by one. The others count the requests in a window that slides (an estimate), in one
// that begins at multiples of the period, and exactly, with a log of all requests.
const (
	GCRA Algorithm = iota
	Sliding
	Fixed
	Log
)

// modes holds the names of windows in the protocol, by their Algorithm.
var modes = [...]string{Sliding: "SLIDING", Fixed: "FIXED", Log: "LOG"}

// Limit is a limit that the program defines, such as 60 requests per minute.
type Limit struct {
	// Name identifies the limit in headers and keys. The default is "default".
	Name string
	// Key identifies the counter on the server. PerIP and its methods set it; limits with equal keys share a counter.
	Key string
	// Count is the number of units per Period, which is at least a millisecond.
	Count  int64
	Period time.Duration
	// Burst is the number of units that can be charged at once, for the Algorithm GCRA. 0 means Count.
	Burst     int64
	Algorithm Algorithm
}

// PerSecond returns the limit of count requests per second. It admits count requests at once, and restores them evenly.
func PerSecond(count int64) Limit { return Limit{Count: count, Period: time.Second} }

// PerMinute returns the limit of count requests per minute.
func PerMinute(count int64) Limit { return Limit{Count: count, Period: time.Minute} }

// PerHour returns the limit of count requests per hour.
func PerHour(count int64) Limit { return Limit{Count: count, Period: time.Hour} }

// ErrInvalidLimit is the error for a Limit that cannot be sent to the server.
var ErrInvalidLimit = errors.New("invalid limit")

// name returns the name of the limit.
func (l *Limit) name() string {
	if l.Name == "" {
		return "default"
	}
	return l.Name
}

// describe sets the name and the period of a state of the limit.
func (l *Limit) describe(s *LimitState) {
	s.Name, s.Window, s.Period = l.name(), windowName(l.Period), l.Period
}

// burst returns the number of units that can be charged at once.
func (l *Limit) burst() int64 {
	if l.Algorithm != GCRA || l.Burst == 0 {
		return l.Count
	}
	return l.Burst
}

// interval returns the time in which GCRA restores one unit, and 0 for windows.
func (l *Limit) interval() time.Duration {
	if l.Algorithm != GCRA {
		return 0
	}
	return l.Period / time.Duration(max(l.Count, 1))
}

// check returns an error if the limit is invalid.
func (l *Limit) check() error {
	switch {
	case l.Key == "":
		return fmt.Errorf("%w %q: Key is empty", ErrInvalidLimit, l.name())
	case l.Count < 1 || l.Burst < 0:
		return fmt.Errorf("%w %q: Count must be at least 1, and Burst at least 0", ErrInvalidLimit, l.name())
	case l.Period < time.Millisecond || l.Period%time.Millisecond != 0:
		return fmt.Errorf("%w %q: Period must be a positive number of milliseconds", ErrInvalidLimit, l.name())
	case l.Algorithm < GCRA || l.Algorithm > Log:
		return fmt.Errorf("%w %q: Algorithm must be GCRA, Sliding, Fixed or Log", ErrInvalidLimit, l.name())
	}
	return nil
}

// words appends the words of the limit as a SPEC of CL.ALL. The mode of a window is the last word.
func (l *Limit) words(args []any) []any {
	period := strconv.FormatInt(l.Period.Milliseconds(), 10) + "ms"
	if l.Algorithm == GCRA {
		return append(args, "THROTTLE", l.Key, l.burst()-1, l.Count, period)
	}
	return append(args, "WINDOW", l.Key, l.Count, period, modes[l.Algorithm])
}

// isExempt reports whether no limit can apply to the request.
func (r *Request) isExempt() bool { return r.Domain == "" && len(r.Limits) == 0 }

// cost returns the number of units of the request.
func (r *Request) cost() int64 {
	if r.Cost == 0 {
		return 1
	}
	return r.Cost
}

// args returns the command for the request.
func (r *Request) args() ([]any, error) {
	if r.Domain != "" {
		return r.checkArgs(), nil
	}
	for i := range r.Limits {
		if err := r.Limits[i].check(); err != nil {
			return nil, err
		}
	}
	args := append(make([]any, 0, 3+5*len(r.Limits)), "CL.ALL", r.cost())
	for i := range r.Limits {
		args = r.Limits[i].words(args)
	}
	return append(args, "MS"), nil
}

// checkArgs returns the command CL.CHECK for the request.
func (r *Request) checkArgs() []any {
	args := append(make([]any, 0, 6+2*len(r.Attributes)), "CL.CHECK", r.Domain, "COST", r.cost(), "MS", "--")
	return r.appendAttributes(args)
}

// reportArgs returns the command CL.REPORT that charges the request by its status.
func (r *Request) reportArgs(status int) []any {
	args := append(make([]any, 0, 7+2*len(r.Attributes)),
		"CL.REPORT", r.Domain, "OUTCOME", "status="+strconv.Itoa(status), "COST", r.cost(), "--")
	return r.appendAttributes(args)
}

func (r *Request) appendAttributes(args []any) []any {
	for _, a := range r.Attributes {
		args = append(args, a.Name, a.Value)
	}
	return args
}

// queueKey returns a text that is equal for requests that wait for each other.
func (r *Request) queueKey() string {
	var b strings.Builder
	if r.Domain == "" {
		for i := range r.Limits {
			fmt.Fprintf(&b, "%q", r.Limits[i].Key)
		}
		return b.String()
	}
	fmt.Fprintf(&b, "domain %q", r.Domain)
	for _, a := range r.Attributes {
		fmt.Fprintf(&b, "%q%q", a.Name, a.Value)
	}
	return b.String()
}

// spacing returns the least time between the admission of another request with the same limits and that of this one,
// if both have to wait. It is 0 if the limits are unknown.
func (r *Request) spacing() (spacing time.Duration) {
	if r.Domain != "" {
		return 0
	}
	for i := range r.Limits {
		spacing = max(spacing, r.Limits[i].interval()*time.Duration(max(r.cost(), 0)))
	}
	return spacing
}
