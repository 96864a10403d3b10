package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/check"
)

// The bars of availability.
const (
	failoverMedian = 600 * time.Millisecond
	failoverMost   = time.Second
	handOverMost   = 50 * time.Millisecond
	handOverRate   = 2000 // requests per second; none may fail
	flaggedMost    = 150 * time.Millisecond
	// A gap below the minimum election timeout shows that no election has started.
	followerGap = 250 * time.Millisecond
)

// failover kills the leader repeatedly, and measures the time until another node returns a
// decision.
func failover(ctx context.Context, l *lab) error {
	return l.withTrial(ctx, plan{}, func(ctx context.Context, t *trial) error {
		p := t.probe(ctx)
		defer p.end()
		var times, flagged []time.Duration
		for range l.repeated(30, 100) {
			took, flags, err := t.killLeader(ctx, p)
			if err != nil {
				return err
			}
			times, flagged = append(times, took), append(flagged, flags...)
		}
		l.showTimes("kill -9 of the leader to s_down on another node", flagged)
		l.out.atMost("  median", ms(check.Percentile(flagged, 50)), ms(flaggedMost), "ms")
		l.showTimes("kill -9 of the leader to a decision", times)
		l.out.atMost("  median", ms(check.Percentile(times, 50)), ms(failoverMedian), "ms")
		l.out.atMost("  longest", ms(check.Percentile(times, 100)), ms(failoverMost), "ms")
		return nil
	})
}

// killLeader kills the leader, and restarts it two seconds after another node has returned a
// decision. It returns the time until another node returned a decision, and the times until the
// other nodes reported to Sentinel clients that the leader was down.
func (t *trial) killLeader(ctx context.Context, p *probes) (took time.Duration, flagged []time.Duration, err error) {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return 0, nil, err
	}
	flags, err := t.watchFlags(leader)
	if err != nil {
		return 0, nil, err
	}
	defer flags.close()
	t.countKill()
	t.note("kill -9 %s, the leader", leader.id)
	at := t.clock.now()
	waited := flags.await(t.clock, at)
	if err := leader.kill(); err != nil {
		return 0, nil, err
	}
	if flagged, err = waited(); err != nil {
		return 0, nil, err
	}
	var first int64
	if err := await(ctx, startWithin, func() (bool, error) {
		first = p.firstAfter(at, leader)
		return first > 0, nil
	}); err != nil {
		return 0, nil, fmt.Errorf("no decision after the leader was killed: %w", err)
	}
	took = time.Duration(first - at)
	t.note("first decision %.0f ms later", ms(took))
	sleep(ctx, 2*time.Second)
	if err := leader.start(); err != nil {
		return 0, nil, err
	}
	return took, flagged, t.settled(ctx, leader)
}

// settled waits until a restarted node is ready, the cluster returns decisions, and the
// node has caught up.
func (t *trial) settled(ctx context.Context, n *node) error {
	begin := time.Now()
	if err := n.ready(ctx); err != nil {
		return err
	}
	ready := time.Since(begin)
	if err := t.healthy(ctx, startWithin); err != nil {
		return err
	}
	if err := t.caughtUp(ctx, n); err != nil {
		return err
	}
	t.note("%s is ready after %.0f ms, and has caught up after %.0f ms", n.id, ms(ready), ms(time.Since(begin)))
	sleep(ctx, 300*time.Millisecond)
	return nil
}

// caughtUp waits until a node has applied all entries that were committed at the time of the call.
func (t *trial) caughtUp(ctx context.Context, n *node) error {
	leader, err := t.awaitLeader(ctx)
	if err != nil {
		return err
	}
	info, err := leader.info(patience)
	if err != nil {
		return err
	}
	committed := number(info, "raft_commit_index")
	err = await(ctx, healWithin, func() (bool, error) {
		info, err := n.info(patience)
		return err == nil && number(info, "raft_applied_index") >= committed, err
	})
	if err != nil {
		return fmt.Errorf("%s does not catch up: %w", n.id, err)
	}
	return nil
}

