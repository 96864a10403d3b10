package ruleset

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/rules"
)

func TestSummarize(t *testing.T) {
	const header = "version: 1\ndomain: shop\n"
	for _, test := range []struct{ name, before, after, want string }{
		{"no change", textOf("a"), textOf("a"), "+0 -0 ~0"},
		{"comment", textOf("a"), textOf("a") + "# comment\n", "+0 -0 ~0"},
		{"order", textOf("a", "b"), textOf("b", "a"), "+0 -0 ~1: ~shop.order"},
		{"order, and other limits", textOf("a", "b", "c"), textOf("x", "c", "y", "a"), "+2 -1 ~1: +shop/x +shop/y -shop/b ~shop.order"},
		{"other limits", textOf("a", "b", "c"), textOf("x", "a", "y", "c"), "+2 -1 ~0: +shop/x +shop/y -shop/b"},
		{"added and removed", textOf("a", "b"), textOf("b", "c"), "+1 -1 ~0: +shop/c -shop/a"},
		{"changed", textOf("a"), strings.Replace(textOf("a"), "5 per", "8 per", 1), "+0 -0 ~1: ~shop/a(allow)"},
		{"changed keys", textOf("a"), header + "limits: {a: {allow: 5 per minute, soft: 20%, when: {path: /}, shadow: true}}\n",
			"+0 -0 ~1: ~shop/a(when,soft,shadow)"},
		{"same amount", textOf("a"), strings.Replace(textOf("a"), "5 per minute", "5/min", 1), "+0 -0 ~0"},
		{"default", header + "default: {allow: 5/min}\n", header + "default: {allow: 6/min}\n", "+0 -0 ~1: ~shop.default"},
		{"zone", header + "limits: {a: {allow: 5/day, algorithm: fixed, zone: Europe/Berlin}}\n",
			header + "limits: {a: {allow: 5/day, algorithm: fixed, zone: Europe/Berlin}} # same\n", "+0 -0 ~0"},
		{"tiers and attributes", textOf("a"),
			header + "tiers: {by: tier, default: free}\nattributes: {client: {first_of: [key, ip]}}\nlimits:\n  a: {allow: 5 per minute}\n",
			"+0 -0 ~2: ~shop.attributes ~shop.tiers"},
		{"semantics", header + "limits: {a: {allow: 5/min, algorithm: fixed}}\n",
			header + "semantics: envoy\nlimits: {a: {allow: 5/min, algorithm: fixed}}\n", "+0 -0 ~1: ~shop.semantics"},
		{"new domain", textOf("a"), textOf("a") + "---\nversion: 1\ndomain: api\ntiers: {by: tier, default: free}\ndefault: {allow: 1/s}\n",
			"+2 -0 ~0: +api.default +api.tiers"},
		{"removed domain", textOf("a") + "---\nversion: 1\ndomain: api\ndefault: {allow: 1/s}\n", textOf("a"), "+0 -1 ~0: -api.default"},
		{"other domain", textOf("a"), strings.Replace(textOf("a"), "shop", "api", 1), "+1 -1 ~0: +api/a -shop/a"},
	} {
		before, err := parseAndCompile("before", test.before)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		after, err := parseAndCompile("after", test.after)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if got := summarize(before.File(), after.File()); got != test.want {
			t.Errorf("%s: the summary is %q, want %q", test.name, got, test.want)
		}
	}
}

// TestSummaryComparesDomains changes each field of a domain in turn, so that no field can be missing in the summary.
func TestSummaryComparesDomains(t *testing.T) {
	file := func() *rules.File { return &rules.File{Domains: []rules.Domain{{Name: "shop"}}} }
	others := map[string]func(*rules.Domain){
		"Semantics":  func(x *rules.Domain) { x.Semantics = rules.Envoy },
		"Attributes": func(x *rules.Domain) { x.Attributes = []rules.Attribute{{Name: "client"}} },
		"Tiers":      func(x *rules.Domain) { x.Tiers.By = "tier" },
		"Default":    func(x *rules.Domain) { x.Default = &rules.Default{} },
		"Limits":     func(x *rules.Domain) { x.Limits = []rules.Limit{{Name: "a"}} },
		"Name":       func(x *rules.Domain) { x.Name, x.Default = "other", &rules.Default{} },
	}
	for i := range reflect.TypeFor[rules.Domain]().NumField() {
		name := reflect.TypeFor[rules.Domain]().Field(i).Name
		change, known := others[name]
		if !known {
			t.Errorf("the test does not change the field %s", name)
			continue
		}
		changed := file()
		change(&changed.Domains[0])
		if got := summarize(file(), changed); strings.HasPrefix(got, "+0 -0 ~0") {
			t.Errorf("the summary of another %s is %q", name, got)
		}
	}
}

// TestSummaryIsBounded checks the summary of many limits with long names: no name is cut, and the others are counted.
func TestSummaryIsBounded(t *testing.T) {
	for _, test := range []struct {
		limits, size int // of the names of the domain and of the limits
		shown        int
	}{{20, 64, 3}, {20, 1, 6}, {6, 30, 6}, {5, 10, 6}, {3, 64, 4}} {
		domain := strings.Repeat("d", test.size)
		before, after := &rules.File{}, &rules.File{}
		names := make([]string, test.limits, test.limits+1)
		list := make([]rules.Limit, test.limits)
		for i := range names {
			list[i].Name = strings.Repeat(string(rune('A'+i)), test.size)
			names[i] = "+" + domain + "/" + list[i].Name
		}
		before.Domains = []rules.Domain{{Name: domain, Limits: []rules.Limit{{Name: "a"}}}}
		after.Domains = []rules.Domain{{Name: domain, Limits: list}}
		names = append(names, "-"+domain+"/a")
		want := fmt.Sprintf("+%d -1 ~0: %s", test.limits, strings.Join(names[:test.shown], " "))
		if more := len(names) - test.shown; more > 0 {
			want += fmt.Sprintf(" and %d more", more)
		}
		if got := summarize(before, after); got != want || len(got) > maxSummary {
			t.Errorf("%d names of %d bytes: the summary is\n%q, want\n%q", test.limits, test.size, got, want)
		}
	}
}
