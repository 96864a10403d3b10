package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/throttledhq/throttled/internal/failpoint"
)

// step is an action that is repeated on a cluster to expose a bug.
type step func(ctx context.Context, t *trial, r *rand.Rand) error

// hunt describes the search for a deliberate bug in real nodes.
type hunt struct {
	bug  failpoint.Bug
	step step // nil if real nodes never or too rarely reach the state in which the bug has an effect, and for bugs of sidecars
}

// ofSidecar reports whether the bug is one of sidecars.
func (h hunt) ofSidecar() bool { return strings.HasPrefix(string(h.bug), "lessee-") }

// hunts returns a hunt for every bug.
func hunts() []hunt {
	return []hunt{
		{failpoint.ReplyBeforeCommit, cutAndKill},
		{failpoint.NoUndo, cutAndHeal},
		{failpoint.LostBatch, onLeader(killed)},
		{failpoint.StaleAnswers, askedWhilePaused},
		{failpoint.LeapingClock, onLeader(killed)},
		{failpoint.WallClock, clocksAndKill},
		{failpoint.LocalExpiry, clocksAndKill},
		{failpoint.DirtySnapshot, saveWhileCut},
		{failpoint.NoBarrier, killAndLead},
		{failpoint.ForgottenTime, saveAndKillAll},
		{failpoint.AnyStream, flushedByStranger},
		{failpoint.SyncIgnored, failFollowersAndKillAll},
		{failpoint.TimeTwice, followersKilled},
		{failpoint.TimeLate, followersKilled},
		{failpoint.TimeUnseen, clocksAndKill},
		{failpoint.OwnHeartbeat, longLeaderCut},
		// This bug has an effect only if a voter applies a change of the heartbeat slowly.
		{failpoint.UnheardHeartbeat, nil},
		// This bug has an effect only if a node loses and regains the leadership before it detects
		// the loss.
		{failpoint.AnyTerm, nil},
		// This bug has an effect only while the rules change: the clients of the hunts send no CL.CHECK.
		{failpoint.StaleRules, nil},
		// These bugs have an effect only if units are leased: the clients of the hunts send no CL.LEASE.
		{failpoint.LeaseAsOfNow, nil},
		{failpoint.LeaseBeyondEnd, nil},
		{failpoint.LeaseReducedBurst, nil},
		{failpoint.LeaseOutlives, nil},
		{failpoint.LeaseCreditTwice, nil},
		{failpoint.LeaseLateReturn, nil},
		{failpoint.LeaseReturnFloor, nil},
		{failpoint.LeaseRefundFloor, nil},
		{failpoint.LeaseOldRate, nil},
		{failpoint.LeaseDeleted, nil},
		{failpoint.LesseeGroup, nil},
	}
}

// The bounds of a hunt.
const (
	huntFor   = 60 * time.Second
	huntSteps = 6 // steps before the history is checked
	huntShown = 6 // maximum findings per hunt in the verbose output
)

// foundBy lists the checkers that found a bug: the safety checkers, and the others.
type foundBy struct{ safety, others string }

func (c foundBy) String() string {
	if c.others == "" {
		return orDash(c.safety)
	}
	return orDash(c.safety) + " (and " + c.others + ")"
}

// mutants enables each deliberate bug, in real nodes and in the simulation of package cluster or, for bugs of leases, of
// packages lease and lessee. A safety checker must find the bug in the nodes or in the simulation; otherwise
// the scenario fails. A node that exits or does not answer is reported, but does not count as
// a found bug. Without a bug, neither the nodes nor the simulation may have findings.
func mutants(ctx context.Context, l *lab) error {
	s, err := l.buildSimulations()
	if err != nil {
		return err
	}
	if err := l.control(ctx, s); err != nil {
		return err
	}
	var lines []string
	missed := 0
	for _, h := range hunts() {
		if l.only != "" && l.only != string(h.bug) {
			continue
		}
		begin := time.Now()
		real, err := l.hunt(ctx, h)
		if err != nil {
			return fmt.Errorf("%s: %w", h.bug, err)
		}
		tests, err := s.of(h.bug).run(ctx, h.bug)
		if err != nil {
			return fmt.Errorf("%s: %w", h.bug, err)
		}
		if real.safety == "" && tests.safety == "" {
			missed++
		}
		lines = append(lines, fmt.Sprintf("%-22s %-52s %-72s %5.1f s", h.bug, real, tests, time.Since(begin).Seconds()))
	}
	l.out.print("  %-22s %-52s %-72s", "mutant", "found in real nodes by", "in the simulation by")
	for _, line := range lines {
		l.out.print("  %s", line)
	}
	l.out.atMost("mutants that no safety check found", float64(missed), 0, "")
	return ctx.Err()
}

