package metrics

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/throttledhq/throttled/metrics"
)

const deploy = "../../deploy/"

// query is an expression of PromQL, and its place in deploy/.
type query struct{ place, text string }

// alertQueries returns the queries of the alert rules, after the checks of promtool.
func alertQueries(t *testing.T) (list []query) {
	t.Helper()
	groups, errs := rulefmt.ParseFile(deploy+"alerts.yml", false, model.UTF8Validation)
	for _, err := range errs {
		t.Error(err)
	}
	if len(errs) > 0 {
		t.FailNow()
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			list = append(list, query{"alert " + r.Alert, r.Expr})
		}
	}
	return list
}

// dashboard is the part of a Grafana dashboard that has queries.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(deploy + "grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// variables are the variables of Grafana, with the values that the test uses.
var variables = strings.NewReplacer("$__rate_interval", "1m", "$job", "throttled", "$domain", ".*")

// labelValues is the query of a variable of a dashboard.
var labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

// dashboardQueries returns the queries of the dashboard.
func dashboardQueries(t *testing.T) (list []query) {
	t.Helper()
	d := readDashboard(t)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			list = append(list, query{"panel " + p.Title, variables.Replace(target.Expr)})
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := labelValues.FindStringSubmatch(v.Definition)
		if m == nil {
			t.Errorf("variable %s: cannot read the query %s", v.Name, v.Definition)
			continue
		}
		list = append(list, query{"variable " + v.Name, "sum by (" + m[2] + ") (" + variables.Replace(m[1]) + ")"})
	}
	return list
}

func allQueries(t *testing.T) []query { return append(alertQueries(t), dashboardQueries(t)...) }

// use is one selector of a query, with the labels by which the query groups it.
type use struct {
	query
	metric   string
	matchers []*labels.Matcher
	grouping []string
}

// usesOf returns the selectors of all queries.
func usesOf(t *testing.T, queries []query) (list []use) {
	t.Helper()
	for _, q := range queries {
		expr, err := parser.ParseExpr(q.text)
		if err != nil {
			t.Errorf("%s: %v", q.place, err)
			continue
		}
		parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
			s, ok := n.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			u := use{query: q, metric: s.Name}
			for _, m := range s.LabelMatchers {
				if m.Name != labels.MetricName {
					u.matchers = append(u.matchers, m)
				}
			}
			for _, above := range path {
				if a, ok := above.(*parser.AggregateExpr); ok {
					u.grouping = append(u.grouping, a.Grouping...)
				}
			}
			list = append(list, u)
			return nil
		})
	}
	return list
}

// targetLabels are added by Prometheus.
var targetLabels = map[string]bool{"job": true, "instance": true}

// openLabels have values that depend on the requests, so a query may select values that a test does not produce.
var openLabels = map[string]bool{"code": true}

// baseName returns the name of a metric without the suffix of a histogram.
func baseName(name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, found := strings.CutSuffix(name, suffix); found {
			return base
		}
	}
	return name
}

// problems returns the metric, labels and values of a selector that are in none of the scrapes.
func (u *use) problems(scrapes []map[string]*dto.MetricFamily) (list []string) {
	if u.metric == "up" { // Prometheus adds it
		return nil
	}
	var series []map[string]string
	for _, families := range scrapes {
		series = append(series, seriesOf(families, u.metric)...)
	}
	if len(series) == 0 {
		return []string{"no server exports " + u.metric}
	}
	for _, name := range u.grouping {
		if !targetLabels[name] && !slices.ContainsFunc(series, func(s map[string]string) bool { _, ok := s[name]; return ok }) {
			list = append(list, u.metric+" has no label "+name)
		}
	}
	for _, m := range u.matchers {
		if !targetLabels[m.Name] && !slices.ContainsFunc(series, func(s map[string]string) bool { return matches(m, s) }) {
			list = append(list, "no series of "+u.metric+" has "+m.String())
		}
	}
	return list
}

// matches reports whether a series has the label of a matcher, with a value that matches.
func matches(m *labels.Matcher, series map[string]string) bool {
	value, ok := series[m.Name]
	return ok && (openLabels[m.Name] || m.Matches(value))
}

