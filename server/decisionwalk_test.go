package server

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
	"github.com/throttledhq/throttled/ruleset"
)

// requestsPerRules is the number of requests of a walk before the rules change.
const requestsPerRules = 200 / race.Factor

// TestDecisionWalk compares the replies to random requests by random rules, which change from time to time, with those of
// decisionOracle. The flag -steps sets the number of requests.
func TestDecisionWalk(t *testing.T) {
	w := newDecisionWalk(t, 1)
	steps := limitertest.Steps(20_000 / race.Factor)
	counts := map[string]int{}
	for n := range steps {
		if n%requestsPerRules == 0 {
			w.changeRules(t)
		}
		w.clock.advance(w.pause())
		w.oracle.now = w.clock.read()
		request, call := w.request(), w.call()
		line := checkCommand(request, call)
		want := w.oracle.decide(request, call)
		if got := w.ask(t, line); got != want {
			t.Fatalf("request %d: %s\n got %s\nwant %s\nrules:\n%s", n, line, got, want, w.oracle.rules.text())
		}
		counts[want[:2]]++
		for _, name := range ruleFlagNames {
			counts[name] += strings.Count(want, name)
		}
	}
	t.Logf("%d requests without a difference: %v", steps, counts)
	for _, name := range []string{"[0", "[1", "soft", "warn", "banned", "shadow", "report", "default", "unmatched", "unlimited", "uncharged"} {
		if counts[name] < steps/1000 {
			t.Errorf("%q occurs %d times in the replies to %d requests, too few for a meaningful test", name, counts[name], steps)
		}
	}
}

// decisionWalk is a server whose replies are compared with those of an oracle.
type decisionWalk struct {
	*rand.Rand
	client *client
	input  strings.Reader
	store  *ruleset.Store
	clock  *testClock
	oracle *decisionOracle
}

func newDecisionWalk(t *testing.T, seed uint64) *decisionWalk {
	t.Helper()
	w := &decisionWalk{Rand: rand.New(rand.NewPCG(seed, 19)), store: ruleset.NewStore(), clock: newTestClock()}
	wall := func() time.Time { return time.Unix(0, int64(w.clock.read())).UTC() }
	start := w.clock.read()
	w.client = silentClient(t, setup{engine: buckets.New(buckets.Config{Clock: w.clock.read, Shards: 8}), rules: w.store, tune: func(s *Server) {
		s.rules.clock = wall
		s.rules.elapsed = func() time.Duration { return time.Duration(w.clock.read() - start) }
	}})
	w.oracle = &decisionOracle{states: map[string]limiter.State{}, bans: map[string]uint64{}, refusals: map[string]*refusalModel{}}
	return w
}

// pause returns the time between two requests: most are made at once, or shortly after each other.
func (w *decisionWalk) pause() time.Duration {
	switch n := w.IntN(40); {
	case n < 24:
		return 0
	case n < 36:
		return time.Duration(w.Int64N(int64(300 * time.Millisecond)))
	case n < 39:
		return time.Duration(w.Int64N(int64(2 * time.Second)))
	}
	return time.Duration(w.Int64N(int64(40 * time.Second)))
}

// changeRules replaces the rules by random ones.
func (w *decisionWalk) changeRules(t *testing.T) {
	t.Helper()
	w.oracle.rules = w.model()
	setRules(t, w.store, w.oracle.rules.text())
	w.oracle.version = w.store.Newest().Number
	maps.DeleteFunc(w.oracle.states, func(_ string, s limiter.State) bool { return s.Expires <= w.oracle.now })
}

// ask runs one command, and returns the reply in the form of value.brief.
func (w *decisionWalk) ask(t *testing.T, line string) string {
	t.Helper()
	w.client.process(t, &w.input, request(words(line)...))
	v, err := readValue(bufio.NewReader(bytes.NewReader(w.client.out.Bytes())))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	w.client.out.Truncate(0, keepOut)
	return v.brief()
}