// handover transfers the leadership, by CL.CLUSTER TRANSFER and by SIGTERM in turn, and
// measures the time without decisions. During a TRANSFER, no request through any node may
// fail. After a SIGTERM, no request through the other nodes may fail.
func handover(ctx context.Context, l *lab) error {
	defer func(rate int) { l.rate = rate }(l.rate)
	l.rate = max(l.rate, handOverRate)
	return l.withTrial(ctx, plan{}, func(ctx context.Context, t *trial) error {
		p := t.probe(ctx)
		defer p.end()
		var transfers, stops []time.Duration
		failed, lost, calls := map[string]int{}, int64(0), int64(0)
		for i := range l.repeated(40, 100) {
			lostBefore, callsBefore := t.load.failed.Load(), t.load.decided.Load()
			leader, err := t.awaitLeader(ctx)
			if err != nil {
				return err
			}
			from := t.clock.now()
			if i%2 == 0 {
				err = t.transfer(ctx, leader)
			} else {
				err = t.stopLeader(ctx, leader)
			}
			if err != nil {
				return err
			}
			sleep(ctx, 500*time.Millisecond)
			gap := longestGap(p, from, t.clock.now(), leader)
			except := leader // after a SIGTERM, requests to the stopped leader may fail
			if i%2 == 0 {
				except = nil
				lost += t.load.failed.Load() - lostBefore
				calls += t.load.decided.Load() - callsBefore
			}
			for word, n := range p.failed(from, t.clock.now(), except) {
				failed[word] += n
			}
			if i%2 == 0 {
				transfers = append(transfers, gap)
			} else {
				stops = append(stops, gap)
				if err := leader.start(); err != nil {
					return err
				}
			}
			if err := t.settled(ctx, leader); err != nil {
				return err
			}
		}
		for what, times := range map[string][]time.Duration{"CL.CLUSTER TRANSFER": transfers, "SIGTERM of the leader": stops} {
			l.showTimes("longest gap at "+what, times)
			l.out.atMost("  p99", ms(check.Percentile(times, 99)), ms(handOverMost), "ms")
		}
		l.out.note("undecided requests of probes", "%s", counts(failed))
		l.out.atMost("  undecided requests of probes", float64(sum(failed)), 0, "")
		l.out.note("requests of the load around CL.CLUSTER TRANSFER", "%d decided, %d undecided", calls, lost)
		l.out.atMost("  undecided requests of the load", float64(lost), 0, "")
		return nil
	})
}

func (t *trial) transfer(ctx context.Context, leader *node) error {
	t.countKill()
	t.note("hand over from %s", leader.id)
	if _, err := askOnce(leader.addr(), 5*time.Second, "CL.CLUSTER", "TRANSFER"); err != nil {
		return err
	}
	return await(ctx, startWithin, func() (bool, error) {
		now, err := t.leader()
		return err == nil && now != leader, err
	})
}

func (t *trial) stopLeader(ctx context.Context, leader *node) error {
	t.countKill()
	t.note("SIGTERM to %s, the leader", leader.id)
	code, err := leader.stop(stopWithin)
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("%s exits with code %d:\n%s", leader.id, code, leader.tail(4))
	}
	_, err = t.awaitLeader(ctx)
	return err
}

// follower kills followers. The other nodes must not be affected.
func follower(ctx context.Context, l *lab) error {
	return l.withTrial(ctx, plan{}, func(ctx context.Context, t *trial) error {
		t.quiet = true
		p := t.probe(ctx)
		defer p.end()
		failed, gaps := map[string]int{}, []time.Duration{}
		before := t.watch.changes()
		for range l.repeated(10, 20) {
			n, err := t.follower(ctx, l.random)
			if err != nil {
				return err
			}
			from := t.clock.now()
			t.note("kill -9 %s, a follower", n.id)
			if err := n.signal(syscall.SIGKILL); err != nil {
				return err
			}
			sleep(ctx, time.Second)
			if err := n.kill(); err != nil { // waits for its exit
				return err
			}
			if err := n.start(); err != nil {
				return err
			}
			if err := t.settled(ctx, n); err != nil {
				return err
			}
			gap := longestGap(p, from, t.clock.now(), n)
			gaps = append(gaps, gap)
			for word, count := range p.failed(from, t.clock.now(), n) {
				failed[word] += count
			}
		}
		l.showTimes("longest gap on the other nodes", gaps)
		l.out.note("  errors of undecided requests", "%s", counts(failed))
		l.out.atMost("  undecided requests", float64(sum(failed)), 0, "")
		l.out.atMost("  leader changes", float64(t.watch.changes()-before), 0, "")
		return nil
	})
}

// longestGap returns the longest time in the interval [from, to] in which no node decided a
// request. It ignores decisions of one node (except).
func longestGap(p *probes, from, to int64, except *node) time.Duration {
	gap, _ := check.LongestGap(p.decisions(except), from, to)
	return gap
}

// showTimes prints the percentiles of measured times.
func (l *lab) showTimes(what string, times []time.Duration) {
	l.out.note(what, "p50 %.0f ms, p99 %.0f ms, max %.0f ms, of %d", ms(check.Percentile(times, 50)),
		ms(check.Percentile(times, 99)), ms(check.Percentile(times, 100)), len(times))
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }
