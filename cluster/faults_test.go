package cluster

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

var (
	schedules = flag.Int("schedules", 12, "number of random schedules of faults")
	seed      = flag.Uint64("seed", 1, "seed of the first schedule; the others have the next seeds")
	traces    = flag.Bool("traces", false, "log the events of each schedule")
	faultList = flag.String("faults", "", "comma-separated names of the faults to draw from; empty: all")
)

// schedule is a simulation with random faults.
type schedule struct {
	*sim
	rng    *rand.Rand
	faults []fault // faults to choose from
	trace  []string
	added  int
	swaps  bool // members are added and removed
}

// fault is an event that disturbs a cluster.
type fault struct {
	name string
	do   func(*schedule)
}

// allFaults returns all faults.
func allFaults() []fault {
	return []fault{
		{"crash", (*schedule).crashOne},
		{"crash-leader", (*schedule).crashLeader},
		{"crash-all", (*schedule).crashAll},
		{"stop", (*schedule).stopLeader},
		{"isolate", func(x *schedule) { x.cutLeader(true, true) }},
		{"mute", func(x *schedule) { x.cutLeader(true, false) }},
		{"deafen", func(x *schedule) { x.cutLeader(false, true) }},
		{"cut-links", (*schedule).cutLinks},
		{"split", (*schedule).split},
		{"pause", (*schedule).pauseLeader},
		{"transfer", (*schedule).transfer},
		{"broken-transfer", (*schedule).brokenTransfer},
		{"snapshot", (*schedule).snapshot},
		{"swap", (*schedule).swapMember},
		{"wall", (*schedule).jumpWall},
		{"heartbeat", (*schedule).setHeartbeat},
	}
}

// forWall lists the faults for clusters with wrong wall clocks. These faults leave a majority up, so that log time does
// not depend on the wall clocks: faults that stop a node are skipped while another node is down.
var forWall = []string{"crash", "stop", "pause", "transfer", "snapshot", "wall", "heartbeat"}

// forOne lists the faults for a cluster with one node.
var forOne = []string{"crash-leader", "crash-all", "stop", "snapshot", "pause"}

// named returns the names in the flag -faults, or none if the flag is empty.
func named() []string {
	if *faultList == "" {
		return nil
	}
	return strings.Split(*faultList, ",")
}

// TestFaultNames checks that each name in the lists is the name of a fault.
func TestFaultNames(t *testing.T) {
	known := map[string]bool{}
	for _, f := range allFaults() {
		known[f.name] = true
	}
	for _, name := range slices.Concat(forWall, forOne, named()) {
		if !known[name] {
			t.Errorf("no fault has the name %q", name)
		}
	}
}

// result counts the outcomes of schedules.
type result struct {
	granted, denied, unknown, refused int
	leases                            int // granted
	leaderships                       int64
	lag                               time.Duration
	virtual                           time.Duration
}

// newSchedule draws a cluster and its faults.
func newSchedule(t testing.TB, seed uint64) *schedule {
	x := &schedule{rng: rand.New(rand.NewPCG(seed, 0))}
	c := simConfig{size: []int{3, 3, 3, 3, 5, 1}[x.rng.IntN(6)]}
	c.shards = 1 << x.rng.IntN(7)
	if x.rng.IntN(3) == 0 {
		c.latency = 4 * time.Millisecond
	}
	if x.rng.IntN(3) == 0 {
		c.slowDisk = 4 * time.Millisecond
	}
	if x.rng.IntN(3) == 0 {
		c.heartbeats = map[string]time.Duration{}
		for i := range c.size {
			c.heartbeats[fmt.Sprintf("n%d", i+1)] = x.between(minHeartbeat, longestHeartbeat).Truncate(time.Millisecond)
		}
	}
	c.skewed = c.size > 1 && x.rng.IntN(5) == 0
	threshold, trailing, batch := uint64(10+x.rng.IntN(200)), uint64(1+x.rng.IntN(100)), 1+x.rng.IntN(64)
	c.tune = func(s *raft.Config) {
		s.SnapshotInterval, s.SnapshotThreshold, s.TrailingLogs, s.MaxAppendEntries = 300*time.Millisecond, threshold, trailing, batch
	}
	c.unexpected = func(id string, err error) bool { return err != ErrRemoved || !x.swaps }
	x.sim = newSim(t, c)
	for _, f := range allFaults() {
		if x.applies(f.name) && x.rng.IntN(3) > 0 {
			x.faults = append(x.faults, f)
		}
	}
	if len(x.faults) == 0 {
		x.faults = []fault{{"crash-leader", (*schedule).crashLeader}}
	}
	return x
}

// applies reports whether a fault may be used with the cluster of the schedule.
func (x *schedule) applies(name string) bool {
	switch {
	case *faultList != "":
		return slices.Contains(named(), name)
	case x.c.size == 1:
		return slices.Contains(forOne, name)
	case x.c.skewed:
		return slices.Contains(forWall, name)
	}
	return name != "wall"
}