// checkCommand returns the command for a request.
func checkCommand(request map[string]string, call checkModel) string {
	line := "CL.CHECK d"
	if call.report {
		line = "CL.REPORT d OUTCOME status=401"
	}
	line += fmt.Sprintf(" MS COST %d", call.cost)
	if call.peek {
		line += " PEEK"
	}
	if call.dryRun {
		line += " DRYRUN"
	}
	for _, name := range slices.Sorted(maps.Keys(request)) {
		line += " " + name + " " + request[name]
	}
	return line
}

// request returns random attributes.
func (w *decisionWalk) request() map[string]string {
	request := map[string]string{}
	for name, values := range map[string][]string{"a": {"", "x", "y"}, "b": {"", "1", "2", "2"}, "class": {"", "high"}, "plan": {"", "free", "pro", "other"}, unverified: {"", "x"}} {
		if value := values[w.IntN(len(values))]; value != "" {
			request[name] = value
		}
	}
	return request
}

func (w *decisionWalk) call() checkModel {
	call := checkModel{cost: []int64{1, 1, 1, 1, 2, 3, 0, -1, 50}[w.IntN(9)]}
	switch w.IntN(10) {
	case 0:
		call.peek = true
	case 1:
		call.dryRun = true
	case 2, 3:
		call.report = true
	}
	return call
}

// model returns random rules.
func (w *decisionWalk) model() (m ruleModel) {
	m.envoy = w.IntN(5) == 0
	if w.IntN(2) == 0 && !m.envoy {
		m.fallback = []amountModel{w.amount("gcra", time.Minute)}
	}
	for i := range 1 + w.IntN(4) {
		m.limits = append(m.limits, w.limit(fmt.Sprint("limit", i), m.envoy))
	}
	return m
}

// limit returns a random limit. If envoy is true, the rules have the semantics of Envoy, which has fixed windows only.
func (w *decisionWalk) limit(name string, envoy bool) limitModel {
	l := limitModel{name: name, when: w.condition(), algorithm: "fixed"}
	if !envoy {
		l.algorithm = []string{"gcra", "gcra", "bucket", "leaky", "log", "fixed", "sliding", "buckets 5"}[w.IntN(8)]
	}
	l.per = [][]string{nil, {"a"}, {"b"}, {"a", "b"}, {"plan"}, {"a", unverified}}[w.IntN(6)]
	if w.IntN(3) == 0 {
		l.allow = map[string][]amountModel{"free": w.amounts(l.algorithm), "pro": w.amounts(l.algorithm)}
	} else {
		l.allow = map[string][]amountModel{"": w.amounts(l.algorithm)}
	}
	for range w.IntN(3) {
		when := []conditionModel{{attribute: "a", values: []string{"x"}}, {attribute: "b", values: []string{"1"}}, {attribute: "class", values: []string{"high"}}}[w.IntN(3)]
		l.overrides = append(l.overrides, overrideModel{when, w.amounts(l.algorithm)})
	}
	if w.IntN(3) == 0 {
		l.cost = 1 + w.Int64N(3)
	}
	l.soft, l.warn, l.share = []int64{0, 50, 100}[w.IntN(3)], []int64{0, 50, 80}[w.IntN(3)], []int64{0, 0, 50, 20}[w.IntN(4)]
	l.charge, l.shadow = w.IntN(5) == 0, w.IntN(5) == 0
	if !l.shadow && w.IntN(3) == 0 {
		l.banAfter, l.banPeriod, l.banFor = 1+w.Int64N(4), 10*time.Second, time.Duration(1+w.Int64N(20))*time.Second
	}
	return l
}

func (w *decisionWalk) condition() conditionModel {
	switch w.IntN(7) {
	case 0:
		return conditionModel{attribute: "a", values: []string{"x"}}
	case 1:
		return conditionModel{attribute: "b", values: []string{"1", "2"}}
	case 2:
		return conditionModel{attribute: "a", values: []string{"x"}, not: true}
	case 3:
		return conditionModel{attribute: "b", values: []string{""}, not: true}
	case 4:
		return conditionModel{attribute: unverified, values: []string{"x"}}
	}
	return conditionModel{}
}