// seriesOf returns the labels of all series of a metric.
func seriesOf(families map[string]*dto.MetricFamily, name string) (list []map[string]string) {
	family := families[name]
	histogram := family == nil
	if histogram {
		if family = families[baseName(name)]; family.GetType() != dto.MetricType_HISTOGRAM {
			return nil
		}
	}
	for _, m := range family.GetMetric() {
		series := map[string]string{}
		for _, pair := range m.GetLabel() {
			series[pair.GetName()] = pair.GetValue()
		}
		if histogram && strings.HasSuffix(name, "_bucket") {
			series["le"] = "+Inf"
		}
		list = append(list, series)
	}
	return list
}

// sample returns a scrape with one series of each metric of gRPC requests, for tests of the checks.
func sample() map[string]*dto.MetricFamily {
	families := map[string]*dto.MetricFamily{}
	for _, f := range metrics.Families() {
		if !strings.HasPrefix(f.Name, "throttled_grpc_") {
			continue
		}
		kind := dto.MetricType_COUNTER
		if f.Type == "histogram" {
			kind = dto.MetricType_HISTOGRAM
		}
		one, empty := &dto.Metric{}, ""
		for _, label := range f.Labels {
			one.Label = append(one.Label, &dto.LabelPair{Name: &label, Value: &empty})
		}
		families[f.Name] = &dto.MetricFamily{Name: &f.Name, Type: &kind, Metric: []*dto.Metric{one}}
	}
	return families
}

// TestQueries starts a cluster, produces decisions of all kinds, and checks that each query of deploy/ uses metrics, labels
// and values that the servers export. It then stops two nodes, and checks the metrics that the most important alerts use.
func TestQueries(t *testing.T) {
	nodes := startCluster(t)
	leader := nodes[0]
	await(t, "the leader has two followers that answer, and all nodes have the rules", func() bool {
		for _, n := range nodes {
			if n.value(t, "throttled_leader") == 1 {
				leader = n
			}
			if n.value(t, "throttled_rules_active_version") != 1 {
				return false
			}
		}
		return leader.value(t, "throttled_follower_answers") == 2
	})
	servers := append(slices.Clone(nodes), startSidecar(t, nodes))
	for _, n := range nodes {
		n.call(t)
		for _, line := range n.ask(t, "CL.CHECK shop path /login ip "+n.id, "CL.CHECK shop path /login ip "+n.id, "CL.CHECK shop path /api/x", "CL.THROTTLE k 1 1 60", "CL.THROTTLE") {
			if strings.HasPrefix(line, "-") && !strings.Contains(line, "number of arguments") {
				t.Errorf("%s: %s", n.id, line)
			}
		}
	}
	leader.ask(t, "CL.LEASE 5 1000 THROTTLE leased 99 100 1")
	var scrapes []map[string]*dto.MetricFamily
	for _, n := range servers {
		scrapes = append(scrapes, n.scrape(t))
	}
	for _, u := range usesOf(t, allQueries(t)) {
		for _, problem := range u.problems(scrapes) {
			t.Errorf("%s: %s", u.place, problem)
		}
	}
	for name, want := range map[string]float64{"outcome=refused": 3, "outcome=admitted": 3} {
		if got := leader.value(t, "throttled_decisions_total", "domain=shop", "limit=login", name); got != want {
			t.Errorf("the leader has counted %v decisions with %s, want %v", got, name, want)
		}
	}
	await(t, "the lease has ended", func() bool { return leader.value(t, "throttled_lease_outstanding_units") == 0 })
	if granted, stranded := leader.value(t, "throttled_lease_units_total", "result=granted"), leader.value(t, "throttled_lease_stranded_units_total"); granted != 5 || stranded != 5 {
		t.Errorf("%v units were granted, and %v have ended, want 5", granted, stranded)
	}
	checkOutage(t, nodes, leader)
}

