package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/throttledhq/throttled/mutant"
)

// turn is what is done to a cluster again and again to bring a bug to light.
type turn func(ctx context.Context, t *trial, r *rand.Rand) error

// hunt says how a deliberate bug is looked for in real nodes.
type hunt struct {
	bug  mutant.Bug
	turn turn // nil: no real node gets into the state that it takes, or hardly ever
}

// hunts names every bug.
func hunts() []hunt {
	return []hunt{
		{mutant.ReplyBeforeCommit, cutAndKill},
		{mutant.NoUndo, cutAndHeal},
		{mutant.LostBatch, onLeader(killed)},
		{mutant.StaleAnswers, askedWhilePaused},
		{mutant.LeapingClock, onLeader(killed)},
		{mutant.WallClock, clocksAndKill},
		{mutant.LocalExpiry, clocksAndKill},
		{mutant.DirtySnapshot, saveWhileCut},
		{mutant.NoBarrier, killAndLead},
		{mutant.ForgottenTime, saveAndKillAll},
		{mutant.AnyStream, flushedByStranger},
		{mutant.SyncIgnored, failFollowersAndKillAll},
		{mutant.TimeTwice, followersKilled},
		{mutant.TimeLate, followersKilled},
		{mutant.TimeUnseen, clocksAndKill},
		{mutant.OwnHeartbeat, longLeaderCut},
		// It takes a voter that is slow to follow a change of the heartbeat.
		{mutant.UnheardHeartbeat, nil},
		// A node has to lose and regain the lead before it notices either.
		{mutant.AnyTerm, nil},
	}
}

// The bounds of a hunt.
const (
	huntFor   = 60 * time.Second
	huntTurns = 6 // after which all that was seen is judged
	huntShown = 6 // findings of each, for those who look on
)

// caught is by whom a bug was found: by what judges safety, and by what else.
type caught struct{ unsafe, others string }

func (c caught) String() string {
	if c.others == "" {
		return orNobody(c.unsafe)
	}
	return orNobody(c.unsafe) + " (and " + c.others + ")"
}

// mutants lets each deliberate bug loose, in real nodes and in the simulation of package cluster, and
// fails if in neither of them what judges safety finds it. That a node ends itself, or that nobody
// answers, is told of, and does not count. Before that both have to find nothing where there is no bug.
func mutants(ctx context.Context, l *lab) error {
	s, err := l.buildSimulation()
	if err != nil {
		return err
	}
	if err := l.control(ctx, s); err != nil {
		return err
	}
	var lines []string
	survived := 0
	for _, h := range hunts() {
		if l.only != "" && l.only != string(h.bug) {
			continue
		}
		begin := time.Now()
		real, err := l.hunt(ctx, h)
		if err != nil {
			return fmt.Errorf("%s: %w", h.bug, err)
		}
		tests, err := s.run(ctx, h.bug)
		if err != nil {
			return fmt.Errorf("%s: %w", h.bug, err)
		}
		if real.unsafe == "" && tests.unsafe == "" {
			survived++
		}
		lines = append(lines, fmt.Sprintf("%-22s %-52s %-72s %5.1f s", h.bug, real, tests, time.Since(begin).Seconds()))
	}
	l.out.print("  %-22s %-52s %-72s", "mutant", "found in real nodes by", "in the simulation by")
	for _, line := range lines {
		l.out.print("  %s", line)
	}
	l.out.atMost("mutants that were not found", float64(survived), 0, "")
	return ctx.Err()
}

func orNobody(by string) string {
	if by == "" {
		return "-"
	}
	return by
}

// control does all that is done to look for bugs where there is none.
func (l *lab) control(ctx context.Context, s *simulation) error {
	var all []turn
	for _, h := range hunts() {
		if h.turn != nil {
			all = append(all, h.turn)
		}
	}
	findings, err := l.huntOnce(ctx, "", all, time.Now().Add(2*huntFor))
	if err != nil {
		return fmt.Errorf("without a bug: %w", err)
	}
	tests, err := s.run(ctx, "")
	if err != nil {
		return fmt.Errorf("without a bug: %w", err)
	}
	if tests != (caught{}) {
		findings = append(findings, finding{"simulation", tests.String()})
	}
	l.out.found(findings)
	l.out.note("found where there is no bug", "%d", len(findings))
	return nil
}

