package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/check"
	"github.com/throttledhq/throttled/tests/chaos/history"
)

// checkFiles checks saved histories. It runs only the checks of single keys, which do not
// need the cluster.
func checkFiles(paths []string, w io.Writer) error {
	bad := false
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		ops, err := history.Read(f)
		_ = f.Close() // opened for reading only
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		findings, _ := judgeKeys(history.ByKey(ops), check.Clock{Behind: history.Never}, lasted(ops))
		for _, found := range findings {
			bad = true
			if _, err := fmt.Fprintf(w, "%s: %s\n", path, found); err != nil {
				return err
			}
		}
	}
	if bad {
		return errFailed
	}
	return nil
}

// lasted returns the duration of a history. checkFiles passes it to judgeKeys as the silence, which
// disables the starvation check: a saved history does not contain enough data for that check.
func lasted(ops []history.Op) time.Duration {
	var end int64
	for i := range ops {
		end = max(end, ops[i].Call)
	}
	return time.Duration(end)
}

// keysJudged describes the keys and decisions that judgeKeys has checked.
type keysJudged struct {
	keys, searched, undecided int
	windows, full             int     // keys of the form Window, and those of them that were exhausted
	busy                      int     // keys under continuous demand
	poorest                   float64 // smallest share of the possible units that a busy key has granted
	decided                   int     // decisions that at least one checker has covered
	closest                   float64 // largest excess over a limit, in units; negative if no limit was reached
}

// judgeKeys runs the checkers of single keys. The silence argument is the total time in which no
// request was decided.
func judgeKeys(groups map[*history.Key][]history.Op, clock check.Clock, silence time.Duration) (findings []finding, j keysJudged) {
	j.keys, j.closest, j.poorest = len(groups), -1e18, 1
	add := func(k *history.Key, checker, format string, args ...any) {
		findings = append(findings, finding{checker, describe(k) + ": " + fmt.Sprintf(format, args...)})
	}
	byName := func(a, b *history.Key) int { return strings.Compare(a.Name, b.Name) }
	for _, k := range slices.SortedFunc(maps.Keys(groups), byName) {
		ops := groups[k]
		only := history.OnlyCharges(ops)
		if only {
			j.judgeCharges(k, ops, clock.Slack, add)
		}
		if only && k.Form == history.Rate {
			j.judgeGrants(k, ops, silence, add)
		}
		if searchable(k) {
			j.search(k, ops, clock, add)
		}
		if only || searchable(k) {
			j.decided += decidedOf(ops)
		}
	}
	return findings, j
}

// note reports a violation on a key.
type note func(k *history.Key, checker, format string, args ...any)

// judgeCharges checks a key without refunds and deletions.
func (j *keysJudged) judgeCharges(k *history.Key, ops []history.Op, slack check.Slack, add note) {
	if k.Form == history.Window {
		s := check.Window(k, ops, slack)
		if j.windows++; s.Over >= 0 {
			j.full++
		}
		if s.Violated {
			add(k, "interval", "%s", s)
		}
		return
	}
	s := check.Interval(k, ops, slack)
	j.closest = max(j.closest, s.Over)
	if s.Violated {
		add(k, "interval", "%s", s)
	}
	if k.Form != history.Rate {
		return
	}
	if stale := check.Replies(k, ops, slack); len(stale) > 0 {
		add(k, "stale", "%d replies, the first one: %s", len(stale), stale[0])
	}
}

// judgeGrants checks that a key has granted the units that are due under continuous demand.
func (j *keysJudged) judgeGrants(k *history.Key, ops []history.Op, silence time.Duration, add note) {
	s := check.Grants(k, ops, silence)
	if s.Due == 0 {
		return
	}
	j.busy++
	j.poorest = min(j.poorest, float64(s.Granted)/float64(2*s.Due))
	if s.Starved() {
		add(k, "starved", "%d units granted; at least %d are due", s.Granted, s.Due)
	}
}

// search searches for an order of all requests on a key in which each reply is correct.
func (j *keysJudged) search(k *history.Key, ops []history.Op, clock check.Clock, add note) {
	j.searched++
	switch v, n := check.Linear(k, ops, clock, searchWithin); v {
	case check.Illegal:
		add(k, "linear", "no order explains the %d replies", n)
	case check.Undecided:
		j.undecided++
		add(k, "undecided", "the search timed out after %d of %d requests", n, len(ops))
	}
}

func decidedOf(ops []history.Op) (n int) {
	for i := range ops {
		if ops[i].Outcome != history.Unknown {
			n++
		}
	}
	return n
}

func describe(k *history.Key) string {
	return fmt.Sprintf("%s (bursts of %d, %d per %s)", k.Name, k.Limit(), k.Count, k.Period)
}