func orDash(names string) string {
	if names == "" {
		return "-"
	}
	return names
}

// control runs all steps and the simulations without a bug.
func (l *lab) control(ctx context.Context, s simulations) error {
	var all []step
	for _, h := range hunts() {
		if h.step != nil {
			all = append(all, h.step)
		}
	}
	findings, err := l.huntOnce(ctx, "", all, time.Now().Add(2*huntFor))
	if err != nil {
		return fmt.Errorf("without a bug: %w", err)
	}
	ofSidecars, err := l.huntSidecars(ctx, "")
	if err != nil {
		return fmt.Errorf("without a bug: %w", err)
	}
	findings = append(findings, ofSidecars...)
	for _, sim := range []*simulation{s.cluster, s.lease, s.lessee} {
		tests, err := sim.run(ctx, "")
		if err != nil {
			return fmt.Errorf("without a bug: %w", err)
		}
		if tests != (foundBy{}) {
			findings = append(findings, finding{"simulation", tests.String()})
		}
	}
	l.out.found(findings)
	l.out.note("findings without a bug", "%d", len(findings))
	return nil
}

// hunt enables a bug and repeats a step until a safety checker has a finding, for at most
// huntFor. The findings do not count as findings of the run.
func (l *lab) hunt(ctx context.Context, h hunt) (by foundBy, err error) {
	if h.step == nil && !h.ofSidecar() {
		return by, nil
	}
	var all []finding
	for end := time.Now().Add(huntFor); time.Now().Before(end) && by.safety == "" && err == nil && ctx.Err() == nil; {
		var findings []finding
		if h.ofSidecar() {
			findings, err = l.huntSidecars(ctx, h.bug)
		} else {
			findings, err = l.huntOnce(ctx, h.bug, slices.Repeat([]step{h.step}, huntSteps), end)
		}
		all = append(all, findings...)
		unsafe, others := divide(all)
		by = foundBy{checkersOf(unsafe), checkersOf(others)}
	}
	return by, err
}

// huntOnce applies steps to a new cluster, and checks the history. It starts no step after the time
// in the argument end.
func (l *lab) huntOnce(ctx context.Context, bug failpoint.Bug, steps []step, end time.Time) (findings []finding, err error) {
	quiet := *l
	quiet.out = &report{w: io.Discard}
	p := plan{}
	if bug == failpoint.OwnHeartbeat {
		p = mixedHeartbeats()
	}
	p.env = mutant(bug)
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
	for _, do := range steps {
		if time.Now().After(end) {
			break
		}
		if err := do(ctx, t, l.random); err != nil {
			findings = append(findings, finding{"progress", err.Error()})
			break
		}
		sleep(ctx, 300*time.Millisecond)
	}
	findings = append(findings, t.judge(ctx)...)
	l.detail(bug, findings)
	return findings, ctx.Err()
}

// huntSidecars runs sidecars with a bug, or without one if it is empty, and returns the findings.
func (l *lab) huntSidecars(ctx context.Context, bug failpoint.Bug) (findings []finding, err error) {
	quiet := *l
	quiet.out = &report{w: io.Discard}
	err = quiet.groupsWithBug(ctx, bug)
	l.made = quiet.made
	l.detail(bug, quiet.out.findings)
	return quiet.out.findings, err
}

// detail prints the first findings of a hunt if the report is verbose.
func (l *lab) detail(bug failpoint.Bug, findings []finding) {
	for _, f := range findings[:min(len(findings), huntShown)] {
		l.out.detail(fmt.Sprintf("%s: %s", bug, f))
	}
}

// mutant returns the environment that enables a bug, or none if it is empty.
func mutant(bug failpoint.Bug) []string { return []string{"THROTTLED_MUTANT=" + string(bug)} }

