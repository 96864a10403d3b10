package rules

import (
	"fmt"
	"strings"
	"testing"
)

// TestCheckMatches checks the largest files that are accepted. Files with one amount more are in testdata/malformed.
func TestCheckMatches(t *testing.T) {
	amounts := func(n int) string { return "[" + strings.TrimSuffix(numbered(n, "%[1]d per %[1]ds,"), ",") + "]" }
	ban := "ban: {after: 5 per hour, for: 1h}"
	for _, limits := range []string{
		fmt.Sprintf("a: {allow: %s}", amounts(32)),
		fmt.Sprintf("a: {allow: %s, %s}", amounts(31), ban),
		fmt.Sprintf("a: {allow: %s, %s}, b: {allow: %s, %s}", amounts(15), ban, amounts(15), ban),
		fmt.Sprintf("a: {allow: %s, shadow: true}, b: {allow: %s, %s}", amounts(32), amounts(31), ban), // shadow limits do not count
		fmt.Sprintf("a: {allow: %s, %s}, b: {allow: unlimited, %s}", amounts(31), ban, ban),            // is not decided by the engine
		fmt.Sprintf("a: {allow: 1/s, overrides: [{when: {x: y}, allow: %s}]}, b: {allow: %s}", amounts(16), amounts(16)),
		fmt.Sprintf("a: {allow: %s, overrides: [{when: {x: y}, allow: %s}], %s}", amounts(20), amounts(31), ban),
	} {
		parse(t, "version: 1\ndomain: d\nlimits: {"+limits+"}")
	}
	for _, limits := range []string{
		fmt.Sprintf("a: {allow: %s, %s}", amounts(32), ban),
		fmt.Sprintf("a: {allow: %s, %s}, b: {allow: %s, %s}", amounts(15), ban, amounts(16), ban),
		fmt.Sprintf("a: {allow: %s, shadow: true}, b: {allow: %s}, c: {allow: %s}", amounts(16), amounts(16), amounts(17)),
		fmt.Sprintf("a: {allow: %s}, b: {allow: unlimited}", amounts(32)),
		fmt.Sprintf("a: {allow: %s, overrides: [{when: {x: y}, allow: %s}], %s}", amounts(20), amounts(32), ban),
	} {
		errs := errorsOf(t, "version: 1\ndomain: d\nlimits: {"+limits+"}")
		if len(errs) != 1 || !strings.HasPrefix(errs[0].Reason, "more than 32 amounts") || errs[0].Suggestion == "" {
			t.Errorf("%s:\n%v", limits, errs)
		}
	}
}

// TestCheckMatches_Order checks that conditions are equal in any order, and with brackets around one value.
func TestCheckMatches_Order(t *testing.T) {
	for _, c := range []struct {
		equal bool
		whens [2]string
	}{
		{true, [2]string{"{a: x, b: y}", "{b: y, a: x}"}},
		{true, [2]string{"{a: x}", "{a: [x]}"}},
		{true, [2]string{"{a: [x, y/*]}", "{a: [y/*, [x]]}"}},
		{true, [2]string{"{a: {not: [x, y]}}", "{a: {not: [y, x]}}"}},
		{true, [2]string{"{c: z, any: [{a: x}, {b: y, c: z}]}", "{any: [{c: z, b: y}, {a: x}], c: z}"}},
		{false, [2]string{"{a: x, b: y}", "{a: y, b: x}"}},
		{false, [2]string{"{a: x}", "{a: {not: x}}"}},
		{false, [2]string{"{a: x}", "{any: {a: x}}"}},
		{false, [2]string{"{a: [x, y]}", "{a: [x, x]}"}},
		{false, [2]string{"{a: 10.0.0.0/8}", "{a: {exact: 10.0.0.0/8}}"}},
	} {
		var b strings.Builder
		for i := range 33 {
			fmt.Fprintf(&b, "  l%d: {allow: 1/s, when: %s}\n", i, c.whens[i%2])
		}
		text := "version: 1\ndomain: d\nlimits:\n" + b.String()
		if !c.equal {
			parse(t, text)
		} else if errs := errorsOf(t, text); len(errs) != 1 || errs[0].Path != "limits.l32" || !strings.HasPrefix(errs[0].Reason, "more than 32 amounts") {
			t.Errorf("%q: %v", c.whens, errs)
		}
		file := func(when string) When { return limitOf(t, "allow: 1/s, when: "+when).When }
		if one, other := file(c.whens[0]), file(c.whens[1]); (one.canonical() == other.canonical()) != c.equal {
			t.Errorf("%q have the canonical texts %s and %s", c.whens, one.canonical(), other.canonical())
		}
	}
}
