package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// result holds the measurements of one target in one round or in all rounds.
type result struct {
	target   string
	round    int // from 1; 0 means all rounds
	values   values
	failures failures
	notes    []string // caveats on the figures
	latency  *hdrhistogram.Histogram
	good     int64
}

// results holds the results of a run.
type results struct {
	config      *config
	rounds      []*result
	totals      []*result // one for each target
	interrupted bool
}

// measureAll measures all targets in turn, round by round. If ctx is canceled, it returns
// the measurements so far, or an error if there are none.
func measureAll(ctx context.Context, c *config, stderr io.Writer) (*results, error) {
	all := &results{config: c}
	for number := range c.rounds {
		for _, t := range c.targets {
			if ctx.Err() != nil {
				break
			}
			show := newProgressLine(stderr, c, t.name, number)
			got, err := measure(ctx, c, t, number, show)
			if err != nil {
				return nil, err
			}
			if got.values[requests] > 0 {
				all.rounds = append(all.rounds, got)
			}
		}
	}
	all.interrupted = ctx.Err() != nil
	if len(all.rounds) == 0 {
		if all.interrupted {
			return nil, errNothing
		}
		return nil, errors.New("no request was answered after the warm-up")
	}
	for _, t := range c.targets {
		all.addTotal(t.name)
	}
	return all, nil
}

// addTotal adds the result of a target in all rounds. It does nothing if the target has no
// result of a round.
func (r *results) addTotal(name string) {
	total := &result{target: name, latency: newHistogram()}
	var list []values
	for _, one := range r.rounds {
		if one.target != name {
			continue
		}
		list = append(list, one.values)
		total.latency.Merge(one.latency)
		total.good += one.good
		for _, f := range one.failures {
			total.failures.add(f.Prefix, f.First, f.Count)
		}
		for _, note := range one.notes {
			if !slices.Contains(total.notes, note) {
				total.notes = append(total.notes, note)
			}
		}
	}
	if len(list) > 0 {
		total.values = mergeValues(list)
		r.totals = append(r.totals, total)
	}
}

// verdict returns an error if all replies of a target are errors, since the figures are
// then meaningless.
func (r *results) verdict() error {
	for _, t := range r.totals {
		if t.good == 0 {
			return fmt.Errorf("%s: every reply is an error: %s", t.target, t.failures[0].First)
		}
	}
	return nil
}

// result computes the figures of a round from its recorders and from the resource usage m.
func (r *round) result(m marks, interrupted bool) *result {
	sum := merged(r.recorders)
	out := &result{target: r.target.name, round: r.number + 1, values: noValues()}
	out.failures, out.latency, out.good = sum.failures, sum.latency, sum.counts.good()
	v := &out.values
	total := float64(sum.counts.total())
	v[requests] = total
	if total == 0 {
		return out
	}
	v[seconds] = time.Duration(sum.last - r.from).Seconds()
	v[perSecond] = float64(out.good) / v[seconds]
	v[deniedShare] = float64(sum.counts.denied) / total
	if !r.work.regular.limiter {
		v[deniedShare] = noValues()[deniedShare]
	}
	v[errorReplies] = float64(sum.counts.failed)
	v[errorShare] = v[errorReplies] / total
	v.setLatency(sum.latency)
	if r.rate > 0 {
		late := r.late()
		v[targetRate] = r.rate
		v[lateP99] = float64(late.ValueAtPercentile(99)) / 1e3
		v[lateMax] = float64(late.Max()) / 1e3
		if !interrupted {
			v[unsentRequests] = float64(r.unsent())
		}
	}
	v.setUsage(m, total)
	out.notes = r.notes(m, *v)
	return out
}

func (v *values) setLatency(h *hdrhistogram.Histogram) {
	if h.TotalCount() == 0 {
		return
	}
	v[mean] = h.Mean() / 1e3
	for _, p := range percentiles {
		v[p.into] = float64(h.ValueAtPercentile(p.of)) / 1e3
	}
}

func (v *values) setUsage(m marks, total float64) {
	lasted := time.Duration(m.end.at - m.warm.at).Seconds()
	v[generatorCores] = (m.end.own - m.warm.own) / lasted
	if !m.local || m.usageErr != nil {
		return
	}
	user, system := m.end.server.user-m.warm.server.user, m.end.server.system-m.warm.server.system
	v[serverUser] = user / total * 1e6
	v[serverSystem] = system / total * 1e6
	v[serverCPU] = v[serverUser] + v[serverSystem]
	v[serverCores] = (user + system) / lasted
	v[serverRSS] = float64(m.end.server.resident)
	v[serverGrowth] = float64(m.end.server.resident - m.begin.server.resident)
	v[serverGrowthEach] = v[serverGrowth] / total
}

// busyShare is the share of the cores above which the method notes reports them as busy. reachedShare is
// the share of -rate below which the method reports that the rate was not reached.
const (
	busyShare    = 0.9
	reachedShare = 0.98
)

// notes returns the caveats on the figures of a round.
func (r *round) notes(m marks, v values) (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	machine := float64(runtime.NumCPU())
	if v[generatorCores] > busyShare*float64(r.threads) {
		note("the generator used more than 90 %% of its %d cores; it may limit the throughput", r.threads)
	} else if v[generatorCores]+v[serverCores] > busyShare*machine {
		note("generator and target together used more than 90 %% of the %d cores of this machine; each may limit the other", runtime.NumCPU())
	}
	if v[targetRate] > 0 && (v[perSecond]+v[errorReplies]/v[seconds]) < reachedShare*v[targetRate] {
		note("the target or the generator did not keep up with -rate")
	}
	if v[lateP99] > 1000 {
		note("1 %% of the writes were more than 1 ms late, because the generator was busy or sockets were full; the latencies include the delay")
	}
	if v[unsentRequests] > 0 {
		note("some requests were due but not sent; the latencies do not include them")
	}
	if m.usageErr != nil && m.local {
		note("CPU and memory of the target are not available: %v", m.usageErr)
	}
	return notes
}