// cutAndHeal disconnects the leader from the other nodes for a while. Clients send requests to both sides
// of the cut.
func cutAndHeal(ctx context.Context, t *trial, r *rand.Rand) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	t.countKill()
	others := t.otherAddrs(leader)
	return t.whileCut(ctx, leader, "cut off", rule{in: others, out: others, percent: 100}, 1500*time.Millisecond)
}

// cutLeader disconnects the leader from the other nodes until the returned function, heal, is called.
func (t *trial) cutLeader(ctx context.Context) (leader *node, heal func() error, err error) {
	if leader, err = t.awaitLeader(ctx); err != nil {
		return nil, nil, err
	}
	t.countKill()
	others := t.otherAddrs(leader)
	heal, err = leader.host.cut(rule{in: others, out: others, percent: 100})
	return leader, heal, err
}

// cutAndKill disconnects the leader, and kills it before it can replicate its decisions.
func cutAndKill(ctx context.Context, t *trial, r *rand.Rand) error {
	leader, heal, err := t.cutLeader(ctx)
	if err != nil {
		return err
	}
	sleep(ctx, 100*time.Millisecond)
	err = leader.kill()
	sleep(ctx, time.Second)
	return firstOf(err, heal(), leader.start(), leader.ready(ctx))
}

// clocksAndKill makes all wall clocks wrong, and kills the leader.
func clocksAndKill(ctx context.Context, t *trial, r *rand.Rand) error {
	if err := t.skew(r.IntN(6)); err != nil {
		return err
	}
	sleep(ctx, 500*time.Millisecond)
	return onLeader(killed)(ctx, t, r)
}

// saveWhileCut disconnects the leader, takes a snapshot on it, and restarts it, so that it starts
// from the snapshot.
func saveWhileCut(ctx context.Context, t *trial, r *rand.Rand) error {
	leader, heal, err := t.cutLeader(ctx)
	if err != nil {
		return err
	}
	sleep(ctx, 50*time.Millisecond)
	_, saved := askOnce(leader.addr(), patience, "BGSAVE")
	t.note("BGSAVE at %s: %v", leader.id, saved)
	sleep(ctx, 600*time.Millisecond)
	err = leader.kill()
	return firstOf(err, heal(), leader.start(), leader.ready(ctx))
}

// killAndLead kills the leader while a follower has many entries to apply.
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

// saveAndKillAll takes snapshots on all nodes while there are no requests, and kills the nodes
// before the idle leader appends the next tick. The log then has no entries after the snapshots.
// Before the snapshots, all wall clocks jump ahead, further in each step. A node that cannot obtain
// the log time from other nodes derives the elapsed time from its wall clock.
func saveAndKillAll(ctx context.Context, t *trial, r *rand.Rand) error {
	const leap = 1000 // wall-clock offset per elapsed time on the clients' clock
	by := time.Duration(t.clock.now() * leap)
	for _, n := range t.nodes {
		if err := n.setWall(by); err != nil {
			return err
		}
	}
	sleep(ctx, time.Second)
	t.load.hold(true)
	defer t.load.hold(false)
	sleep(ctx, 300*time.Millisecond)
	for _, n := range t.nodes {
		_, err := askOnce(n.addr(), patience, "BGSAVE")
		t.note("BGSAVE at %s: %v", n.id, err)
	}
	sleep(ctx, 50*time.Millisecond)
	if err := killAll(ctx, t, r); err != nil {
		return err
	}
	return t.healthy(ctx, startWithin)
}

// failFollowersAndKillAll makes the disks of both followers fail and then kills all nodes. With
// the bug, the leader has the only copy of the charges that were acknowledged after the failure,
// and the followers continue without these charges. Without the bug, followers with a failed disk
// acknowledge nothing and exit. The writes fail, not the syncs: after a kill, the kernel still has
// the data that a process has written without a sync.
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
	sleep(ctx, 300*time.Millisecond)
	t.countKill()
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
	sleep(ctx, 1500*time.Millisecond)
	t.note("start %s, the former leader", leader.id)
	return errors.Join(append(errs, leader.start(), t.healthy(ctx, startWithin))...)
}

// failEntries makes the writes of log entries fail on a node. The returned function, heal, removes
// the fault.
func (n *node) failEntries() (heal func() error, err error) {
	files, err := filepath.Glob(filepath.Join(n.dataDir(), "*", "front-*.log"))
	if len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("%s has no entry files", n.id), err)
	}
	return n.injectInto("write", "error=EIO", files...)
}
