package glob

import (
	"strings"
	"testing"
)

// TestCheck checks which patterns are refused.
func TestCheck(t *testing.T) {
	for pattern, want := range map[string]string{
		"":               "",
		"*.example.com":  "",
		"[abc]*":         "",
		"[^a-c0-9]?":     "",
		"a]b":            "",
		`\[abc`:          "",
		`[\]]`:           "",
		`[a\-]`:          "",
		"[a-a]":          "",
		"[-a]":           "",
		`ab\`:            "",
		"[abc":           "no closing bracket",
		"a*[":            "no closing bracket",
		"[^":             "no closing bracket",
		`[a\]`:           "no closing bracket",
		`[\`:             "no closing bracket",
		"[A-]":           "no closing bracket",
		"[]":             "is empty",
		"[^]x]":          "is empty",
		"[z-a]x*":        `the range "z-a"`,
		"[a-c]*[^b-c9-0": `the range "9-0"`,
	} {
		err := Check(pattern)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Check(%q) = %v, want %q", pattern, err, want)
		}
	}
}
