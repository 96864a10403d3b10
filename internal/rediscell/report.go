package rediscell

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Report is the result of an import. Keys that SCAN returns twice count twice.
type Report struct {
	Scanned  int64 // keys that were read
	Imported int64 // keys that were passed to put
	Skipped  []Skipped
	Duration time.Duration
}

// Skipped holds the keys that were skipped for one reason.
type Skipped struct {
	Reason   string
	Keys     int64    // at least 1
	Examples []string // the first keys, at most 5, each truncated to 64 bytes
}

const (
	maxExamples     = 5
	maxExampleBytes = 64
)

// tally counts keys by reason.
type tally [reasons]struct {
	keys     int64
	examples []string
}

func (t *tally) add(why reason, key string) {
	c := &t[why]
	c.keys++
	if why == imported || len(c.examples) == maxExamples {
		return
	}
	c.examples = append(c.examples, strings.Clone(cut(key)))
}

func (t *tally) scanned() (n int64) {
	for _, c := range t {
		n += c.keys
	}
	return n
}

func (t *tally) report(d time.Duration) Report {
	r := Report{Scanned: t.scanned(), Imported: t[imported].keys, Duration: d}
	for why, c := range t {
		if reason(why) != imported && c.keys > 0 {
			r.Skipped = append(r.Skipped, Skipped{reasonNames[why], c.keys, c.examples})
		}
	}
	return r
}

// Rate returns the number of keys read per second.
func (r Report) Rate() float64 {
	return float64(r.Scanned) / max(r.Duration, time.Microsecond).Seconds()
}

// String returns the report as lines of text. Example keys are quoted.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%10d keys read in %v (%.0f keys/s)\n", r.Scanned, r.Duration.Round(time.Millisecond), r.Rate())
	fmt.Fprintf(&b, "%10d imported\n", r.Imported)
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "%10d skipped: %s: %s\n", s.Keys, s.Reason, s.examples())
	}
	return b.String()
}

func (s Skipped) examples() string {
	quoted := make([]string, len(s.Examples), len(s.Examples)+1)
	for i, key := range s.Examples {
		quoted[i] = quote(key)
	}
	if s.Keys > int64(len(s.Examples)) {
		quoted = append(quoted, "...")
	}
	return strings.Join(quoted, ", ")
}

// quote quotes a key, or the beginning of a long one, so that it is safe to print on a terminal.
func quote(key string) string { return strconv.Quote(cut(key)) }

func cut(key string) string { return key[:min(len(key), maxExampleBytes)] }
