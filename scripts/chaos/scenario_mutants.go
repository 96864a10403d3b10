package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"

	"github.com/throttledhq/throttled/mutant"
)

// hunt says how a deliberate bug is looked for: by what is done to a cluster, again and again, or by
// a test of package cluster where no real one gets into the state that it takes.
type hunt struct {
	bug  mutant.Bug
	turn func(ctx context.Context, t *trial, r *rand.Rand) error
	test string
}

// hunts names every bug. Each turn is what should bring it to light.
func hunts() []hunt {
	return []hunt{
		{bug: mutant.ReplyBeforeCommit, turn: cutAndKill},
		{bug: mutant.NoUndo, turn: cutAndHeal},
		{bug: mutant.LostBatch, turn: onLeader(killed)},
		{bug: mutant.StaleAnswers, turn: askedWhilePaused},
		{bug: mutant.LeapingClock, turn: onLeader(killed)},
		{bug: mutant.WallClock, turn: clocksAndKill},
		{bug: mutant.LocalExpiry, turn: clocksAndKill},
		{bug: mutant.DirtySnapshot, turn: saveWhileCut},
		{bug: mutant.NoBarrier, turn: killAndLead},
		{bug: mutant.ForgottenTime, turn: saveAndKillAll},
		// A node has to lose and regain the lead before it notices either.
		{bug: mutant.AnyTerm, test: "TestVoidEntry"},
	}
}

// The bounds of a hunt.
const (
	huntFor   = 60 * time.Second
	huntTurns = 6 // after which all that was seen is judged
	huntShown = 6 // findings of each, for those who look on
)

// mutants lets each deliberate bug loose, and fails if one is not found.
func mutants(ctx context.Context, l *lab) error {
	var lines []string
	survived := 0
	for _, h := range hunts() {
		if l.only != "" && l.only != string(h.bug) {
			continue
		}
		by, took, err := l.hunt(ctx, h)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", h.bug, err)
		case by == "":
			survived++
			by = "SURVIVED"
		}
		lines = append(lines, fmt.Sprintf("%-24s %-40s %5.1f s", h.bug, by, took.Seconds()))
	}
	l.out.print("\n  %-24s %-40s", "mutant", "found by")
	for _, line := range lines {
		l.out.print("  %s", line)
	}
	l.out.atMost("mutants that were not found", float64(survived), 0, "")
	return nil
}

// hunt looks for a bug until a checker finds something. What it finds is no finding of the run.
func (l *lab) hunt(ctx context.Context, h hunt) (by string, took time.Duration, err error) {
	begin := time.Now()
	if h.test != "" {
		by, err = h.runTest(ctx)
		return by, time.Since(begin), err
	}
	for time.Since(begin) < huntFor && by == "" && err == nil && ctx.Err() == nil {
		by, err = l.huntOnce(ctx, h, begin.Add(huntFor))
	}
	return by, time.Since(begin), err
}

func (l *lab) huntOnce(ctx context.Context, h hunt, end time.Time) (by string, err error) {
	quiet := *l
	quiet.out = &report{w: io.Discard}
	c, err := quiet.start(ctx, plan{env: []string{"THROTTLED_MUTANT=" + string(h.bug)}})
	l.made = quiet.made
	defer func() {
		if closed := c.close(); err == nil {
			err = closed
		}
	}()
	if err != nil {
		return "", err
	}
	t := c.try(ctx)
	for range huntTurns {
		if time.Now().After(end) {
			break
		}
		if err := h.turn(ctx, t, l.random); err != nil {
			t.load.end()
			t.watch.end()
			l.out.detail(fmt.Sprintf("%s: %v", h.bug, err))
			stuck := append(t.judgeProcesses(), finding{checker: "progress"})
			return checkersOf(stuck), ctx.Err()
		}
		rest(ctx, 300*time.Millisecond)
	}
	findings := t.judge(ctx)
	for _, f := range findings[:min(len(findings), huntShown)] {
		l.out.detail(fmt.Sprintf("%s: %s", h.bug, f))
	}
	return checkersOf(findings), nil
}

