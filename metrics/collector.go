package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/throttledhq/throttled/cluster"
	"github.com/throttledhq/throttled/internal/histogram"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/ruleset/counts"
	"github.com/throttledhq/throttled/server/statistics"
	"github.com/throttledhq/throttled/topology"
)

// row declares one metric.
type row struct {
	name   string
	kind   kind
	labels []string
	help   string
	// collect adds the values of the metric in a snapshot.
	collect func(s *snapshot, out *values)
}

// kind is the type of a metric.
type kind string

const (
	counter      kind = "counter"
	gauge        kind = "gauge"
	distribution kind = "histogram"
)

// tables lists the metrics that collector exports.
var tables = [][]row{serverRows, memoryRows, commandRows, sidecarRows, clusterRows, rulesRows}

// snapshot is the statistics of one scrape.
type snapshot struct {
	version string
	server  statistics.Server
	view    *topology.View // of a standalone server: without members
	status  topology.Status
	commits cluster.CommitStats
	logged  bool // the server has a log, so status and commits are set

	hasRules   bool
	newest     ruleset.Version
	active     *ruleset.Active
	file       ruleset.RulesFile
	fileActive bool
	uncounted  int
	limits     []counts.Row
	leases     []counts.LeaseRow

	certificates map[string]time.Duration // time until expiry, by the label "certificate"
}

// read reads the statistics of all sources.
func (c *Sources) read() *snapshot {
	s := &snapshot{version: c.Version, server: c.Server(), view: &topology.View{Leading: true}}
	if c.Node != nil {
		s.view, s.status, s.commits, s.logged = c.Node.View(), c.Node.Status(), c.Node.CommitStats(), true
	}
	if c.Rules != nil {
		s.readRules(c.Rules)
	}
	if c.Certificates != nil {
		s.certificates = map[string]time.Duration{}
		for name, end := range c.Certificates() {
			s.certificates[name] = time.Until(end)
		}
	}
	return s
}

// readRules reads the state of the rules.
func (s *snapshot) readRules(r *ruleset.Store) {
	s.hasRules, s.newest, s.active, s.file = true, r.Newest(), r.Active(), r.File()
	version := r.FileVersion()
	s.fileActive = version > 0 && version == s.active.Version
	s.uncounted, s.limits, s.leases = r.Counts().Shared(), r.Counts().Rows(), r.Counts().LeaseRows()
}

// collector exports the metrics of tables. It implements prometheus.Collector.
type collector struct {
	sources *Sources
	descs   map[string]*prometheus.Desc // by name
}

func newCollector(s *Sources) *collector {
	c := &collector{s, map[string]*prometheus.Desc{}}
	for _, table := range tables {
		for i := range table {
			r := &table[i]
			c.descs[r.name] = prometheus.NewDesc(r.name, r.help, r.labels, nil)
		}
	}
	return c
}

// Describe sends the descriptions of all metrics.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect reads all statistics, and sends the metrics.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.sources.read()
	for _, table := range tables {
		for i := range table {
			table[i].collect(s, &values{c.descs[table[i].name], table[i].kind, out})
		}
	}
}

// values receives the values of one metric.
type values struct {
	desc *prometheus.Desc
	kind kind
	out  chan<- prometheus.Metric
}

// add adds a value with the values of the labels.
func (v *values) add(value float64, labels ...string) {
	valueType := prometheus.GaugeValue
	if v.kind == counter {
		valueType = prometheus.CounterValue
	}
	v.send(prometheus.NewConstMetric(v.desc, valueType, value, valid(labels)...))
}

// count adds an integer.
func (v *values) count(n int64, labels ...string) { v.add(float64(n), labels...) }

// is adds 1 if the condition is true, and otherwise 0.
func (v *values) is(condition bool) {
	if condition {
		v.add(1)
	} else {
		v.add(0)
	}
}

// Exported buckets of histograms. Shorter durations than the first bound are in the first bucket; longer ones than the last
// bound, and larger numbers, are in the bucket +Inf.
const (
	firstDuration, lastDuration = 3, 23 // 8.2 µs to 8.6 s
	lastNumber                  = 15    // 32768
)

// durations adds a histogram of durations, in seconds.
func (v *values) durations(c *histogram.Counts, labels ...string) {
	buckets := map[float64]uint64{}
	total := uint64(0)
	for i, n := range c.Buckets {
		total += uint64(n)
		if i >= firstDuration && i <= lastDuration {
			buckets[histogram.DurationBound(i).Seconds()] = total
		}
	}
	v.send(prometheus.NewConstHistogram(v.desc, total, time.Duration(c.Sum).Seconds(), buckets, valid(labels)...))
}

// numbers adds a histogram of numbers.
func (v *values) numbers(c *histogram.Counts, labels ...string) {
	buckets := map[float64]uint64{}
	total := uint64(0)
	for i, n := range c.Buckets {
		total += uint64(n)
		if i <= lastNumber {
			buckets[float64(histogram.NumberBound(i))] = total
		}
	}
	v.send(prometheus.NewConstHistogram(v.desc, total, float64(c.Sum), buckets, valid(labels)...))
}

// send sends a metric, or the error for which it cannot be exported.
func (v *values) send(m prometheus.Metric, err error) {
	if err != nil {
		m = prometheus.NewInvalidMetric(v.desc, err)
	}
	v.out <- m
}

// valid returns labels without bytes that Prometheus does not accept.
func valid(labels []string) []string {
	for i := range labels {
		labels[i] = strings.ToValidUTF8(labels[i], "?")
	}
	return labels
}

// Family describes one metric.
type Family struct {
	Name, Type, Help string
	Labels           []string
}

// Families lists all metrics of this package, without those of the Go runtime and of the process.
func Families() (list []Family) {
	for _, table := range tables {
		for _, r := range table {
			list = append(list, Family{r.name, string(r.kind), r.help, r.labels})
		}
	}
	for _, form := range []requestForm{httpForm, grpcForm} {
		list = append(list,
			Family{form.total, string(counter), form.totalHelp, []string{form.label, "code"}},
			Family{form.seconds, string(distribution), form.secondsHelp, []string{form.label}})
	}
	return list
}
