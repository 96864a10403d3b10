// Command chaos tests that a cluster of throttled never admits more than its limits under
// faults. It runs real nodes, each in its own network namespace. Clients charge many
// limits while faults are injected, and the recorded history is checked against the
// guarantees. Some scenarios also measure, for example the time without decisions. The
// result that a measurement must reach is its bar. The command exits with 1 if a guarantee
// was violated or a bar was missed.
//
//	chaos short      a sample of most faults, in less than a minute
//	chaos mix        random faults: processes, pauses, network, clocks
//	chaos failover   kill -9 of the leader: the time until another node decides
//	chaos handover   planned changes of the leader: the time without decisions
//	chaos follower   kill -9 of followers: no effect on the other nodes
//	chaos killall    kill -9 of all nodes together: no acknowledged charge is lost
//	chaos clock      wrong wall clocks while leaders change
//	chaos membership nodes that are added, removed, and wiped
//	chaos heartbeats nodes with different heartbeats, and a heartbeat that changes while leaders change
//	chaos majority-loss a majority is down for a while, during which limits are restored
//	chaos old-copy   data directories that are replaced by old copies
//	chaos fence      a recovered cluster whose lost nodes return
//	chaos disk       disks that are full, fail, hang and are slow
//	chaos rogue      stolen keys of nodes, forged votes
//	chaos rules      a change of the rules every 100 ms while leaders are killed: each decision has one version
//	chaos sidecars   faults of nodes and of sidecars with leases: no limit is exceeded
//	chaos sidecars-relaxed   the same with relaxed leases: no limit is exceeded by more than the bound
//	chaos sidecars-rules   sidecars with requests of several limits, by rules and by CL.ALL: each limit is charged
//	chaos shares     two sidecars compete for a limit, and their demand is swapped
//	chaos mutants    deliberate bugs: a checker must find each of them
//	chaos all        all scenarios
//	chaos check FILE checks a saved history
//
// With -bars, each scenario runs at the size for which its bar is stated, and fails if it
// does not reach that size.
//
// The faults are determined by a seed, which is printed. A run with the same seed inflicts
// the same faults, but not at exactly the same times. The program requires root, and Linux
// with network namespaces.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// scenario is a named test of a cluster.
type scenario struct {
	name string
	run  func(ctx context.Context, l *lab) error
}

func scenarios() []scenario {
	return []scenario{
		{"short", short},
		{"mix", mix},
		{"failover", failover},
		{"handover", handover},
		{"follower", follower},
		{"killall", killall},
		{"clock", clockScenario},
		{"membership", membership},
		{"heartbeats", heartbeats},
		{"majority-loss", majorityLoss},
		{"old-copy", oldCopy},
		{"fence", fence},
		{"disk", disk},
		{"rogue", rogue},
		{"rules", rulesScenario},
		{"sidecars", sidecars},
		{"sidecars-relaxed", sidecarsRelaxed},
		{"sidecars-rules", sidecarsRules},
		{"shares", shares},
		{"mutants", mutants},
	}
}

// repository is the path of the repository root, relative to the directory of this
// program. Run the program with go run -C tests/chaos.
const repository = "../.."

var errFailed = errors.New("a guarantee was violated or a bar was missed")

func main() {
	if err := execute(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func execute(args []string) error {
	s, names, err := parse(args)
	if err != nil {
		return err
	}
	if len(names) > 0 && names[0] == "check" {
		return checkFiles(names[1:], os.Stdout)
	}
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	l := newLab(s, &report{w: os.Stdout, verbose: s.verbose})
	if err := l.open(); err != nil {
		return err
	}
	err = l.runAll(ctx, chosen)
	return errors.Join(err, l.close(err != nil))
}

func newLab(s settings, out *report) *lab {
	return &lab{settings: s, out: out, random: rand.New(rand.NewPCG(s.seed, 0))}
}

// parse reads flags and names. Flags may precede and follow the names.
func parse(args []string) (s settings, names []string, err error) {
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.Uint64Var(&s.seed, "seed", 0, "seed of the faults; 0 selects one at random")
	f.DurationVar(&s.last, "for", 0, "maximum duration of mix, sidecars and clock, duration of rules; 0 means their default")
	f.IntVar(&s.faults, "faults", 0, "faults that mix and sidecars must inflict, otherwise it fails; 0 means as many as time permits")
	f.IntVar(&s.ops, "ops", 0, "decisions that mix and sidecars must check, otherwise it fails; 0 means as many as time permits")
	f.BoolVar(&s.bars, "bars", false, "run at the sizes of the bars: 300 faults, 1,000,000 decisions, 100 kills...")
	f.IntVar(&s.times, "times", 0, "repetitions of the scenarios that measure; 0 means their default")
	f.IntVar(&s.nodes, "nodes", 3, "nodes of the cluster")
	f.IntVar(&s.rate, "rate", usualRate, "requests per second; pipelines per second of sidecars")
	f.StringVar(&s.dir, "dir", "", "directory for logs and histories; by default a temporary one")
	f.StringVar(&s.bin, "bin", "", "program to test, built with -tags chaos; by default it is built")
	f.StringVar(&s.only, "only", "", "the only bug that mutants tests")
	f.BoolVar(&s.keep, "keep", false, "keep the directory of a run without findings")
	f.BoolVar(&s.verbose, "v", false, "print each fault")
	for len(args) > 0 {
		if err := f.Parse(args); err != nil {
			return s, nil, err
		}
		if args = f.Args(); len(args) > 0 {
			names, args = append(names, args[0]), args[1:]
		}
	}
	if s.seed == 0 {
		s.seed = rand.Uint64()
	}
	if s.nodes < 1 || s.rate < 1 {
		return s, nil, errors.New("-nodes and -rate must be at least 1")
	}
	if s.bars {
		s.raise()
	}
	return s, names, nil
}

// The sizes of mix with -bars, and the rates without and with -bars in requests per second. At
// usualRate, a run with -bars would take twice as long.
const (
	barFaults = 300
	barOps    = 1_000_000
	usualRate = 800
	barRate   = 1600
)

// raise sets the sizes that the bars require, unless sizes were given by flags.
func (s *settings) raise() {
	if s.faults == 0 {
		s.faults = barFaults
	}
	if s.ops == 0 {
		s.ops = barOps
	}
	if s.rate == usualRate {
		s.rate = barRate
	}
}

// choose returns the scenarios with the given names.
func choose(names []string) (chosen []scenario, err error) {
	if len(names) == 0 {
		return nil, errors.New("name a scenario, or all; the comment at the top of tests/chaos/main.go lists them")
	}
	for _, name := range names {
		found := false
		for _, s := range scenarios() {
			if s.name == name || name == "all" {
				chosen, found = append(chosen, s), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no scenario %q", name)
		}
	}
	return chosen, nil
}

// runAll runs scenarios in order. It continues after a failure.
func (l *lab) runAll(ctx context.Context, chosen []scenario) error {
	l.out.print("seed %d", l.seed)
	var errs []error
	for _, s := range chosen {
		begin := time.Now()
		l.out.print("\n%s", strings.ToUpper(s.name))
		if err := s.run(ctx, l); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
			l.out.print("  %v", err)
		}
		l.out.print("  %s took %.1f s", s.name, time.Since(begin).Seconds())
		if ctx.Err() != nil {
			break
		}
	}
	if l.out.failed() {
		errs = append(errs, errFailed)
	}
	return errors.Join(errs...)
}
