package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/check"
	"github.com/throttledhq/throttled/tests/chaos/history"
)

// fleetSize is the number of sidecars.
const fleetSize = 4

// sidecars inflicts random faults on nodes and, concurrently, on sidecars with leases in hand. All admissions of all nodes and
// sidecars together must obey the limits.
func sidecars(ctx context.Context, l *lab) error {
	return l.sidecarsWith(ctx, fleetPlan{count: fleetSize}, newSingles)
}

// relaxedLeases is the value of the option upstream-leases for relaxed leases.
const relaxedLeases = "relaxed"

// sidecarsRelaxed is sidecars with relaxed leases: CL.THROTTLE may also admit the units that are restored within the longest
// lease.
func sidecarsRelaxed(ctx context.Context, l *lab) error {
	return l.sidecarsWith(ctx, fleetPlan{count: fleetSize, args: []string{"--upstream-leases", relaxedLeases}}, newSingles)
}

// longestLease returns the validity of the longest lease of a GCRA limit: a second, or an eighth of the time in which the limit
// is restored.
func longestLease(k *history.Key) time.Duration {
	return min(time.Second, time.Duration(k.Limit())*k.Period/time.Duration(k.Count)/8)
}

// slack returns the time that the rule of a key permits in addition.
func (f *fleet) slack(k *history.Key) (s check.Slack) {
	if f.relaxed && k.Form == history.Rate {
		s.Ahead = longestLease(k)
	}
	return s
}

// sidecarsWith runs the scenario sidecars with a workload.
func (l *lab) sidecarsWith(ctx context.Context, p fleetPlan, prepare func(context.Context, *fleet) (workload, error)) error {
	return l.withFleet(ctx, p, func(ctx context.Context, f *fleet) error {
		w, err := prepare(ctx, f)
		if err != nil {
			return err
		}
		load := f.load(ctx, l.rate, w)
		done, err := f.suffer(ctx, load)
		if ctx.Err() != nil {
			load.end()
			return errors.Join(err, ctx.Err())
		}
		f.judge(ctx, load)
		l.demand("faults", sum(done), l.faults)
		for _, name := range slices.Sorted(maps.Keys(done)) {
			l.out.note("  "+name, "%d", done[name])
		}
		return err
	})
}

// fleetPlan is the configuration of a fleet.
type fleetPlan struct {
	count int      // sidecars
	args  []string // additional arguments of each sidecar
	env   []string // additional environment of each process
}

// withFleet starts a cluster and sidecars, runs the function happen, and closes both.
func (l *lab) withFleet(ctx context.Context, p fleetPlan, happen func(context.Context, *fleet) error) (err error) {
	c, err := l.start(ctx, plan{args: l.variant(), env: p.env})
	defer func() { err = errors.Join(err, c.close()) }()
	if err != nil {
		return err
	}
	f, err := c.newFleet(ctx, p)
	defer func() { err = errors.Join(err, f.close()) }()
	if err != nil {
		return err
	}
	return happen(ctx, f)
}

// ofNodes lists the faults of nodes.
func (f *fleet) ofNodes() []fault {
	return []fault{
		{"kill -9 of the leader", true, onLeader(killed)},
		{"kill -9 of a follower", false, onFollower(killed)},
		{"kill -9 of all nodes", false, killAll},
		{"a pause of the leader", false, onLeader(leaderPaused)},
		{"a pause of a follower", false, onFollower(paused)},
		{"the leader cut off in both directions", false, onLeader(leaderCutOff(true, true))},
		{"the leader cannot send", false, onLeader(leaderCutOff(false, true))},
		{"the leader cannot receive", false, onLeader(leaderCutOff(true, false))},
		{"a lossy node", false, onAny(lossy)},
		{"connections of a node reset", false, onAny(reset)},
		{"the leader stopped", true, onLeader(restarted)},
		{"a hand-over", true, transferred},
		{"a hand-over cut in the middle", false, handOverCut},
		{"a wrong wall clock on the leader", false, onLeader(wrongClock)},
	}
}

// ofSidecars lists the faults of sidecars.
func (f *fleet) ofSidecars() []fault {
	return []fault{
		{"kill -9 of a sidecar", false, f.onSidecar(f.killed)},
		{"kill -9 of all sidecars", false, f.allKilled},
		{"a pause of a sidecar", false, f.onSidecar(paused)},
		{"a sidecar stopped", false, f.onSidecar(f.stopped)},
		{"a sidecar cut off in both directions", false, f.onSidecar(cutOff(true, true))},
		{"a sidecar cannot send", false, f.onSidecar(cutOff(false, true))},
		{"a sidecar cannot receive", false, f.onSidecar(cutOff(true, false))},
		{"connections of a sidecar reset", false, f.onSidecar(reset)},
		{"a wrong wall clock on a sidecar", false, f.onSidecar(wrongClock)},
	}
}