func (x *schedule) note(format string, args ...any) {
	x.trace = append(x.trace, fmt.Sprintf("%v ", time.Since(x.begun))+fmt.Sprintf(format, args...))
}

// between draws a duration from the given range.
func (x *schedule) between(from, to time.Duration) time.Duration {
	return from + time.Duration(x.rng.Int64N(int64(to-from)))
}

// run runs clients during faults, and then all checks.
func (x *schedule) run(steps int) (r result) {
	x.start()
	defer x.close()
	x.leader()
	watcher, clients := watch(x.sim), runClients(x.sim, 8)
	defer func() { // unblocks clients of a paused node
		x.close()
		clients.end()
		watcher.end()
	}()
	for range steps {
		f := x.faults[x.rng.IntN(len(x.faults))]
		x.note("%s", f.name)
		f.do(x)
		pass(x.between(100*time.Millisecond, 900*time.Millisecond))
	}
	x.note("converge")
	x.heal()
	for _, l := range x.processes() {
		l.resume()
	}
	pass(time.Second)
	clients.end()
	x.converge()
	watcher.end()
	ops := clients.ops
	r.lag = checkLog(x.sim, !x.c.skewed)
	checkIntervals(x.sim, ops)
	checkOrder(x.sim, ops, true)
	checkUsed(x.sim, ops)
	x.close()
	for _, o := range ops {
		if o.leased {
			r.leases++
		}
		switch o.outcome {
		case granted:
			r.granted++
		case denied:
			r.denied++
		case unknown:
			r.unknown++
		case refused:
			r.refused++
		}
	}
	r.leaderships, r.virtual = x.leads.Load(), time.Since(x.begun)
	return r
}

// downFor is the downtime of a node in tests that restart it. It is longer than testHeartbeat, the time for which other
// nodes rely on an acknowledgment of the node.
const downFor = testHeartbeat + 10*time.Millisecond

// longestHeartbeat is the longest heartbeat that a schedule sets.
const longestHeartbeat = 700 * time.Millisecond

// downtime draws the downtime of a node.
func (x *schedule) downtime() time.Duration {
	return x.between(longestHeartbeat+10*time.Millisecond, 2*time.Second)
}

// bootLater boots a node after a delay, unless it is up by then.
func (x *schedule) bootLater(n *simNode, after time.Duration) {
	x.ending.Go(func() {
		pass(after)
		x.mu.Lock()
		down := n.process == nil && !n.gone && !x.closed
		x.mu.Unlock()
		if down {
			n.boot()
		}
	})
}

func (x *schedule) crashProcess(l *process) {
	if l == nil {
		return
	}
	x.note("crash %s", l.node.id)
	l.crash(false)
	x.bootLater(l.node, x.downtime())
}

// any returns a random process, or nil if none is running.
func (x *schedule) any() *process {
	processes := x.processes()
	if len(processes) == 0 {
		return nil
	}
	return processes[x.rng.IntN(len(processes))]
}

// mayStop reports whether another node may be stopped. If wall clocks are wrong, only one node may be down at a time.
func (x *schedule) mayStop() bool {
	return !x.c.skewed || len(x.processes()) == len(x.list())
}

func (x *schedule) crashOne() {
	if x.mayStop() {
		x.crashProcess(x.any())
	}
}

func (x *schedule) crashLeader() { x.crashProcess(x.leading()) }

func (x *schedule) crashAll() {
	for _, l := range x.processes() {
		x.crashProcess(l)
		if x.rng.IntN(2) == 0 {
			pass(x.between(0, 20*time.Millisecond))
		}
	}
}

func (x *schedule) stopLeader() {
	if l := x.leading(); l != nil && x.mayStop() {
		x.note("stop %s", l.node.id)
		l.stop()
		x.bootLater(l.node, x.downtime())
	}
}

// healLater heals all links after a delay.
func (x *schedule) healLater(after time.Duration) {
	x.ending.Go(func() {
		pass(after)
		x.heal()
	})
}

func (x *schedule) cutLeader(out, in bool) {
	l := x.leading()
	if l == nil {
		return
	}
	x.note("cut %s out %v in %v", l.node.id, out, in)
	for _, n := range x.list() {
		if out {
			x.cut(l.node.id, n.id)
		}
		if in {
			x.cut(n.id, l.node.id)
		}
	}
	x.healLater(x.between(50*time.Millisecond, 2*time.Second))
}

func (x *schedule) cutLinks() {
	all := x.list()
	for range 1 + x.rng.IntN(4) {
		x.cut(all[x.rng.IntN(len(all))].id, all[x.rng.IntN(len(all))].id)
	}
	x.healLater(x.between(50*time.Millisecond, 2*time.Second))
}

func (x *schedule) split() {
	var sides [2][]*simNode
	for _, n := range x.list() {
		side := x.rng.IntN(2)
		sides[side] = append(sides[side], n)
	}
	for _, a := range sides[0] {
		for _, b := range sides[1] {
			x.cut(a.id, b.id)
			x.cut(b.id, a.id)
		}
	}
	x.healLater(x.between(50*time.Millisecond, 2*time.Second))
}

