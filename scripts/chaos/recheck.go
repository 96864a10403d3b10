package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/throttledhq/throttled/scripts/chaos/check"
	"github.com/throttledhq/throttled/scripts/chaos/history"
)

// checkFiles judges histories that were kept: what can be said of each key without the cluster.
func checkFiles(paths []string, w io.Writer) error {
	bad := false
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		ops, err := history.Read(f)
		_ = f.Close() // it was only read
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		findings, _ := judgeKeys(history.ByKey(ops), check.Clock{Behind: history.Never})
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

// keysJudged says how much judgeKeys had to judge.
type keysJudged struct {
	keys, searched, undecided int
	closest                   float64 // units beyond a limit, of the key that came closest to it
}

// judgeKeys runs the checkers that look at one key at a time.
func judgeKeys(groups map[*history.Key][]history.Op, clock check.Clock) (findings []finding, j keysJudged) {
	j.keys, j.closest = len(groups), -1e18
	byName := func(a, b *history.Key) int { return strings.Compare(a.Name, b.Name) }
	for _, k := range slices.SortedFunc(maps.Keys(groups), byName) {
		ops := groups[k]
		if history.OnlyCharges(ops) {
			s := check.Interval(k, ops, clock.Slack)
			j.closest = max(j.closest, s.Over)
			if s.Violated {
				findings = append(findings, finding{"interval", fmt.Sprintf("%s: %s", describe(k), s)})
			}
			if stale := check.Replies(k, ops, clock.Slack); len(stale) > 0 {
				findings = append(findings, finding{"stale", fmt.Sprintf("%s: %d replies, the first: %s", describe(k), len(stale), stale[0])})
			}
		}
		if !searchable(k) {
			continue
		}
		j.searched++
		switch v, n := check.Linear(k, ops, clock, searchWithin); v {
		case check.Illegal:
			findings = append(findings, finding{"linear", fmt.Sprintf("%s: no order explains the %d replies", describe(k), n)})
		case check.Undecided:
			j.undecided++
			findings = append(findings, finding{"linear", fmt.Sprintf("%s: undecided after %d of %d requests", describe(k), n, len(ops))})
		}
	}
	return findings, j
}

func describe(k *history.Key) string {
	return fmt.Sprintf("%s (%d at once, %d in %s)", k.Name, k.Limit(), k.Count, k.Period)
}
