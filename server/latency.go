package server

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/throttledhq/throttled/internal/histogram"
	"github.com/throttledhq/throttled/resp"
)

// latencyMonitor holds samples of events that took at least latency-monitor-threshold. A sample is the longest duration
// of an event within one second.
type latencyMonitor struct {
	mu     sync.Mutex
	events map[string]*latencyEvent
}

type latencyEvent struct {
	samples []latencySample // oldest first
	worst   time.Duration
}

type latencySample struct {
	second int64 // Unix time
	took   time.Duration
}

const latencySamples = 160 // maximum number of samples of each event, as in Redis

func (m *latencyMonitor) add(event string, took time.Duration) {
	second := time.Now().Unix()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.events == nil {
		m.events = map[string]*latencyEvent{}
	}
	e := m.events[event]
	if e == nil {
		e = &latencyEvent{}
		m.events[event] = e
	}
	e.worst = max(e.worst, took)
	if n := len(e.samples); n > 0 && e.samples[n-1].second == second {
		e.samples[n-1].took = max(e.samples[n-1].took, took)
		return
	}
	e.samples = append(e.samples, latencySample{second, took})
	if over := len(e.samples) - latencySamples; over > 0 {
		e.samples = append(e.samples[:0], e.samples[over:]...)
	}
}

// history returns the samples of an event, oldest first.
func (m *latencyMonitor) history(event string) []latencySample {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.events[event]; e != nil {
		return slices.Clone(e.samples)
	}
	return nil
}

// reset deletes the named events, or all events if names is empty, and returns the number of deleted events.
func (m *latencyMonitor) reset(names [][]byte) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(names) == 0 {
		n := len(m.events)
		m.events = nil
		return n
	}
	n := 0
	for _, name := range names {
		if m.events[string(name)] != nil {
			delete(m.events, string(name))
			n++
		}
	}
	return n
}

// latencySummary describes an event in LATENCY LATEST and LATENCY DOCTOR.
type latencySummary struct {
	event  string
	latest latencySample
	worst  time.Duration
	count  int
}

func (m *latencyMonitor) summaries() []latencySummary {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []latencySummary
	for name, e := range m.events {
		list = append(list, latencySummary{name, e.samples[len(e.samples)-1], e.worst, len(e.samples)})
	}
	slices.SortFunc(list, func(a, b latencySummary) int { return strings.Compare(a.event, b.event) })
	return list
}

func cmdLatencyLatest(c *client, _ [][]byte) error {
	list := c.srv.latency.summaries()
	c.out.Array(len(list))
	for _, l := range list {
		c.out.Array(4)
		c.out.Text(l.event)
		c.out.Int(l.latest.second)
		c.out.Int(l.latest.took.Milliseconds())
		c.out.Int(l.worst.Milliseconds())
	}
	return nil
}

func cmdLatencyHistory(c *client, args [][]byte) error {
	list := c.srv.latency.history(string(args[2]))
	c.out.Array(len(list))
	for _, sample := range list {
		c.out.Array(2)
		c.out.Int(sample.second)
		c.out.Int(sample.took.Milliseconds())
	}
	return nil
}

func cmdLatencyReset(c *client, args [][]byte) error {
	c.out.Int(int64(c.srv.latency.reset(args[2:])))
	return nil
}

func cmdLatencyDoctor(c *client, _ [][]byte) error {
	threshold := c.srv.opts.Get().LatencyMonitorThreshold
	list := c.srv.latency.summaries()
	var b strings.Builder
	switch {
	case threshold == 0:
		b.WriteString("No events are sampled: latency-monitor-threshold is 0. Set it to the minimum duration of a sample, in milliseconds.\n")
	case len(list) == 0:
		fmt.Fprintf(&b, "No event has taken %v or more since the server was started or LATENCY RESET was called.\n", threshold)
	}
	for _, l := range list {
		fmt.Fprintf(&b, "%s: %d samples of %v or more, the worst %v, the latest %v at %s.\n",
			l.event, l.count, threshold, l.worst, l.latest.took, time.Unix(l.latest.second, 0).UTC().Format(time.RFC3339))
	}
	c.out.Verbatim(b.String())
	return nil
}

// cmdLatencyHistogram replies with a cumulative histogram for each command: for each bound in microseconds, the number
// of runs that took at most that long. Bounds at which the number does not change are omitted.
func cmdLatencyHistogram(c *client, args [][]byte) error {
	var list []*command
	if len(args) == 2 {
		list = c.commands.every
	}
	for _, name := range args[2:] {
		if cmd := c.commands.named(string(name)); cmd != nil {
			list = append(append(list, cmd), cmd.subs...)
		}
	}
	list = slices.DeleteFunc(slices.Clone(list), func(cmd *command) bool {
		return c.srv.stats.of(cmd).calls.Load() == 0
	})
	c.out.Map(len(list))
	for _, cmd := range list {
		c.out.Text(cmd.name)
		replyHistogram(&c.out, c.srv.stats.of(cmd))
	}
	return nil
}

func replyHistogram(out *resp.Reply, cs *commandStats) {
	var bounds, counts []int64
	total := int64(0)
	times := cs.times.Load()
	for i, n := range times.Buckets {
		if n > 0 {
			total += n
			bounds = append(bounds, histogram.DurationBound(i).Microseconds())
			counts = append(counts, total)
		}
	}
	out.Map(2)
	out.Text("calls")
	out.Int(total)
	out.Text("histogram_usec")
	out.Map(len(bounds))
	for i := range bounds {
		out.Int(bounds[i])
		out.Int(counts[i])
	}
}