// amounts returns one or two amounts with different periods.
func (w *decisionWalk) amounts(algorithm string) []amountModel {
	switch w.IntN(12) {
	case 0:
		return []amountModel{{count: 0}}
	case 1:
		return []amountModel{{count: -1}}
	}
	list := []amountModel{w.amount(algorithm, []time.Duration{time.Second, 10 * time.Second}[w.IntN(2)])}
	if w.IntN(3) == 0 {
		list = append(list, w.amount(algorithm, []time.Duration{time.Minute, time.Hour}[w.IntN(2)]))
	}
	return list
}

func (w *decisionWalk) amount(algorithm string, period time.Duration) amountModel {
	a := amountModel{count: 4 + w.Int64N(8), period: period}
	if (algorithm == "gcra" || algorithm == "bucket") && w.IntN(3) == 0 {
		a.burst = 4 + w.Int64N(12)
	}
	return a
}

// text returns the rules as a file.
func (m ruleModel) text() string {
	var b strings.Builder
	b.WriteString("version: 1\ndomain: d\ntiers: {by: plan, default: free}\n")
	if m.envoy {
		b.WriteString("semantics: envoy\n")
	}
	if m.fallback != nil {
		fmt.Fprintf(&b, "default: {allow: %s}\n", amountsText(m.fallback))
	}
	b.WriteString("limits:\n")
	for i := range m.limits {
		m.limits[i].appendTo(&b)
	}
	return b.String()
}

func (l *limitModel) appendTo(b *strings.Builder) {
	fmt.Fprintf(b, "  %s:\n    algorithm: %s\n", l.name, l.algorithm)
	if len(l.per) > 0 {
		fmt.Fprintf(b, "    per: [%s]\n", strings.Join(l.per, ", "))
	}
	if l.when.attribute != "" {
		fmt.Fprintf(b, "    when: %s\n", l.when.text())
	}
	if all := l.allow[""]; all != nil {
		fmt.Fprintf(b, "    allow: %s\n", amountsText(all))
	} else {
		fmt.Fprintf(b, "    allow: {free: %s, pro: %s}\n", amountsText(l.allow["free"]), amountsText(l.allow["pro"]))
	}
	if len(l.overrides) > 0 {
		b.WriteString("    overrides:\n")
	}
	for _, o := range l.overrides {
		fmt.Fprintf(b, "      - {when: %s, allow: %s}\n", o.when.text(), amountsText(o.allow))
	}
	if l.cost > 0 {
		fmt.Fprintf(b, "    cost: {b: {\"2\": %d}}\n", l.cost)
	}
	for key, percent := range map[string]int64{"soft": l.soft, "warn": l.warn} {
		if percent > 0 {
			fmt.Fprintf(b, "    %s: %d%%\n", key, percent)
		}
	}
	if l.share > 0 {
		fmt.Fprintf(b, "    priority: {when: {class: high}, share: %d%%}\n", l.share)
	}
	if l.charge {
		b.WriteString("    charge: {status: 401}\n")
	}
	if l.banAfter > 0 {
		fmt.Fprintf(b, "    ban: {after: %d per %ds, for: %ds}\n", l.banAfter, int(l.banPeriod.Seconds()), int(l.banFor.Seconds()))
	}
	if l.shadow {
		b.WriteString("    shadow: true\n")
	}
}

func (c conditionModel) text() string {
	matcher := fmt.Sprintf("[%s]", strings.Join(c.values, ", "))
	switch {
	case c.not && c.values[0] == "":
		matcher = "{present: true}"
	case c.not:
		matcher = "{not: " + matcher + "}"
	}
	return fmt.Sprintf("{%s: %s}", c.attribute, matcher)
}

func amountsText(list []amountModel) string {
	texts := make([]string, len(list))
	for i, a := range list {
		switch {
		case a.count == 0:
			texts[i] = "none"
		case a.count < 0:
			texts[i] = "unlimited"
		case a.burst > 0:
			texts[i] = fmt.Sprintf("%d per %dms burst %d", a.count, a.period.Milliseconds(), a.burst)
		default:
			texts[i] = fmt.Sprintf("%d per %dms", a.count, a.period.Milliseconds())
		}
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
