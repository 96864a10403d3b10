package envoy

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/rules"
	"go.yaml.in/yaml/v3"
)

// oracleNode is a descriptor as the documentation of the service describes it. It shares no code with the converter.
type oracleNode struct {
	Key       string
	Value     string
	RateLimit *struct {
		Unit            string
		RequestsPerUnit uint32 `yaml:"requests_per_unit"`
		Unlimited       bool
		Name            string
		Replaces        []struct{ Name string }
	} `yaml:"rate_limit"`
	Descriptors    []*oracleNode
	ShadowMode     bool `yaml:"shadow_mode"`
	QuotaMode      bool `yaml:"quota_mode"`
	ShareThreshold bool `yaml:"share_threshold"`
}

func (n *oracleNode) text() string {
	if n.Value == "" {
		return n.Key
	}
	return n.Key + "_" + n.Value
}

// selects returns the descriptor that an entry selects, or nil, and whether it was selected by a wildcard.
func selects(list []*oracleNode, e Entry) (selected *oracleNode, wildcard bool) {
	for _, n := range list {
		if n.text() == e.Key+"_"+e.Value {
			return n, false
		}
	}
	for _, n := range list {
		if strings.Contains(n.text(), "*") && wildcardRegexp(n.text()).MatchString(e.Key+"_"+e.Value) {
			return n, true
		}
	}
	for _, n := range list {
		if n.text() == e.Key {
			return n, false
		}
	}
	return nil, false
}

func wildcardRegexp(pattern string) *regexp.Regexp {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("(?s)^" + strings.Join(parts, ".*") + "$")
}

// lookup returns the descriptor with the rate limit of a descriptor of a request, and its counter. It returns nil if
// there is none. The service joins keys and values with "_", so that different descriptors can share a counter; the
// counter here has quotes, because the limits of the converted file do not share counters.
func lookup(list []*oracleNode, entries []Entry) (n *oracleNode, counter string) {
	for _, e := range entries {
		selected, wildcard := selects(list, e)
		if selected == nil {
			return nil, ""
		}
		value := e.Value
		if wildcard && selected.ShareThreshold {
			value = selected.Value
		}
		counter += fmt.Sprintf("%q=%q,", e.Key, value)
		n, list = selected, selected.Descriptors
	}
	if n == nil || n.RateLimit == nil {
		return nil, ""
	}
	return n, counter
}

// keysOf returns the keys in a list of descriptors and in all nested lists.
func keysOf(list []*oracleNode) []string {
	var keys []string
	for _, n := range list {
		keys = append(append(keys, n.Key), keysOf(n.Descriptors)...)
	}
	return keys
}

// system is a configuration for the oracle, and its conversion.
type system struct {
	name        string
	descriptors []*oracleNode
	domain      *rules.Domain
	compiled    *rules.CompiledDomain

	keys, values []string // of random requests
}

// newSystem converts a configuration with one domain.
func newSystem(t testing.TB, name, text string) *system {
	t.Helper()
	var config struct {
		Domain      string
		Descriptors []*oracleNode
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	converted, _, err := Convert([]Source{{name, []byte(text)}}, false)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	file, err := rules.Parse(name, converted, time.LoadLocation)
	if err != nil {
		t.Fatalf("%v\n%s", err, converted)
	}
	x := file.Domain(config.Domain)
	if x == nil || x.Semantics != rules.Envoy || len(file.Domains) != 1 {
		t.Fatalf("%s: domain %+v", name, x)
	}
	set, err := rules.Compile(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, converted)
	}
	return &system{name: name, descriptors: config.Descriptors, domain: x, compiled: set.Domain([]byte(x.Name))}
}

// match returns the limit that matches a descriptor in the converted file, and its counter. It returns nil if there is
// none.
func (s *system) match(t testing.TB, entries []Entry) (l *rules.Limit, counter string) {
	t.Helper()
	request, pairs := rules.Attributes{}, Pairs(entries)
	for i := 0; i < len(pairs); i += 2 {
		if _, repeated := request[pairs[i]]; repeated {
			t.Errorf("Pairs(%v) repeats the name %s", entries, pairs[i])
		}
		request[pairs[i]] = pairs[i+1]
	}
	matches, err := s.domain.Match(request, time.Time{})
	s.checkCompiled(t, pairs, matches)
	switch {
	case err != nil || len(matches) > 1:
		t.Fatalf("%s: %v: %d limits match, want at most one: %+v, %v", s.name, entries, len(matches), matches, err)
	case len(matches) == 0 || matches[0].Limit == nil:
		return nil, ""
	case matches[0].Cost != 1 || len(matches[0].Amounts) != 1:
		t.Errorf("%s: %v: %+v", s.name, entries, matches[0])
	}
	return matches[0].Limit, fmt.Sprintf("%s %q", matches[0].Limit.Name, matches[0].Per)
}

// checkCompiled checks that the server finds the same limits, and counts them in windows of a fixed length.
func (s *system) checkCompiled(t testing.TB, pairs []string, want []rules.Match) {
	t.Helper()
	words := make([][]byte, len(pairs))
	for i := range pairs {
		words[i] = []byte(pairs[i])
	}
	var m rules.Matches
	if err := s.compiled.Match(words, time.Time{}, &m); err != nil || len(m.List) != len(want) {
		t.Fatalf("%s: %q: %d limits of the compiled set match, want %d: %v", s.name, pairs, len(m.List), len(want), err)
	}
	for i, one := range m.List {
		counter := one.Counters[0]
		fixed := counter.Kind == limiter.FixedWindow || counter.Kind == limiter.Calendar
		if one.Limit != want[i].Limit || counter.Amount.Kind == rules.Rate && !fixed {
			t.Errorf("%s: %q: limit %v, counted as %v (%v); want the limit %v in a fixed window", s.name, pairs, one.Limit.Name, counter.Kind, counter.Kind.Encoding(), want[i].Limit.Name)
		}
	}
}

// lengths are the periods of the service in seconds.
var lengths = map[string]time.Duration{"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800, "month": 2592000, "year": 31536000}

// differ describes the first difference between a descriptor of the configuration and a limit.
func differ(n *oracleNode, l *rules.Limit) string {
	switch {
	case n == nil && l == nil:
		return ""
	case n == nil || l == nil:
		return fmt.Sprintf("rate limit of the service %+v, limit %+v", n, l)
	}
	want := rules.Amount{Count: int64(n.RateLimit.RequestsPerUnit)}
	amount := l.Allow.Amounts[0]
	length, _ := amount.Per.Duration()
	switch {
	case n.RateLimit.Unlimited:
		want = rules.Amount{Kind: rules.Unlimited}
	case want.Count == 0:
		want = rules.Amount{Kind: rules.None}
	default:
		want.Per = amount.Per
		if l.Algorithm.Kind != rules.Fixed || l.Zone != nil || length != lengths[strings.ToLower(n.RateLimit.Unit)]*time.Second {
			return fmt.Sprintf("period %v, algorithm %v; want 1 %s", amount.Per, l.Algorithm, n.RateLimit.Unit)
		}
	}
	var replaces []string
	for _, r := range n.RateLimit.Replaces {
		replaces = append(replaces, r.Name)
	}
	relations := fmt.Sprint(n.RateLimit.Name, replaces, n.QuotaMode, n.ShadowMode)
	if got := fmt.Sprint(l.Envoy.Name, l.Envoy.Replaces, l.Envoy.QuotaMode, l.Shadow); amount != want || got != relations {
		return fmt.Sprintf("amount %v, relations %s; want %v, %s", amount, got, want, relations)
	}
	return ""
}
