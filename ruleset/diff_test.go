package ruleset

import (
	"fmt"
	"strings"
	"testing"
)

func TestSummarize(t *testing.T) {
	const header = "version: 1\ndomain: shop\n"
	for _, test := range []struct{ name, before, after, want string }{
		{"no change", textOf("a"), textOf("a"), "+0 -0 ~0"},
		{"comment", textOf("a"), textOf("a") + "# comment\n", "+0 -0 ~0"},
		{"order", textOf("a", "b"), textOf("b", "a"), "+0 -0 ~0"},
		{"added and removed", textOf("a", "b"), textOf("b", "c"), "+1 -1 ~0: +shop/c -shop/a"},
		{"changed", textOf("a"), strings.Replace(textOf("a"), "5 per", "8 per", 1), "+0 -0 ~1: ~shop/a"},
		{"same amount", textOf("a"), strings.Replace(textOf("a"), "5 per minute", "5/min", 1), "+0 -0 ~0"},
		{"default", header + "default: {allow: 5/min}\n", header + "default: {allow: 6/min}\n", "+0 -0 ~1: ~shop.default"},
		{"zone", header + "limits: {a: {allow: 5/day, algorithm: fixed, zone: Europe/Berlin}}\n",
			header + "limits: {a: {allow: 5/day, algorithm: fixed, zone: Europe/Berlin}} # same\n", "+0 -0 ~0"},
		{"tiers and attributes", textOf("a"),
			header + "tiers: {by: tier, default: free}\nattributes: {client: {first_of: [key, ip]}}\nlimits:\n  a: {allow: 5 per minute}\n",
			"+0 -0 ~2: ~shop.attributes ~shop.tiers"},
		{"other domain", textOf("a"), strings.Replace(textOf("a"), "shop", "api", 1), "+1 -1 ~0: +api/a -shop/a"},
	} {
		before, err := compile("before", test.before)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		after, err := compile("after", test.after)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if got := summarize(before.File(), after.File()); got != test.want {
			t.Errorf("%s: the summary is %q, want %q", test.name, got, test.want)
		}
	}
}

// TestSummaryIsBounded checks the summary of many limits with long names.
func TestSummaryIsBounded(t *testing.T) {
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("%s%d", strings.Repeat("x", 60), i))
	}
	none, err := compile("none", textOf("a"))
	if err != nil {
		t.Fatal(err)
	}
	many, err := compile("many", textOf(names...))
	if err != nil {
		t.Fatal(err)
	}
	got := summarize(none.File(), many.File())
	if len(got) > maxSummary || !strings.HasPrefix(got, "+30 -1 ~0: +shop/xxx") || !strings.HasSuffix(got, " and 25 more") {
		t.Errorf("the summary is %q", got)
	}
}
