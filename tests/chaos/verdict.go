package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/check"
	"github.com/throttledhq/throttled/tests/chaos/history"
)

// healWithin is the timeout for a cluster to recover after all faults have been repaired.
const healWithin = 10 * time.Second

// searchWithin is the timeout of Linear for a key.
const searchWithin = 10 * time.Second

// judge ends the load and checks the history against all guarantees.
func (t *trial) judge(ctx context.Context) (findings []finding) {
	add := func(checker string, err error) {
		if err != nil {
			findings = append(findings, finding{checker, err.Error()})
		}
	}
	if err := t.healthy(ctx, healWithin); err != nil {
		add("healing", fmt.Errorf("%s after the last fault: %w", healWithin, err))
	}
	now := t.awaitInstant(ctx)
	ops := t.load.end()
	differ, err := t.agree(ctx)
	add("agreement", differ)
	add("healing", err)
	t.watch.end()
	stalled := t.stalls.end()
	for _, err := range t.watch.twice {
		add("terms", err)
	}
	tally := t.load.tally()
	for _, text := range tally.errs {
		findings = append(findings, finding{"replies", text})
	}
	silence := check.Silence(ops, t.load.begun, t.load.ended, noticeable)
	p, known := t.passage(now, silence)
	if known {
		add("clock", p.Check())
	}
	groups := history.ByKey(ops)
	ofKeys, judged := judgeKeys(groups, clockBound(p, known), silence)
	t.judged = judged
	findings = append(findings, ofKeys...)
	findings = append(findings, t.judgeState(ctx, groups, tally)...)
	findings = append(findings, judgeProcesses(t.nodes)...)
	add("pressure", t.pressure(tally).Check())
	t.summary(tally, ops, p)
	t.lab.out.note("longest wait of this program for a processor", "%.0f ms", ms(stalled))
	t.lab.out.found(findings)
	if len(findings) > 0 {
		t.keepHistory(ops)
	}
	return findings
}

// clockBound returns the bound on the error of the cluster's clock. Lost time is never
// recovered, so the total loss at the end is a bound for any earlier time. If the loss is not
// known, any delay is permitted.
func clockBound(p check.Passage, known bool) check.Clock {
	if !known {
		return check.Clock{Behind: history.Never}
	}
	return check.Clock{Behind: int64(max(0, p.Lost()) + time.Second)} // plus the delay of reading the clock
}

// judgeState compares the used units at the end with the charges.
func (t *trial) judgeState(ctx context.Context, groups map[*history.Key][]history.Op, tally tally) (findings []finding) {
	total := check.Account{}
	for _, k := range t.load.keys.ledger {
		left, err := t.remaining(ctx, k.Name)
		if err != nil {
			return append(findings, finding{"healing", err.Error()})
		}
		a := check.Ledger(k, groups[k], left)
		total.Acknowledged += a.Acknowledged
		total.Open += a.Open
		total.Used += a.Used
		if a.Lost() > 0 || a.Extra() > 0 {
			findings = append(findings, finding{"ledger", fmt.Sprintf("%s: %s", k.Name, a)})
		}
		if err := check.Witness(k, groups[k]); err != nil {
			findings = append(findings, finding{"witness", fmt.Sprintf("%s: %s", k.Name, err)})
		}
	}
	t.lab.out.note("ledger", "%s", total)
	return append(findings, t.judgePairs(ctx, tally)...)
}

// judgePairs compares the used units of the two keys of each pair with each other, and with the
// charges of the clients.
func (t *trial) judgePairs(ctx context.Context, tally tally) (findings []finding) {
	for i, pair := range t.load.keys.pairs {
		var used [2]int64
		for j, name := range pair {
			left, err := t.remaining(ctx, name)
			if err != nil {
				return append(findings, finding{"healing", err.Error()})
			}
			used[j] = slowBurst + 1 - left
		}
		p := tally.pairs[i]
		if used[0] != used[1] || used[0] < p.charged || used[0] > p.charged+p.open {
			findings = append(findings, finding{"pairs", fmt.Sprintf("pair %d: %v in use, of %d charged and %d open", i, used, p.charged, p.open)})
		}
	}
	return findings
}

