// Package ruletest runs the cases of test files of rules.
package ruletest

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/throttledhq/throttled/rules"
)

// Server decides the requests of a case. Its time changes only when the case sets it.
type Server interface {
	// Begin removes all units that are used, and sets the time.
	Begin(start time.Time) error
	// Advance sets the time. It is not before the last one.
	Advance(now time.Time) error
	// Check decides a request.
	Check(domain string, step *rules.TestStep) (Decision, error)
	// Report charges the outcome of a request. The decision is refused if not all of its units fit.
	Report(domain string, step *rules.TestStep) (Decision, error)
}

// Decision is the decision on a request, or the result of a report.
type Decision struct {
	Limited    bool
	Limit      int64
	Remaining  int64
	RetryAfter time.Duration // -1 if the request is admitted, or no wait helps
	ResetAfter time.Duration
	By         string   // name of the limit that decides
	Flags      []string // in any order
	Limits     []string // names of the limits that apply, without repetitions
}

// Run runs the cases of a test file with the given name, and prints the result of each case that fails, and of the file.
// domain is the domain of requests without one. Run reports whether no case failed. The error is that of the output.
func Run(name, domain string, tests *rules.Tests, server Server, out io.Writer) (passed bool, err error) {
	var b strings.Builder
	failed := 0
	for i := range tests.Cases {
		c := &tests.Cases[i]
		r := runner{file: name, domain: domain, server: server, now: tests.Start}
		r.run(c)
		if len(r.failures) > 0 {
			failed++
			fmt.Fprintf(&b, "--- FAIL: %s (%s:%d)\n    %s\n", c.Name, name, c.Line, strings.Join(r.failures, "\n    "))
		}
	}
	if failed > 0 {
		fmt.Fprintf(&b, "FAIL\t%s\t%d of %s\n", name, failed, count(len(tests.Cases)))
	} else {
		fmt.Fprintf(&b, "ok\t%s\t%s\n", name, count(len(tests.Cases)))
	}
	_, err = io.WriteString(out, b.String())
	return failed == 0, err
}

// count returns a number of cases with the noun.
func count(n int) string {
	if n == 1 {
		return "1 case"
	}
	return fmt.Sprintf("%d cases", n)
}

// runner runs one case.
type runner struct {
	file, domain string
	server       Server
	now          time.Time
	failures     []string
}

// fail adds a failure of a step.
func (r *runner) fail(s *rules.TestStep, format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf("%s:%d: ", filepath.Base(r.file), s.Line)+fmt.Sprintf(format, args...))
}

// run runs the steps of a case. It ends at the first step that cannot be run.
func (r *runner) run(c *rules.TestCase) {
	if err := r.server.Begin(r.now); err != nil {
		r.fail(&c.Steps[0], "%v", err)
		return
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		if err := r.step(s); err != nil {
			r.fail(s, "%v", err)
			return
		}
	}
}

// step runs one step. The error states why it could not be run.
func (r *runner) step(s *rules.TestStep) error {
	if err := r.advance(s); err != nil {
		return err
	}
	domain := r.domain
	if s.Domain != "" {
		domain = s.Domain
	}
	switch {
	case s.Report != nil:
		return r.decide(s, "report "+describe(s.Report), func() (Decision, error) { return r.server.Report(domain, s) })
	case s.Check != nil:
		return r.decide(s, "check "+describe(s.Check), func() (Decision, error) { return r.server.Check(domain, s) })
	}
	return nil
}

// decide sends the requests of a step, up to the first one whose decision is not the expected one. name is that of the
// request in errors.
func (r *runner) decide(s *rules.TestStep, name string, send func() (Decision, error)) error {
	for n := 1; n <= s.Times; n++ {
		d, err := send()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if wrong := differences(s.Expect, &d); wrong != "" {
			r.fail(s, "%s%s: %s", name, position(n, s.Times), wrong)
			return nil
		}
	}
	return nil
}

// advance sets the time of a step.
func (r *runner) advance(s *rules.TestStep) error {
	next := r.now.Add(s.Wait)
	if !s.At.IsZero() {
		next = s.At
	}
	if next.Before(r.now) {
		return fmt.Errorf("the time %s is before that of the step before, %s", next.Format(time.RFC3339Nano), r.now.Format(time.RFC3339Nano))
	}
	r.now = next
	return r.server.Advance(next)
}

// position returns the position of a request in its step, if there are several.
func position(n, times int) string {
	if times == 1 {
		return ""
	}
	return fmt.Sprintf(" (request %d of %d)", n, times)
}

// describe returns attributes as name=value, in the order of their names.
func describe(request rules.Attributes) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(request)) {
		words = append(words, name+"="+request[name])
	}
	return strings.Join(words, " ")
}

// differences describes all differences between an expectation, which may be nil, and a decision.
func differences(e *rules.TestExpectation, d *Decision) string {
	if e == nil {
		return ""
	}
	var list []string
	add := func(name, got, want string) { list = append(list, fmt.Sprintf("%s is %s, want %s", name, got, want)) }
	if got := decisionName(d); e.Decision != "" && got != e.Decision {
		add("decision", got, e.Decision)
	}
	if e.By != nil && *e.By != d.By {
		add("by", fmt.Sprintf("%q", d.By), fmt.Sprintf("%q", *e.By))
	}
	compare(add, "limit", &d.Limit, e.Limit)
	compare(add, "remaining", &d.Remaining, e.Remaining)
	compare(add, "retry_after", wait(&d.RetryAfter), wait(e.RetryAfter))
	compare(add, "reset_after", wait(&d.ResetAfter), wait(e.ResetAfter))
	compareLists(add, "flags", slices.Sorted(slices.Values(d.Flags)), e.Flags, slices.Sorted(slices.Values(e.Flags)))
	compareLists(add, "limits", d.Limits, e.Limits, e.Limits)
	return strings.Join(list, "; ")
}

// decisionName returns the word for a decision in a test file.
func decisionName(d *Decision) string {
	if d.Limited {
		return "refused"
	}
	return "admitted"
}

// compare adds a difference between two values. want is nil if no value is expected.
func compare[T comparable](add func(name, got, want string), name string, got, want *T) {
	if want != nil && *got != *want {
		add(name, fmt.Sprint(*got), fmt.Sprint(*want))
	}
}

// compareLists adds a difference between two lists. expected is nil if no list is expected.
func compareLists(add func(name, got, want string), name string, got, expected, want []string) {
	if expected != nil && !slices.Equal(got, want) {
		add(name, fmt.Sprint(got), fmt.Sprint(want))
	}
}

// wait returns a length of time as in a test file, rounded up to milliseconds, the unit of replies. It returns nil for
// nil.
func wait(d *time.Duration) *string {
	if d == nil {
		return nil
	}
	text := "none"
	if *d >= 0 {
		text = (*d + time.Millisecond - 1).Truncate(time.Millisecond).String()
	}
	return &text
}
