package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// config holds the values of the flags.
type config struct {
	targets []target
	work    workload

	conns    int
	depth    int     // requests in one write
	threads  int     // cores that the generator may use
	rate     float64 // requests per second in total; 0: closed loop
	duration time.Duration
	requests int64 // 0: a round is limited by duration only
	warmup   time.Duration
	rounds   int
	timeout  time.Duration // maximum wait for outstanding replies

	output   string // format of the report: a key of the map reports
	plot     string // file name, or ""
	progress string // "yes", "no", or "": yes if stderr is a terminal
}

// Upper bounds of flags. They protect the machine from typing errors.
const (
	maxConns   = 50_000
	maxDepth   = 10_000
	maxKeySize = 4096
	maxRate    = 1e8
)

// never is longer than any round.
const never = 1000 * time.Hour

const usageHead = `Usage: throttled-bench [flags] [TARGET ...]

Measures the throughput, latency and CPU cost of servers that speak the Redis protocol.
A TARGET is host:port, redis://[user:password@]host:port or the path of a Unix socket;
the default is %s. With several targets, the rounds alternate between them, and
ratios are relative to the first.

`

// texts holds the flags that are parsed by fill instead of the flag package.
type texts struct{ dist, limit, command, last, denied string }

// parseFlags parses the command line. If the command line requests help, parseFlags writes
// the help text to the writer help and returns flag.ErrHelp.
func parseFlags(args []string, help io.Writer) (*config, error) {
	c := &config{}
	t := &texts{}
	flags := flag.NewFlagSet("throttled-bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	define(flags, c, t)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintf(help, usageHead, defaultTarget)
		flags.SetOutput(help)
		flags.PrintDefaults()
		return nil, err
	} else if err != nil {
		return nil, err
	}
	if err := parseTargets(c, flags.Args()); err != nil {
		return nil, err
	}
	set := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if c.requests > 0 && !set["duration"] {
		c.duration = never
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, t.fill(&c.work, set)
}

func define(flags *flag.FlagSet, c *config, t *texts) {
	flags.IntVar(&c.conns, "conns", 50, "connections to the target")
	flags.IntVar(&c.depth, "depth", 1, "requests in one write: the pipeline depth")
	flags.IntVar(&c.threads, "threads", runtime.NumCPU(), "cores that the generator may use")
	flags.Float64Var(&c.rate, "rate", 0, "requests per second in total, sent on a fixed schedule (open loop); 0: as fast as replies arrive (closed loop)")
	flags.DurationVar(&c.duration, "duration", 10*time.Second, "duration of a round, after the warm-up")
	flags.Int64Var(&c.requests, "requests", 0, "requests per round, after the warm-up; without -duration, a round has no time limit")
	flags.DurationVar(&c.warmup, "warmup", time.Second, "time before a round that is not measured")
	flags.IntVar(&c.rounds, "rounds", 1, "rounds per target; the report contains the medians")
	flags.DurationVar(&c.timeout, "timeout", 10*time.Second, "maximum wait for outstanding replies, after which the run fails")
	flags.StringVar(&c.output, "output", "text", "format of the report: "+strings.Join(reportNames(), ", "))
	flags.StringVar(&c.plot, "plot", "", "`file` for a plot of latency by percentile, .svg or .png")
	flags.BoolFunc("progress", "show a progress line on stderr (default: if stderr is a terminal)", func(s string) error {
		show, err := strconv.ParseBool(s)
		c.progress = map[bool]string{true: "yes", false: "no"}[show]
		return err
	})
	flags.Int64Var(&c.work.layout.keys, "keys", 1_000_000, "number of keys")
	flags.IntVar(&c.work.layout.size, "key-size", 16, "bytes of a key: the prefix, and a number padded with zeros")
	flags.StringVar(&c.work.layout.prefix, "prefix", "bench:", "prefix of every key")
	flags.StringVar(&t.dist, "dist", "uniform", "distribution of the keys: uniform, zipf[:exponent], sequential, or hot (a single key)")
	flags.Uint64Var(&c.work.seed, "seed", 1, "seed of the random choices; equal seeds choose equal keys")
	flags.StringVar(&t.limit, "limit", "15 30 60", "parameters of CL.THROTTLE: `max_burst count period [quantity]`")
	flags.StringVar(&t.command, "command", "", "`template` of another command, quoted as for redis-cli; {key} is a key, {n} a consecutive number, {rand} a random number below -keys")
	flags.StringVar(&t.last, "last", "", "`template` of an uncounted command at the end of each write, such as WAIT 1 0: latencies include its reply; not with -rate")
	flags.StringVar(&t.denied, "denied", "", "`share` of CL.THROTTLE requests to be denied, 0 to 1: these requests are sent to exhausted keys. All other requests have a limit that never denies, unless -limit is given")
}

func parseTargets(c *config, args []string) error {
	if len(args) == 0 {
		args = []string{defaultTarget}
	}
	for _, arg := range args {
		t, err := parseTarget(arg)
		if err != nil {
			return fmt.Errorf("target %q: %w", withoutPassword(arg), err)
		}
		c.targets = append(c.targets, t)
	}
	return nil
}

// check returns an error if a value is out of range or unknown.
func (c *config) check() error {
	keys := &c.work.layout
	return errors.Join(
		within("conns", c.conns, 1, maxConns),
		within("depth", c.depth, 1, maxDepth),
		within("threads", c.threads, 1, 1024),
		within("rate", c.rate, 0, maxRate),
		within("duration", c.duration, time.Millisecond, never),
		within("requests", c.requests, 0, 1e15),
		within("warmup", c.warmup, 0, never),
		within("rounds", c.rounds, 1, 1000),
		within("timeout", c.timeout, time.Millisecond, never),
		within("keys", keys.keys, 1, 1e15),
		within("key-size", keys.size, 1, maxKeySize),
		keys.check(),
		known("output", c.output, reportNames()),
		c.checkPlot(),
	)
}

func within[N int | int64 | float64 | time.Duration](name string, got, least, most N) error {
	if got >= least && got <= most {
		return nil
	}
	return fmt.Errorf("-%s %v: must be %v to %v", name, got, least, most)
}

func known(name, got string, all []string) error {
	if slices.Contains(all, got) {
		return nil
	}
	return fmt.Errorf("-%s %q: must be one of %s", name, got, strings.Join(all, ", "))
}

func (c *config) checkPlot() error {
	if c.plot == "" {
		return nil
	}
	return known("plot", strings.ToLower(filepath.Ext(c.plot)), []string{".svg", ".png"})
}

// fill parses t into the workload. The keys of set are the flags that were given.
func (t *texts) fill(w *workload, set map[string]bool) (err error) {
	if w.dist, err = parseDist(t.dist); err != nil {
		return fmt.Errorf("-dist %q: %w", t.dist, err)
	}
	if t.last != "" {
		if w.last, err = parseTemplate(t.last, w.layout); err != nil {
			return fmt.Errorf("-last %q: %w", t.last, err)
		}
		if set["rate"] {
			return errors.New("-last cannot be combined with -rate")
		}
	}
	if t.command != "" {
		for _, other := range []string{"limit", "denied"} {
			if set[other] {
				return fmt.Errorf("-%s applies to CL.THROTTLE only and cannot be combined with -command", other)
			}
		}
		if w.regular, err = parseTemplate(t.command, w.layout); err != nil {
			return fmt.Errorf("-command %q: %w", t.command, err)
		}
		return nil
	}
	if set["denied"] {
		if w.denied, err = parseShare(t.denied); err != nil {
			return fmt.Errorf("-denied %q: %w", t.denied, err)
		}
		w.exhausted = throttle(exhaustedLimit, w.layout)
		if !set["limit"] {
			t.limit = ampleLimit
		}
	}
	if err := checkLimit(t.limit); err != nil {
		return fmt.Errorf("-limit %q: %w", t.limit, err)
	}
	w.regular = throttle(t.limit, w.layout)
	return nil
}

func parseShare(s string) (float64, error) {
	share, err := strconv.ParseFloat(s, 64)
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, errors.New("must be 0 to 1")
	}
	return share, nil
}

// checkLimit returns an error unless s is three or four integers. The target checks
// their ranges.
func checkLimit(s string) error {
	words := strings.Fields(s)
	if len(words) != 3 && len(words) != 4 {
		return errors.New("must be max_burst count period [quantity]")
	}
	for _, w := range words {
		if _, err := strconv.ParseInt(w, 10, 64); err != nil {
			return fmt.Errorf("%q is not an integer", w)
		}
	}
	return nil
}

func reportNames() []string { return slices.Sorted(maps.Keys(reports)) }