// remaining returns the remaining units of a key that restores nothing. It asks the nodes in turn
// until one of them returns a decision.
func (t *trial) remaining(ctx context.Context, name string) (left int64, err error) {
	node := 0
	err = await(ctx, healWithin, func() (bool, error) {
		node++
		r, err := askOnce(t.nodes[node%len(t.nodes)].addr(), patience, slices.Concat([]string{"CL.THROTTLE", name}, slow(), []string{"0"})...)
		if err != nil || len(r.integers()) != 5 {
			return false, err
		}
		left = r.list[2].n
		return true, nil
	})
	if err != nil {
		err = fmt.Errorf("remaining units of %s: %w", name, err)
	}
	return left, err
}

// agree waits until all nodes have the same state. The result differ is not nil if two nodes
// have different states at the same index, which is a permanent difference. err is not nil if
// the nodes do not reach the same index within healWithin.
func (c *cluster) agree(ctx context.Context) (differ, err error) {
	err = await(ctx, healWithin, func() (bool, error) {
		var prints []check.Fingerprint
		for _, n := range c.nodes {
			f, err := n.fingerprint()
			if err != nil {
				return false, err
			}
			prints = append(prints, f)
		}
		var same bool
		if same, differ = check.Agreement(prints); same || differ != nil {
			return true, nil
		}
		return false, fmt.Errorf("the nodes are at different indexes: %+v", prints)
	})
	if err != nil {
		err = fmt.Errorf("the nodes do not reach the same state: %w", err)
	}
	return differ, err
}

// judgeProcesses reports unexpected exits, panics and data races.
func judgeProcesses(nodes []*node) (findings []finding) {
	for _, n := range nodes {
		if codes := n.crashes(); len(codes) > 0 {
			findings = append(findings, finding{"process", fmt.Sprintf("%s exited unexpectedly, with codes %v; the end of its log:\n%s", n.id, codes, n.tail(3))})
		}
		log, err := os.ReadFile(n.logFile())
		if err != nil {
			findings = append(findings, finding{"process", err.Error()})
		}
		for _, bad := range []string{"panic:", "fatal error:", "DATA RACE"} {
			if i := bytes.Index(log, []byte(bad)); i >= 0 {
				line, _, _ := bytes.Cut(log[i:], []byte("\n"))
				findings = append(findings, finding{"process", fmt.Sprintf("the log of %s has %q", n.id, line)})
			}
		}
	}
	return findings
}

func (t *trial) pressure(tally tally) check.Pressure {
	return check.Pressure{
		Lasted: time.Duration(t.load.ended - t.load.begun), Decided: tally.decided, Least: t.least,
		Limited: tally.limited, Kills: t.kills, Changes: t.watch.changes(), Quiet: t.quiet,
	}
}

// summary prints the figures of a trial.
func (t *trial) summary(tally tally, ops []history.Op, p check.Passage) {
	out, judged := t.lab.out, t.judged
	lasted := float64(t.load.ended-t.load.begun) / 1e9
	gap, at := check.LongestGap(ops, t.load.begun, t.load.ended)
	out.note("requests", "%d decided (%.0f/s), %d of them refused by a limit, %d unknown", tally.decided, float64(tally.decided)/lasted, tally.limited, tally.unknown)
	out.note("errors that charged nothing", "%s; failed dials %d", counts(tally.refused), tally.downs)
	out.note("errors with an unknown outcome", "%s", counts(tally.lost))
	out.note("pipelines", "%d, of which %d were cut off", tally.piped, tally.cutOff)
	out.note("keys", "%d, of which %d were checked for linearizability, %d undecided; largest excess over a limit: %.3f units", judged.keys, judged.searched, judged.undecided, judged.closest)
	out.note("windows", "%d, of which %d were exhausted", judged.windows, judged.full)
	out.note("keys under continuous demand", "%d, each granted at least %.0f %% of its units", judged.busy, 100*judged.poorest)
	out.note("log time", "%.2f s behind after %.0f s; %d terms, %.2f s without decisions", p.Lost().Seconds(), p.Real.Seconds(), p.Terms, p.Silence.Seconds())
	out.note("leaders", "%d made unavailable, %d changes", t.kills, t.watch.changes())
	out.note("longest time without decisions", "%.0f ms, at %.3f s", gap.Seconds()*1e3, float64(at)/1e9)
}

// keepHistory saves the history of a trial for later analysis.
func (t *trial) keepHistory(ops []history.Op) {
	path := filepath.Join(t.dir, "history")
	f, err := os.Create(path)
	if err == nil {
		err = history.Write(f, ops)
		if closed := f.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		t.lab.out.print("  the history cannot be saved: %v", err)
	}
}