// checkOutage stops all nodes but one follower, and checks the metrics of the remaining node.
func checkOutage(t *testing.T, nodes []*node, leader *node) {
	t.Helper()
	rest := nodes[0]
	if rest == leader {
		rest = nodes[1]
	}
	for _, n := range nodes {
		if n != rest {
			if err := n.process.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	await(t, "the remaining node has no leader", func() bool { return rest.value(t, "throttled_leader_known") == 0 })
	rest.ask(t, "CL.CHECK shop path /api/x", "CL.CHECK shop path /login ip x", "CL.THROTTLE k 1 1 60")
	for _, c := range []struct {
		name  string
		label string
	}{
		{"throttled_failure_policy_decisions_total", "policy=open"}, {"throttled_failure_policy_decisions_total", "policy=closed"},
		{"throttled_decisions_total", "outcome=fail_open"}, {"throttled_decisions_total", "outcome=fail_closed"},
	} {
		if got := rest.value(t, c.name, c.label); got != 1 {
			t.Errorf("without a leader, %s{%s} is %v, want 1", c.name, c.label, got)
		}
	}
	if got := rest.value(t, "throttled_forwarded_commands_total", "outcome=failed"); got == 0 {
		t.Error("without a leader, no forwarded command has failed")
	}
	if got := rest.value(t, "throttled_leader"); got != 0 {
		t.Errorf("without a leader, throttled_leader is %v, want 0", got)
	}
}

// TestAlerts checks that each alert has a severity, a summary and a description, and is described in docs/metrics.md.
func TestAlerts(t *testing.T) {
	doc, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.ParseFile(deploy+"alerts.yml", false, model.UTF8Validation)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	names := map[string]bool{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("alert %s lacks a severity, a summary or a description", r.Alert)
			}
			if names[r.Alert] {
				t.Errorf("there are two alerts %s", r.Alert)
			}
			names[r.Alert] = true
			if !strings.Contains(string(doc), "| `"+r.Alert+"` |") {
				t.Errorf("docs/metrics.md lacks the alert %s", r.Alert)
			}
		}
	}
	for _, m := range regexp.MustCompile("`(Throttled[A-Z]\\w+)`").FindAllStringSubmatch(string(doc), -1) {
		if !names[m[1]] {
			t.Errorf("docs/metrics.md has %s, which is not an alert", m[1])
		}
	}
}

// TestDashboard checks that panels have different ids, do not overlap, and have queries and legends.
func TestDashboard(t *testing.T) {
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		if ids[p.ID] {
			t.Errorf("panel %s has an id that another panel has", p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.H > 1 && len(p.Targets) == 0 {
			t.Errorf("panel %s has no query", p.Title)
		}
		for _, target := range p.Targets {
			if target.LegendFormat == "" {
				t.Errorf("panel %s has a query without a legend", p.Title)
			}
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if before := cells[[2]int{x, y}]; before != "" || x >= 24 {
					t.Fatalf("panel %s overlaps %s, or is outside of the grid", p.Title, before)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestScrapeConfiguration checks that the example refers to the alert rules and to the job that they and the dashboard use.
func TestScrapeConfiguration(t *testing.T) {
	text, err := os.ReadFile(deploy + "prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		RuleFiles     []string       `yaml:"rule_files"`
		Global        map[string]any `yaml:"global"`
		ScrapeConfigs []struct {
			Job     string           `yaml:"job_name"`
			Path    string           `yaml:"metrics_path"`
			Targets []map[string]any `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	if len(c.ScrapeConfigs) != 1 || c.ScrapeConfigs[0].Job != "throttled" || c.ScrapeConfigs[0].Path != "/metrics" || len(c.ScrapeConfigs[0].Targets) != 1 {
		t.Errorf("got %+v, want one job throttled with the path /metrics", c.ScrapeConfigs)
	}
	if !slices.Equal(c.RuleFiles, []string{"alerts.yml"}) {
		t.Errorf("rule_files is %q, want alerts.yml", c.RuleFiles)
	}
}

// TestChecks checks that wrong queries are found.
func TestChecks(t *testing.T) {
	for text, want := range map[string]string{
		"sum by (nolabel) (throttled_grpc_requests_total)":     "throttled_grpc_requests_total has no label nolabel",
		"sum by (job, method) (throttled_grpc_requests_total)": "",
		`throttled_grpc_requests_total{method="x"}`:            `no series of throttled_grpc_requests_total has method="x"`,
		"throttled_none":                       "no server exports throttled_none",
		"throttled_grpc_requests_total_bucket": "no server exports throttled_grpc_requests_total_bucket",
	} {
		for _, u := range usesOf(t, []query{{"test", text}}) {
			if got := u.problems([]map[string]*dto.MetricFamily{sample()}); strings.Join(got, ", ") != want {
				t.Errorf("%s: got %q, want %q", text, got, want)
			}
		}
	}
	var names []string
	for name := range maps.Keys(sample()) {
		names = append(names, name)
	}
	if len(names) != 2 {
		t.Errorf("got the metrics %q of gRPC, want 2", names)
	}
}
