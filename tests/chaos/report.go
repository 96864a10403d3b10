package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// finding is a violation and the checker that found it.
type finding struct{ checker, text string }

func (f finding) String() string { return f.checker + ": " + f.text }

// report prints the progress and the results of a scenario. A result that a measurement must reach is
// called its bar. The methods are safe for concurrent use.
type report struct {
	w       io.Writer
	verbose bool // print each fault

	mu       sync.Mutex
	missed   int // number of missed bars
	findings []finding
}

func (r *report) print(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.w, format+"\n", args...) // write errors are ignored
}

// detail prints a line if the report is verbose.
func (r *report) detail(line string) {
	if r.verbose {
		r.print("  %s", line)
	}
}

// note prints a measured value that has no bar.
func (r *report) note(what, format string, args ...any) {
	r.print("  %-46s %s", what, fmt.Sprintf(format, args...))
}

// atMost prints a measured value and its bar, which the value must not exceed.
func (r *report) atMost(what string, got, bar float64, unit string) {
	r.bar(what, got, "<=", bar, unit, got <= bar)
}

// atLeast prints a measured value and its bar, which the value must reach.
func (r *report) atLeast(what string, got, bar float64, unit string) {
	r.bar(what, got, ">=", bar, unit, got >= bar)
}

func (r *report) bar(what string, got float64, relation string, bar float64, unit string, reached bool) {
	verdict := "ok"
	if !reached {
		verdict = "MISSED"
		r.mu.Lock()
		r.missed++
		r.mu.Unlock()
	}
	r.print("  %-46s %12.2f %s %.2f %-4s %s", what, got, relation, bar, unit, verdict)
}

// found records and prints violations.
func (r *report) found(findings []finding) {
	const shown = 8
	for i, f := range findings {
		if i == shown {
			r.print("  ... and %d more", len(findings)-shown)
			break
		}
		r.print("  VIOLATION  %s", f)
	}
	r.mu.Lock()
	r.findings = append(r.findings, findings...)
	r.mu.Unlock()
}

// failed reports whether a bar was missed or a guarantee violated.
func (r *report) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.missed > 0 || len(r.findings) > 0
}

// counts formats counts by name as one line.
func counts(m map[string]int) string {
	if len(m) == 0 {
		return "none"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(parts, ", ")
}

// safety lists the checkers that find violated guarantees about limits: too much was
// admitted, a charge was lost, states differ, or the time is wrong. The other checkers
// find other kinds of failures.
var safety = map[string]bool{
	"interval": true, "stale": true, "linear": true, "witness": true, "ledger": true, "pairs": true,
	"agreement": true, "terms": true, "clock": true, "versions": true, "spent": true,
}

// divide separates findings about safety from the others.
func divide(findings []finding) (unsafe, others []finding) {
	for _, f := range findings {
		if safety[f.checker] {
			unsafe = append(unsafe, f)
		} else {
			others = append(others, f)
		}
	}
	return unsafe, others
}

// checkersOf returns the sorted names of the checkers with findings, without duplicates.
func checkersOf(findings []finding) string {
	seen := map[string]bool{}
	for _, f := range findings {
		seen[f.checker] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), " ")
}
