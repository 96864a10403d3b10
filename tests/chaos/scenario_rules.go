package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/check"
	"github.com/throttledhq/throttled/tests/chaos/history"
)

const (
	rulesFor     = 40 * time.Second
	rulesBarFor  = 5 * time.Minute
	rulesKill    = 10 * time.Second // interval of the kills
	rulesDown    = 2 * time.Second  // time after which a killed node is started again
	rulesLeast   = 0.5              // smallest share of the changes that must be versions, otherwise the run is not meaningful
	rulesChecked = 500              // smallest number of decisions per second
)

// rulesScenario changes the rules every 100 ms while clients send CL.CHECK to all nodes, and kills the leader every ten seconds.
// Each decision must be explained by exactly one version of the rules, and versions must not decrease.
func rulesScenario(ctx context.Context, l *lab) error {
	lasting := l.last
	switch {
	case lasting > 0:
	case l.bars:
		lasting = rulesBarFor
	default:
		lasting = rulesFor
	}
	return l.withTrial(ctx, plan{args: []string{"--client-query-buffer-limit", "16mb", "--proto-max-bulk-len", "8mb"}}, func(ctx context.Context, t *trial) error {
		load, err := t.driveRules(ctx)
		defer load.end()
		if err != nil {
			return err
		}
		begin := t.clock.now()
		for end := time.Now().Add(lasting); time.Now().Before(end) && err == nil && ctx.Err() == nil; {
			err = t.killWhileEdited(ctx, load, time.Until(end))
		}
		if ctx.Err() != nil {
			return err
		}
		return t.judgeRules(ctx, load, time.Duration(t.clock.now()-begin), err)
	})
}

// killWhileEdited kills the leader immediately after a change to a heavy set, and restarts it. The next leader may decide
// only after it has compiled this set. killWhileEdited takes rulesKill, or until the node has caught up, or half of left
// before the kill, whichever is longer.
func (t *trial) killWhileEdited(ctx context.Context, load *rulesLoad, left time.Duration) error {
	next := time.Now().Add(rulesKill)
	sleep(ctx, min(rulesKill, left)/2)
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	if err := load.setHeavy(t, leader, func() error {
		t.countKill()
		t.note("kill -9 %s, the leader", leader.id)
		return leader.kill()
	}); err != nil {
		return err
	}
	sleep(ctx, rulesDown)
	t.note("start %s", leader.id)
	if err := leader.start(); err != nil {
		return err
	}
	if err := t.settled(ctx, leader); err != nil {
		return err
	}
	if err := load.list(ctx, t); err != nil {
		return fmt.Errorf("list the versions: %w", err)
	}
	sleep(ctx, min(time.Until(next), left))
	return nil
}

// judgeRules ends the load of the rules and checks its history. It returns err, the error that ended the faults, joined
// with its own.
func (t *trial) judgeRules(ctx context.Context, load *rulesLoad, lasted time.Duration, err error) error {
	h, ops := load.end()
	if listing := load.list(ctx, t); listing != nil {
		t.lab.out.found([]finding{{"healing", fmt.Sprintf("list the versions: %v", listing)}})
		return err
	}
	h.Listed = load.listed
	var findings []finding
	for _, f := range check.Versions(h) {
		findings = append(findings, finding{"versions", f.String()})
	}
	findings = append(findings, judgeRuleKeys(load, ops)...)
	findings = append(findings, load.complaints()...)
	t.rulesSummary(load, h, lasted)
	t.lab.out.found(findings)
	if len(findings) > 0 {
		t.keepRules(h)
	}
	return err
}

// judgeRuleKeys checks the charges of the limits of the rules.
func judgeRuleKeys(load *rulesLoad, ops []history.Op) (findings []finding) {
	groups := history.ByKey(ops)
	for _, k := range load.left {
		if err := check.Units(k, groups[k]); err != nil {
			findings = append(findings, finding{"witness", fmt.Sprintf("%s: %s", k.Name, err)})
		}
		delete(groups, k)
	}
	ofKeys, _ := judgeKeys(groups, check.Clock{Behind: history.Never}, lasted(ops))
	return append(findings, ofKeys...)
}

// complaints returns the invalid replies.
func (l *rulesLoad) complaints() (findings []finding) {
	for _, c := range l.clients {
		for _, text := range c.errs {
			findings = append(findings, finding{"replies", text})
		}
	}
	for _, e := range l.editors {
		for _, text := range e.errs {
			findings = append(findings, finding{"replies", text})
		}
	}
	return findings
}

// rulesSummary prints the figures of the load of the rules.
func (t *trial) rulesSummary(load *rulesLoad, h *history.Rules, lasted time.Duration) {
	out, sums := t.lab.out, [3]int{}
	var took []time.Duration
	for _, c := range h.Changes {
		sums[c.Outcome]++
		if c.Outcome == history.Granted {
			took = append(took, time.Duration(c.Return-c.Call))
		}
	}
	used := map[uint64]bool{}
	decided := 0
	for i := range h.Decisions {
		used[h.Decisions[i].Version] = true
	}
	numbers := map[uint64]bool{}
	for _, v := range h.Listed {
		numbers[v.Number] = true
	}
	refused, lost := map[string]int{}, map[string]int{}
	for _, c := range load.clients {
		decided += c.decided
		addCounts(refused, c.refused)
		addCounts(lost, c.lost)
	}
	editRefused, editLost := map[string]int{}, map[string]int{}
	for _, e := range load.editors {
		addCounts(editRefused, e.refused)
		addCounts(editLost, e.lost)
	}
	out.note("changes of the rules", "%d acknowledged, %d refused, %d with an unknown outcome; %d versions, of which %d decided requests",
		sums[history.Granted], sums[history.Limited], sums[history.Unknown], len(numbers), len(used))
	out.note("refused changes", "%s; unknown: %s", counts(editRefused), counts(editLost))
	load.showTook(t.lab, took)
	out.note("requests of CL.CHECK", "%d decided (%.0f/s)", decided, float64(decided)/lasted.Seconds())
	out.note("errors that charged nothing", "%s", counts(refused))
	out.note("errors with an unknown outcome", "%s", counts(lost))
	out.atLeast("versions, share of one per 100 ms", float64(len(numbers))/(lasted.Seconds()/rulesEvery.Seconds()), rulesLeast, "")
	out.atLeast("decisions of CL.CHECK", float64(decided)/lasted.Seconds(), rulesChecked, "/s")
}

func (l *rulesLoad) showTook(lab *lab, took []time.Duration) {
	if len(took) > 0 {
		lab.showTimes("time of a change", took)
	}
}

func addCounts(to, from map[string]int) {
	for _, word := range slices.Sorted(maps.Keys(from)) {
		to[word] += from[word]
	}
}

// keepRules saves the history of the rules for later analysis.
func (t *trial) keepRules(h *history.Rules) {
	text, err := json.Marshal(h)
	if err == nil {
		err = os.WriteFile(filepath.Join(t.dir, "rules-history"), text, 0o600)
	}
	if err != nil {
		t.lab.out.print("  the history of the rules cannot be saved: %v", err)
	}
}