// hunt looks for a bug until a checker of safety finds something. What it finds is no finding of the
// run.
func (l *lab) hunt(ctx context.Context, h hunt) (by caught, err error) {
	if h.turn == nil {
		return by, nil
	}
	var all []finding
	for end := time.Now().Add(huntFor); time.Now().Before(end) && by.unsafe == "" && err == nil && ctx.Err() == nil; {
		var findings []finding
		findings, err = l.huntOnce(ctx, h.bug, slices.Repeat([]turn{h.turn}, huntTurns), end)
		all = append(all, findings...)
		unsafe, others := divide(all)
		by = caught{checkersOf(unsafe), checkersOf(others)}
	}
	return by, err
}

// huntOnce does some turns to a cluster, until the end at the latest, and judges what was seen.
func (l *lab) huntOnce(ctx context.Context, bug mutant.Bug, turns []turn, end time.Time) (findings []finding, err error) {
	quiet := *l
	quiet.out = &report{w: io.Discard}
	p := plan{}
	if bug == mutant.OwnHeartbeat {
		p = mixedHeartbeats()
	}
	p.env = []string{"THROTTLED_MUTANT=" + string(bug)}
	c, err := quiet.start(ctx, p)
	l.made = quiet.made
	defer func() {
		if closed := c.close(); err == nil {
			err = closed
		}
	}()
	if err != nil {
		return nil, err
	}
	t := c.try(ctx)
	for _, do := range turns {
		if time.Now().After(end) {
			break
		}
		if err := do(ctx, t, l.random); err != nil {
			findings = append(findings, finding{"progress", err.Error()})
			break
		}
		rest(ctx, 300*time.Millisecond)
	}
	findings = append(findings, t.judge(ctx)...)
	for _, f := range findings[:min(len(findings), huntShown)] {
		l.out.detail(fmt.Sprintf("%s: %s", bug, f))
	}
	return findings, ctx.Err()
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

// cutLeader cuts the leader off from the others, until it is healed.
func (t *trial) cutLeader(ctx context.Context) (leader *node, heal func() error, err error) {
	if leader, err = t.awaitLeader(ctx); err != nil {
		return nil, nil, err
	}
	t.kill()
	others := t.others(leader)
	heal, err = leader.host.cut(rule{in: others, out: others, percent: 100})
	return leader, heal, err
}

// cutAndKill cuts the leader off, and kills it before it can pass on what it has decided.
func cutAndKill(ctx context.Context, t *trial, r *rand.Rand) error {
	leader, heal, err := t.cutLeader(ctx)
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
	leader, heal, err := t.cutLeader(ctx)
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

// failFollowersAndKillAll makes the disks of both followers fail, and kills the leader, which alone has
// what was answered meanwhile; others go on without it. Followers without a bug have answered nothing by
// then, and have ended themselves. The writes fail and not the syncs: a process that is killed
// leaves behind what it has written, synced or not.
func failFollowersAndKillAll(ctx context.Context, t *trial, _ *rand.Rand) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	var errs []error
	var heals []func() error
	for _, n := range t.nodes {
		if n == leader {
			continue
		}
		heal, err := n.failEntries()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		heals = append(heals, heal)
	}
	rest(ctx, 300*time.Millisecond)
	t.kill()
	for _, n := range t.nodes {
		n.forgive()
		errs = append(errs, n.kill())
	}
	for _, heal := range heals {
		errs = append(errs, heal())
	}
	for _, n := range t.nodes {
		if n != leader {
			t.note("start %s", n.id)
			errs = append(errs, n.start())
		}
	}
	rest(ctx, 1500*time.Millisecond)
	t.note("start %s, which led", leader.id)
	return errors.Join(append(errs, leader.start(), t.healthy(ctx, startWithin))...)
}

// failEntries makes the node fail to write entries of the log, and returns what ends that.
func (n *node) failEntries() (heal func() error, err error) {
	files, err := filepath.Glob(filepath.Join(n.dataDir(), "*", "front-*.log"))
	if len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("%s has no files of entries", n.id), err)
	}
	return n.injectInto("write", "error=EIO", files...)
}