// cutAndHeal cuts the leader off from the others, and lets clients ask both sides.
func cutAndHeal(ctx context.Context, t *trial, r *rand.Rand) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	t.kill()
	others := t.others(leader)
	return t.whileCut(ctx, leader, "cut off", rule{in: others, out: others, percent: 100}, 1500*time.Millisecond)
}

// cutAndKill cuts the leader off, and kills it before it can pass on what it has decided.
func cutAndKill(ctx context.Context, t *trial, r *rand.Rand) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	t.kill()
	others := t.others(leader)
	heal, err := leader.host.cut(rule{in: others, out: others, percent: 100})
	if err != nil {
		return err
	}
	rest(ctx, 100*time.Millisecond)
	err = leader.kill()
	rest(ctx, time.Second)
	return firstOf(err, heal(), leader.start(), leader.ready(ctx))
}

// clocksAndKill makes all wall clocks wrong, and takes the leader away.
func clocksAndKill(ctx context.Context, t *trial, r *rand.Rand) error {
	if err := t.skew(r.IntN(6)); err != nil {
		return err
	}
	rest(ctx, 500*time.Millisecond)
	return onLeader(killed)(ctx, t, r)
}

// saveWhileCut cuts the leader off and lets it take a snapshot at once; then all nodes are killed, so
// that it begins from that.
func saveWhileCut(ctx context.Context, t *trial, r *rand.Rand) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	t.kill()
	others := t.others(leader)
	heal, err := leader.host.cut(rule{in: others, out: others, percent: 100})
	if err != nil {
		return err
	}
	rest(ctx, 50*time.Millisecond)
	_, saved := askOnce(leader.addr(), patience, "BGSAVE")
	t.note("BGSAVE at %s: %v", leader.id, saved)
	rest(ctx, 600*time.Millisecond)
	err = leader.kill()
	return firstOf(err, heal(), leader.start(), leader.ready(ctx))
}

// killAndLead kills the leader while much waits to be applied elsewhere.
func killAndLead(ctx context.Context, t *trial, r *rand.Rand) error {
	n, err := t.follower(ctx, r)
	if err != nil {
		return err
	}
	if err := t.pause(ctx, n, 200*time.Millisecond); err != nil {
		return err
	}
	return onLeader(killed)(ctx, t, r)
}

// saveAndKillAll lets all nodes take snapshots while nothing happens, and kills them before a leader that
// has nothing to do tells the time again: then there is nothing behind them in the log. Before that all
// wall clocks leap ahead, further each time, which is how much time has passed to a node that has no
// better idea.
func saveAndKillAll(ctx context.Context, t *trial, r *rand.Rand) error {
	const leap = 1000 // times as fast as the clients' clock
	by := time.Duration(t.clock.now() * leap)
	for _, n := range t.nodes {
		if err := n.setWall(by); err != nil {
			return err
		}
	}
	rest(ctx, time.Second)
	t.load.hold(true)
	defer t.load.hold(false)
	rest(ctx, 300*time.Millisecond)
	for _, n := range t.nodes {
		_, err := askOnce(n.addr(), patience, "BGSAVE")
		t.note("BGSAVE at %s: %v", n.id, err)
	}
	rest(ctx, 50*time.Millisecond)
	if err := killAll(ctx, t, r); err != nil {
		return err
	}
	return t.healthy(ctx, startWithin)
}

// runTest runs the test of package cluster with the bug let loose. It has to fail.
func (h hunt) runTest(ctx context.Context) (by string, err error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-tags", "chaos", "-run", "^"+h.test+"$", "github.com/throttledhq/throttled/cluster")
	cmd.Env = append(os.Environ(), "THROTTLED_MUTANT="+string(h.bug))
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return "", nil
	case bytes.Contains(out, []byte("--- FAIL: "+h.test)):
		return h.test, nil
	}
	return "", fmt.Errorf("%s: %w: %s", h.test, err, out)
}