// suffer inflicts faults on nodes and on sidecars concurrently, until the duration of the scenario has passed or the required
// counts are reached. It returns the number of faults by name.
func (f *fleet) suffer(ctx context.Context, load *fleetLoad) (done map[string]int, err error) {
	l := f.lab
	done = map[string]int{}
	t := &trial{cluster: f.cluster}
	end := time.Now().Add(l.lasting(l.mixLasts()))
	var mu sync.Mutex
	more := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Before(end) && ctx.Err() == nil && !l.enough(sum(done), int(load.decided.Load()))
	}
	var errs [2]error
	var wait sync.WaitGroup
	for i, list := range [][]fault{f.ofNodes(), f.ofSidecars()} {
		r := rand.New(rand.NewPCG(l.seed, uint64(i)))
		wait.Go(func() {
			for n := r.IntN(len(list)); more() && errs[i] == nil; n++ {
				if n%len(list) == 0 { // each fault once, in random order, before any of them is repeated
					r.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
				}
				one := list[n%len(list)]
				if err := one.inflict(ctx, t, r); err != nil {
					errs[i] = fmt.Errorf("%s: %w", one.name, err)
				}
				mu.Lock()
				done[one.name]++
				mu.Unlock()
				sleep(ctx, between(r, 0, 700*time.Millisecond)) // time for leases between faults
			}
		})
	}
	wait.Wait()
	return done, errors.Join(errs[:]...)
}

// judge ends the load, and checks the admissions and the state of the cluster.
func (f *fleet) judge(ctx context.Context, load *fleetLoad) {
	var findings []finding
	add := func(checker string, err error) {
		if err != nil {
			findings = append(findings, finding{checker, err.Error()})
		}
	}
	add("healing", f.healthy(ctx, healWithin))
	add("healing", f.connected(ctx))
	ops := load.end()
	f.countAll()
	over := f.judgeAdmissions(ops, func(text string) { findings = append(findings, finding{"interval", text}) })
	findings = append(findings, load.settled(ctx, f, ops)...)
	differ, err := f.agree(ctx)
	add("agreement", differ)
	add("healing", err)
	findings = append(findings, judgeProcesses(f.all())...)
	for _, c := range load.clients {
		for _, text := range c.errs {
			findings = append(findings, finding{"replies", text})
		}
	}
	add("pressure", load.pressure())
	f.summary(load, ops, over)
	f.lab.out.found(findings)
	if len(findings) > 0 {
		(&trial{cluster: f.cluster}).keepHistory(ops)
	}
}

// judgeAdmissions checks on each key that no interval has more admissions, of all nodes and sidecars together, than the
// algorithm permits. It returns the number of units above the limits, summed over the worst intervals of all keys.
func (f *fleet) judgeAdmissions(ops []history.Op, found func(text string)) (over int) {
	groups := history.ByKey(ops)
	byName := func(a, b *history.Key) int { return strings.Compare(a.Name, b.Name) }
	for _, k := range slices.SortedFunc(maps.Keys(groups), byName) {
		judged, of := check.Interval, groups[k]
		if k.Form == history.Window {
			judged = check.Window
		}
		s := judged(k, of, f.slack(k))
		f.lab.out.note("  closest to the limit: "+k.Name, "%d units in %.3f s, %.2f over the limit", s.Granted, float64(s.To-s.From)/1e9, s.Over)
		if s.Violated {
			over += int(math.Ceil(s.Over))
			found(describe(k) + ": " + s.String())
		}
	}
	return over
}

// restoreWithin is the time after which all keys have their full limit again: the longest time in which a limit is restored
// (two windows of SLIDING), and the longest lease. The rest is the time that requests take on a busy machine.
const restoreWithin = 4*time.Second + time.Second + 5*time.Second

// peek is a command that reads limits, and a function that returns an error unless the reply shows that they are restored.
type peek struct {
	words []string
	full  func(*reply) error
}

// peek returns the peek of a limit.
func (w *windowKey) peek() peek { return peek{w.request(0).words, oneOf(w).full} }

// restored waits until all units of all limits are available again, including those that were leased to killed sidecars.
func (f *fleet) restored(ctx context.Context, peeks []peek) error {
	begin := f.clock.now()
	err := await(ctx, restoreWithin, func() (bool, error) {
		for _, p := range peeks {
			r, err := askOnce(f.nodes[0].addr(), patience, p.words...)
			if err == nil {
				err = p.full(&r)
			}
			if err != nil {
				return false, err
			}
		}
		return true, nil
	})
	f.lab.out.note("all limits restored after the load", "%.1f s", float64(f.clock.now()-begin)/1e9)
	return err
}

// pressure returns an error if too few requests were decided or refused for a clean result to be meaningful.
func (l *fleetLoad) pressure() error {
	if decided := l.decided.Load(); l.limited.Load() == 0 || decided < 1000 {
		return fmt.Errorf("%d decisions, of which %d are refusals; want at least 1000, and some refusals", decided, l.limited.Load())
	}
	return nil
}

// pressure returns an error if too few requests were decided with leases for a clean result to be meaningful.
func (s *leaseSums) pressure() error {
	if s.drawn == 0 || s.admitted == 0 || s.refused == 0 {
		return fmt.Errorf("the sidecars have drawn %d units, admitted %d requests and refused %d; want some of each", s.drawn, s.admitted, s.refused)
	}
	return nil
}

// summary prints the figures of a run.
func (f *fleet) summary(load *fleetLoad, ops []history.Op, over int) {
	out := f.lab.out
	unknown, refused, downs := 0, map[string]int{}, 0
	for i := range ops {
		if ops[i].Outcome == history.Unknown {
			unknown++
		}
	}
	for _, c := range load.clients {
		downs += c.downs
		for word, n := range c.refused {
			refused[word] += n
		}
	}
	out.note("requests", "%d decided, %d of them refused, %d unknown; failed dials %d; errors that charged nothing: %s", load.decided.Load(), load.limited.Load(), unknown, downs, counts(refused))
	f.showLeases()
	out.note("units lost with killed sidecars", "%d", f.sums.stranded)
	f.lab.demand("checked decisions", int(load.decided.Load()), f.lab.ops)
	out.atMost("over-admissions", float64(over), 0, "")
}
