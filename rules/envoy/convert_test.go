package envoy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/rules"
)

// readAll returns the content of the files that match pattern, by name.
func readAll(t testing.TB, pattern string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("Glob(%q) = %v, %v", pattern, paths, err)
	}
	texts := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(path)] = string(text)
	}
	return texts
}

// entries parses entries of the form key=value, separated by spaces.
func entries(text string) []Entry {
	var list []Entry
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		list = append(list, Entry{key, value})
	}
	return list
}

// TestConvert_Documented checks the descriptors for which the documentation and the tests of the service state a rate
// limit. "none" is no limit.
func TestConvert_Documented(t *testing.T) {
	texts := readAll(t, "testdata/service/*.yaml")
	for _, tt := range []struct{ file, entries, want string }{
		{"readme_mongo_cps", "database=users", "500 per second"},
		{"readme_mongo_cps", "database=default", "500 per second"},
		{"readme_mongo_cps", "database=other", "no limit"},
		{"readme_messaging", "message_type=marketing to_number=2061111111", "5 per day"},
		{"readme_messaging", "to_number=2061111111", "100 per day"},
		{"readme_edge_proxy_per_ip", "remote_address=50.0.0.1", "10 per second"},
		{"readme_edge_proxy_per_ip", "remote_address=50.0.0.5", "none"},
		{"readme_example4", "key=value subkey=subvalue", "no limit"},
		{"readme_example4_2", "key=value subkey=subvalue", "300 per second"},
		{"readme_internal", "ldap=x", "unlimited"},
		{"readme_internal", "azure=x", "100 per minute"},
		{"readme_example6", "service=auth-service user=user-a", "10 per second shadow"},
		{"readme_example6", "service=auth-service user=user-b", "20 per second"},
		{"readme_example7", "key_1=value_1 user=bkthomps", "5 per second"},
		{"readme_example7", "key_2=value_2 user=bkthomps", "10 per second"},
		{"readme_example8", "key1=unspecified_value", "10 per minute"},
		{"readme_example8", "key1=value1", "20 per minute"},
		{"readme_example9", "key1=value1", "20 per minute"},
		{"readme_example9", "key1=valueXYZ", "20 per minute"},
		{"readme_example9_2", "path=/api/123/action", "20 per minute"},
		{"readme_example9_2", "path=/api/user-id/action", "20 per minute"},
		{"readme_example9_2", "path=/api/123/other", "no limit"},
		{"readme_example9_3", "route=/api/v1/resource/123/action", "20 per minute"},
		{"readme_example10", "route=api http_method=GET subject_id=123", "60 per minute"},
		{"readme_example10_wildcard", "user=alice action=readfile resource=documents", "100 per minute"},
		{"readme_example11", "files=files/a.pdf", "10 per hour"},
		{"readme_example11", "files_no_share=files_no_share/a.pdf", "10 per hour"},
		{"readme_example11_metrics", "route=api/v1 method=GET", "60 per minute"},
		{"basic_config", "key1=something", "no limit"},
		{"basic_config", "key1=value1", "no limit"},
		{"basic_config", "key2=value2 subkey=subvalue", "no limit"},
		{"basic_config", "key5=value5 subkey5=subvalue", "no limit"},
		{"basic_config", "key1=value1 subkey1=something", "5 per second"},
		{"basic_config", "key1=value1 subkey1=subvalue1", "10 per second"},
		{"basic_config", "key2=something", "20 per minute"},
		{"basic_config", "key2=value2", "30 per minute"},
		{"basic_config", "key2=value3", "no limit"},
		{"basic_config", "key3=foo", "1 per hour"},
		{"basic_config", "key4=foo", "1 per day"},
		{"basic_config", "key6=foo", "unlimited"},
		{"basic_config", "key7=unspecified_value", "70 per minute"},
		{"shadowmode_config", "key1=value1 subkey1=subvalue1", "10 per second shadow"},
		{"shadowmode_config", "key2=something", "20 per minute shadow"},
		{"shadowmode_config", "key2=value2", "30 per minute"},
		{"wildcard", "noVal=foo1", "20 per minute"},
		{"wildcard", "wild=foo2", "20 per minute"},
		{"wildcard", "wild=bar", "no limit"},
		{"wildcard", "nestedWild=val1 wild=goo2", "20 per minute"},
		{"wildcard", "noWild=foo1", "no limit"},
		{"wildcard", "midWild=barab", "20 per minute"},
		{"wildcard", "midWild=barb", "20 per minute"},
		{"wildcard", "midWild=bara", "no limit"},
		{"wildcard", "midWild=xbarb", "no limit"},
		{"wildcard", "multiWild=foo123bar456baz", "10 per minute"},
		{"wildcard", "multiWild=foobarbaz", "10 per minute"},
		{"wildcard", "multiWild=foo123baz", "no limit"},
		{"wildcard", "multiWild=bar456baz", "no limit"},
		{"share_threshold", "files=files/a.pdf", "100 per minute"},
		{"share_threshold", "nested=parent files=nested/file1.txt", "200 per minute"},
		{"share_threshold", "files=top/file1.txt files=nested/file1.txt", "300 per minute"},
		{"share_threshold", "route=api/v1 method=GET", "60 per minute"},
		{"share_threshold", "service=svc/user endpoint=get", "80 per minute"},
		{"share_threshold", "path=path/foo file=file/doc1 type=pdf", "120 per minute"},
		{"share_threshold", "user=user/alice resource=res/file1 action=read", "150 per minute"},
		{"share_threshold", "file=test1", "50 per minute"},
		{"share_threshold", "file=test123", "100 per minute"},
		{"share_threshold", "midpath=/api-beta-v1", "100 per minute"},
		{"share_threshold", "midpath=/api/v2", "no limit"},
		{"integration_basic", "key1=foo", "50 per second"},
		{"integration_another", "key3=x", "10 per hour"},
		{"examples_example", "source_cluster=proxy destination_cluster=mock", "1 per minute"},
		{"examples_example", "foo=foo", "2 per minute"},
		{"examples_example", "foo=foo bar=banned", "none"},
		{"examples_example", "foo=foo baz=shady", "3 per minute shadow"},
		{"examples_example", "foo=foo baz=not-so-shady", "3 per minute"},
		{"examples_example", "foo=foo baz=baz", "1 per second"},
		{"examples_example", "foo=foo bay=x", "unlimited"},
	} {
		s := newSystem(t, tt.file, texts[tt.file+".yaml"])
		got := "no limit"
		if l, _ := s.match(t, entries(tt.entries)); l != nil {
			got = l.Allow.Amounts[0].String()
			if l.Shadow {
				got += " shadow"
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s: %s, want %s", tt.file, tt.entries, got, tt.want)
		}
	}
}

// values are parts of random values. Their combinations are equal to and similar to those of the configurations.
var values = []string{"", "x", "b", "b_x", "xy", "x*", "b_", "value1", "value2", "subvalue1", "foo1", "files/a", "nested/b", "test1", "local", "proxy", "banned", "shady"}

// randomEntries returns a descriptor with keys of the configuration. Most entries select a descriptor.
func (s *system) randomEntries(r *rand.Rand) []Entry {
	entries := make([]Entry, 1+r.IntN(3))
	list := s.descriptors
	for i := range entries {
		if len(list) == 0 || r.IntN(4) == 0 {
			entries[i] = Entry{s.keys[r.IntN(len(s.keys))], s.values[r.IntN(len(s.values))]}
			continue
		}
		n := list[r.IntN(len(list))]
		entries[i] = Entry{n.Key, strings.ReplaceAll(n.Value, "*", []string{"", "x", "*"}[r.IntN(3)])}
		if n.Value == "" {
			entries[i].Value = s.values[r.IntN(len(s.values))]
		}
		if list = n.Descriptors; len(list) == 0 && r.IntN(8) > 0 {
			return entries[:i+1]
		}
	}
	return entries
}

// randomConfig returns a configuration. Its keys and values are such that the texts key_value of different descriptors
// are often equal or match each other.
func randomConfig(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	var write func(indent string, depth int)
	write = func(indent string, depth int) {
		seen := map[string]bool{}
		for range 1 + r.IntN(5) {
			key := []string{"a", "a_b", "b", "c", "a_x", "x y"}[r.IntN(6)]
			value := []string{"", "", "x", "b", "b_x", "*", "x*", "*x", "x*y", "b*", "b_*", "**", "x*x*", "?[x]*", "null", "1"}[r.IntN(16)]
			text := strings.TrimSuffix(key+"_"+value, "_")
			if seen[text] {
				continue
			}
			seen[text] = true
			fmt.Fprintf(&b, "%s- key: %s\n%s  value: '%s'\n", indent, key, indent, value)
			if strings.Contains(value, "*") && r.IntN(2) == 0 {
				fmt.Fprintf(&b, "%s  share_threshold: true\n", indent)
			}
			if r.IntN(3) > 0 {
				fmt.Fprintf(&b, "%s  rate_limit: {%s}\n", indent, randomLimit(r))
			}
			for _, mode := range []string{"shadow_mode", "quota_mode"} {
				if r.IntN(4) == 0 {
					fmt.Fprintf(&b, "%s  %s: true\n", indent, mode)
				}
			}
			if depth < 3 && r.IntN(2) == 0 {
				fmt.Fprintf(&b, "%s  descriptors:\n", indent)
				write(indent+"    ", depth+1)
			}
		}
	}
	write("  ", 1)
	return b.String()
}

// randomLimit returns the keys of a rate limit.
func randomLimit(r *rand.Rand) string {
	unit := []string{"second", "MINUTE", "Hour", "day", "week", "month", "year"}[r.IntN(7)]
	limit := fmt.Sprintf("unit: %s, requests_per_unit: %d", unit, r.IntN(6))
	if r.IntN(6) == 0 {
		limit = "unlimited: true"
	}
	if r.IntN(3) == 0 {
		limit += ", name: " + []string{"n", "m"}[r.IntN(2)]
	}
	if r.IntN(3) == 0 {
		limit += ", replaces: [{name: o}, {name: p}]"
	} else if r.IntN(3) == 0 && !strings.Contains(limit, "name: n") {
		limit += ", replaces: [{name: n}]"
	}
	return limit
}

// systems returns the configurations of the service, and random ones.
func systems(t *testing.T, r *rand.Rand, n int) []*system {
	var list []*system
	defer func() {
		for _, s := range list {
			s.keys, s.values = keysOf(s.descriptors), valuesOf(s.descriptors)
		}
	}()
	for name, text := range readAll(t, "testdata/service/*.yaml") {
		list = append(list, newSystem(t, name, text))
	}
	for i := range n {
		list = append(list, newSystem(t, fmt.Sprintf("random %d", i), randomConfig(r)))
	}
	return list
}

// valuesOf returns random values, and the values of a configuration.
func valuesOf(list []*oracleNode) []string {
	all := slices.Clone(values)
	for _, n := range list {
		all = append(all, n.Value, strings.ReplaceAll(n.Value, "*", "z"), strings.ReplaceAll(n.Value, "*", ""))
		all = append(all, valuesOf(n.Descriptors)...)
	}
	return all
}

// TestConvert_Lookup compares the limit and the counter of random descriptors with the oracle. Two descriptors must have
// the same counter if and only if they have the same one in the service.
func TestConvert_Lookup(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for _, s := range systems(t, r, 120) {
		theirs, ours := map[string]string{}, map[string]string{}
		for range 300 {
			request := s.randomEntries(r)
			n, counter := lookup(s.descriptors, request)
			l, name := s.match(t, request)
			if wrong := differ(n, l); wrong != "" {
				t.Fatalf("%s: %q: %s", s.name, request, wrong)
			}
			if n == nil || n.RateLimit.Unlimited || n.RateLimit.RequestsPerUnit == 0 {
				continue
			}
			found++
			if theirs[counter] == "" && ours[name] == "" {
				theirs[counter], ours[name] = name, counter
			}
			if theirs[counter] != name || ours[name] != counter {
				t.Fatalf("%s: %q: counter %s, want that of %s", s.name, request, name, counter)
			}
		}
	}
	if found < 10000 {
		t.Errorf("%d descriptors have a limit, want at least 10000", found)
	}
}

// TestConvert_Requests compares the decisions of random requests with several descriptors with the oracle.
func TestConvert_Requests(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for _, s := range systems(t, r, 60) {
		theirs, ours := map[string]int64{}, map[string]int64{}
		now := int64(1_800_000_000)
		for range 200 {
			now += int64(r.IntN(20))
			descriptors := make([][]Entry, 1+r.IntN(3))
			for i := range descriptors {
				descriptors[i] = s.randomEntries(r)
			}
			hits := int64(1 + r.IntN(2))
			want := oracleDecision(s.descriptors, descriptors, hits, now, theirs)
			if got := s.decide(t, descriptors, hits, now, ours); got != want {
				t.Fatalf("%s: %q: over limit %v, want %v", s.name, descriptors, got, want)
			}
			if want {
				refused++
			}
		}
	}
	if refused < 500 {
		t.Errorf("%d requests were refused, want at least 500", refused)
	}
}

// oracleDecision reports whether the service refuses a request.
func oracleDecision(list []*oracleNode, descriptors [][]Entry, hits, now int64, used map[string]int64) bool {
	nodes, replaced := make([]*oracleNode, len(descriptors)), map[string]bool{}
	counters := make([]string, len(descriptors))
	for i, entries := range descriptors {
		if nodes[i], counters[i] = lookup(list, entries); nodes[i] != nil {
			for _, other := range nodes[i].RateLimit.Replaces {
				replaced[other.Name] = true
			}
		}
	}
	ordinary, quotas, overQuotas := 0, 0, 0
	for i, n := range nodes {
		if n == nil || n.RateLimit.Unlimited || n.RateLimit.Name != "" && replaced[n.RateLimit.Name] {
			continue
		}
		counter := fmt.Sprint(counters[i], now/int64(lengths[strings.ToLower(n.RateLimit.Unit)]))
		used[counter] += hits
		over := used[counter] > int64(n.RateLimit.RequestsPerUnit) && !n.ShadowMode
		switch {
		case n.QuotaMode && over:
			quotas, overQuotas = quotas+1, overQuotas+1
		case n.QuotaMode:
			quotas++
		case over:
			ordinary++
		}
	}
	return ordinary > 0 || quotas > 0 && quotas == overQuotas
}

// decide decides a request with the limits of the converted file, as rules.Envoy describes.
func (s *system) decide(t *testing.T, descriptors [][]Entry, hits, now int64, used map[string]int64) bool {
	limits, counters := make([]*rules.Limit, len(descriptors)), make([]string, len(descriptors))
	for i, entries := range descriptors {
		limits[i], counters[i] = s.match(t, entries)
	}
	over := make([]bool, len(descriptors))
	replaced := Replaced(limits)
	for i, l := range limits {
		if replaced[i] {
			limits[i] = nil
		}
		if limits[i] == nil || isUnlimited(l) {
			continue
		}
		amount := l.Allow.Amounts[0]
		if amount.Kind == rules.Rate {
			length, _ := amount.Per.Duration()
			counter := fmt.Sprint(counters[i], now/int64(length.Seconds()))
			used[counter] += hits
			over[i] = used[counter] > amount.Count && !l.Shadow
		} else {
			over[i] = !l.Shadow
		}
	}
	return OverLimit(limits, over)
}
