package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/throttledhq/throttled/scripts/chaos/check"
	"github.com/throttledhq/throttled/scripts/chaos/history"
)

// healWithin is how long a cluster may take to agree once all faults are over.
const healWithin = 10 * time.Second

// searchWithin is how long Linear may take for a key.
const searchWithin = 10 * time.Second

// judge ends the load and holds all that was seen against the promises.
func (t *trial) judge(ctx context.Context) (findings []finding) {
	add := func(checker string, format string, args ...any) {
		findings = append(findings, finding{checker, fmt.Sprintf(format, args...)})
	}
	if err := t.healthy(ctx, healWithin); err != nil {
		add("agreement", "%s after the last fault: %v", healWithin, err)
	}
	ops := t.load.end()
	if err := t.agree(ctx); err != nil {
		add("agreement", "%v", err)
	}
	t.watch.end()
	stalled := t.stalls.end()
	for _, err := range t.watch.twice {
		add("terms", "%v", err)
	}
	tally := t.load.tally()
	for _, text := range tally.errs {
		add("replies", "%s", text)
	}
	groups := history.ByKey(ops)
	ofKeys, judged := judgeKeys(groups, t.straying())
	findings = append(findings, ofKeys...)
	findings = append(findings, t.judgeState(ctx, groups, tally)...)
	findings = append(findings, t.judgeProcesses()...)
	if err := t.pressure(tally).Check(); err != nil {
		add("pressure", "%v", err)
	}
	t.summary(tally, judged, ops)
	t.lab.out.note("longest wait of this program for the machine", "%.0f ms", ms(stalled))
	t.lab.out.found(findings)
	if len(findings) > 0 {
		t.keepHistory(ops)
	}
	return findings
}

// straying says how the clock of the cluster may differ from that of the clients.
func (t *trial) straying() check.Clock {
	if t.behind {
		return check.Clock{Behind: history.Never}
	}
	return check.Clock{}
}

// judgeState compares what is in use in the end with what was charged.
func (t *trial) judgeState(ctx context.Context, groups map[*history.Key][]history.Op, tally tally) (findings []finding) {
	total := check.Account{}
	for _, k := range t.load.keys.ledger {
		left, err := t.remaining(ctx, k.Name, k.MaxBurst)
		if err != nil {
			return append(findings, finding{"ledger", err.Error()})
		}
		a := check.Ledger(k, groups[k], left)
		total.Acknowledged += a.Acknowledged
		total.Open += a.Open
		total.Used += a.Used
		if a.Lost() > 0 || a.Extra() > 0 {
			findings = append(findings, finding{"ledger", fmt.Sprintf("%s: %s", k.Name, a)})
		}
	}
	t.lab.out.note("ledger", "%s", total)
	return append(findings, t.judgePairs(ctx, tally)...)
}

// judgePairs compares keys that have always been charged together.
func (t *trial) judgePairs(ctx context.Context, tally tally) (findings []finding) {
	const burst = 49_999
	for i, pair := range t.load.keys.pairs {
		var used [2]int64
		for j, name := range pair {
			left, err := t.remaining(ctx, name, burst)
			if err != nil {
				return append(findings, finding{"pairs", err.Error()})
			}
			used[j] = burst + 1 - left
		}
		p := tally.pairs[i]
		if used[0] != used[1] || used[0] < p.charged || used[0] > p.charged+p.open {
			findings = append(findings, finding{"pairs", fmt.Sprintf("pair %d: %v in use, of %d charged and %d open", i, used, p.charged, p.open)})
		}
	}
	return findings
}

// remaining asks how much is left of a key to which nothing comes back. Any node may answer.
func (t *trial) remaining(ctx context.Context, name string, burst int64) (left int64, err error) {
	node := 0
	err = await(ctx, healWithin, func() (bool, error) {
		node++
		r, err := askOnce(t.nodes[node%len(t.nodes)].addr(), patience, "CL.THROTTLE", name, itoa(burst), "1", "86400", "0")
		if err != nil || len(r.integers()) != 5 {
			return false, err
		}
		left = r.list[2].n
		return true, nil
	})
	if err != nil {
		err = fmt.Errorf("what is left of %s: %w", name, err)
	}
	return left, err
}

// agree waits until all nodes are in the same state.
func (c *cluster) agree(ctx context.Context) error {
	var broken error
	err := await(ctx, healWithin, func() (bool, error) {
		var prints []check.Fingerprint
		for _, n := range c.nodes {
			f, err := n.fingerprint()
			if err != nil {
				return false, err
			}
			prints = append(prints, f)
		}
		same, err := check.Agreement(prints)
		broken = err
		if !same && err == nil {
			err = fmt.Errorf("still at different places: %+v", prints)
		}
		return same || broken != nil, err
	})
	if broken != nil {
		return broken
	}
	if err != nil {
		return fmt.Errorf("the nodes do not come to the same state: %w", err)
	}
	return nil
}

// judgeProcesses looks for processes that have ended by themselves, and for panics.
func (t *trial) judgeProcesses() (findings []finding) {
	for _, n := range t.nodes {
		if codes := n.crashes(); len(codes) > 0 {
			findings = append(findings, finding{"process", fmt.Sprintf("%s has ended by itself: %v; its last words:\n%s", n.id, codes, n.tail(3))})
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
		Limited: tally.limited, Kills: t.kills, Changes: t.watch.changes(),
	}
}

// summary prints what a trial was about.
func (t *trial) summary(tally tally, judged keysJudged, ops []history.Op) {
	out := t.lab.out
	lasted := float64(t.load.ended-t.load.begun) / 1e9
	gap, at := check.LongestGap(ops, t.load.begun, t.load.ended)
	out.note("requests", "%d decided (%.0f/s), %d of them refused by a limit, %d unknown", tally.decided, float64(tally.decided)/lasted, tally.limited, tally.unknown)
	out.note("errors that charge nothing", "%s; no connection %d", counts(tally.refused), tally.downs)
	out.note("errors that leave it open", "%s", counts(tally.lost))
	out.note("keys", "%d, of which %d were searched, %d undecided; the closest to its limit: %.3f units beyond", judged.keys, judged.searched, judged.undecided, judged.closest)
	out.note("leaders", "%d taken away, %d changes", t.kills, t.watch.changes())
	out.note("longest time without a decision", "%.0f ms, at %.3f s", gap.Seconds()*1e3, float64(at)/1e9)
}

// keepHistory writes down what has been seen, for those who look for the reason.
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
		t.lab.out.print("  the history is lost: %v", err)
	}
}