func (x *schedule) pauseLeader() {
	l := x.leading()
	if l == nil || x.rng.IntN(4) == 0 {
		l = x.any()
	}
	if l == nil {
		return
	}
	x.note("pause %s", l.node.id)
	l.pause()
	after := x.between(20*time.Millisecond, 2*time.Second)
	x.ending.Go(func() {
		pass(after)
		l.resume()
	})
}

// inBackground runs an action in a goroutine, because the action may block. An error is only logged.
func (x *schedule) inBackground(l *process, f func(context.Context) error) {
	x.ending.Go(func() {
		ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
		defer cancel()
		if err := f(ctx); err != nil {
			l.config.Logger.Debug("in the background", "error", err)
		}
	})
}

func (x *schedule) transfer() {
	l := x.leading()
	if l == nil {
		return
	}
	to := ""
	if other := x.any(); other != l && x.rng.IntN(2) == 0 {
		to = other.node.id
	}
	x.note("transfer from %s to %q", l.node.id, to)
	x.inBackground(l, func(ctx context.Context) error { return l.Transfer(ctx, to) })
}

// brokenTransfer isolates the leader during a transfer.
func (x *schedule) brokenTransfer() {
	x.transfer()
	pass(x.between(0, 10*time.Millisecond))
	x.cutLeader(x.rng.IntN(2) == 0, true)
}

func (x *schedule) snapshot() {
	if l := x.any(); l != nil {
		x.inBackground(l, func(context.Context) error { return l.Snapshot() })
	}
}

func (x *schedule) jumpWall() {
	all := x.list()
	n := all[x.rng.IntN(len(all))]
	by := x.between(-2*time.Hour, 2*time.Hour)
	x.note("wall of %s is off by %v", n.id, by)
	n.skew.Store(int64(by))
}

func (x *schedule) setHeartbeat() {
	l := x.leading()
	if l == nil {
		return
	}
	to := x.between(minHeartbeat, longestHeartbeat).Truncate(time.Millisecond)
	x.note("heartbeat of %v", to)
	x.inBackground(l, func(ctx context.Context) error { return l.SetHeartbeat(ctx, to) })
}

// swapMember adds a new node, and removes another node once the new one is a voter.
func (x *schedule) swapMember() {
	if x.added >= 3 {
		return
	}
	x.added++
	x.swaps = true
	n := x.add(fmt.Sprintf("n%d", x.c.size+x.added))
	for i := range x.c.size {
		n.join = append(n.join, fmt.Sprintf("n%d", i+1))
	}
	n.boot()
	x.ending.Go(func() {
		for end := time.Now().Add(4 * time.Second); time.Now().Before(end); pass(20 * time.Millisecond) {
			if l := x.leading(); l != nil {
				if m := l.observer.find(n.id); m != nil && m.Voter {
					x.removeSome(l, n.id)
					return
				}
			}
		}
	})
}

func (x *schedule) removeSome(l *process, but string) {
	for _, m := range l.View().Members {
		if m.ID == but || rand.IntN(2) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
		defer cancel()
		if err := l.Remove(ctx, m.ID); err != nil {
			l.config.Logger.Debug("not removed", "error", err)
		}
		return
	}
}

// TestSchedules simulates random clusters and faults. The seed of a schedule determines the cluster and the faults.
// Runs with the same seed can still differ, because the order of events at the same virtual time depends on the
// scheduler of goroutines.
func TestSchedules(t *testing.T) {
	results := make(chan result, *schedules)
	begun := time.Now()
	t.Run("all", func(t *testing.T) {
		for i := range *schedules {
			t.Run(fmt.Sprintf("seed=%d", *seed+uint64(i)), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					x := newSchedule(t, *seed+uint64(i))
					defer func() {
						if t.Failed() || *traces {
							t.Logf("configuration %+v, events:\n%s", x.c, strings.Join(x.trace, "\n"))
						}
					}()
					r := x.run(12)
					x.note("%+v", r)
					results <- r
				})
			})
		}
	})
	close(results)
	var sum result
	n := 0
	for r := range results {
		n++
		sum.granted, sum.denied, sum.unknown, sum.refused = sum.granted+r.granted, sum.denied+r.denied, sum.unknown+r.unknown, sum.refused+r.refused
		sum.leases += r.leases
		sum.leaderships, sum.virtual, sum.lag = sum.leaderships+r.leaderships, sum.virtual+r.virtual, max(sum.lag, r.lag)
	}
	t.Logf("%d schedules, %v of virtual time in %v: %d granted, %d denied, %d uncertain, %d refused, %d leases, %d leaderships, log time at most %v behind",
		n, sum.virtual, time.Since(begun).Round(time.Millisecond), sum.granted, sum.denied, sum.unknown, sum.refused, sum.leases, sum.leaderships, sum.lag)
	if n > 0 && (sum.granted < 500*n || sum.leaderships < int64(3*n) || sum.unknown == 0 || sum.refused == 0 || sum.leases < 10*n) {
		t.Error("too few admitted requests, leases, leaderships or errors for a meaningful check")
	}
}
