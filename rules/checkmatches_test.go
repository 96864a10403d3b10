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
