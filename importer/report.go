package importer

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Report says what an import found. Keys that SCAN names twice count twice.
type Report struct {
	Scanned  int64 // keys that were looked at
	Imported int64 // keys that were handed over
	Skipped  []Skipped
	Duration time.Duration
}

// Skipped is the keys that were left out for one reason.
type Skipped struct {
	Reason   string
	Keys     int64    // at least 1
	Examples []string // the first of them, at most 5, each cut at 64 bytes
}

const (
	maxExamples     = 5
	maxExampleBytes = 64
)

// tally counts keys by what became of them.
type tally [reasons]struct {
	keys     int64
	examples []string
}

func (t *tally) add(why reason, key string) {
	c := &t[why]
	c.keys++
	if why == taken || len(c.examples) == maxExamples {
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
	r := Report{Scanned: t.scanned(), Imported: t[taken].keys, Duration: d}
	for why, c := range t {
		if reason(why) != taken && c.keys > 0 {
			r.Skipped = append(r.Skipped, Skipped{reasonNames[why], c.keys, c.examples})
		}
	}
	return r
}

// Rate returns the keys that were looked at per second.
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

// quote makes a key, or the beginning of a long one, safe to show on a terminal.
func quote(key string) string { return strconv.Quote(cut(key)) }

func cut(key string) string { return key[:min(len(key), maxExampleBytes)] }
