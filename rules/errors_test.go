package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// errorsOf parses text that must be refused.
func errorsOf(t testing.TB, text string) Errors {
	t.Helper()
	file, err := Parse("test.yaml", []byte(text), loadZone)
	errs, ok := err.(Errors)
	if !ok || len(errs) == 0 || file != nil {
		t.Fatalf("Parse(%q) = %+v, %v; want Errors", text, file, err)
	}
	return errs
}

// TestErrors checks the text of errors, and that one call finds problems of several kinds in the order of the file.
func TestErrors(t *testing.T) {
	got := errorsOf(t, `version: 2
domain: shop
limits:
  login:
    alow: 5/min
    per: [ip, ip]
  api:
    allow: 0123
    algorithm: [fixed]
    when: {user: null, path: &x /a}
  yes: {allow: 5/min, allow: 6/min}
`).Error()
	want := `test.yaml:1:10: version: "2" is not a known version; write version: 1
test.yaml:5:5: limits.login.alow: unknown key "alow"; did you mean "allow"?
test.yaml:5:5: limits.login.allow: the key "allow" is missing; add allow: an amount, such as 100 per minute, a list of amounts, or a map of tiers
test.yaml:6:15: limits.login.per[1]: "ip" is repeated; remove one of them
test.yaml:8:12: limits.api.allow: "0123": no period: write "100 per minute", "unlimited" or "none"
test.yaml:9:16: limits.api.algorithm: the value must be a text; put text with [ or ] in quotes
test.yaml:10:18: limits.api.when.user: "null" is YAML's empty value; put it in quotes if it is a text
test.yaml:10:30: limits.api.when.path: "&x" is an anchor, and anchors are not allowed; put a text that begins with & in quotes
test.yaml:11:23: limits.yes: "allow" is repeated: its first value is in line 11; remove one of them`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestErrors_WholeFile checks errors without a path.
func TestErrors_WholeFile(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "test.yaml:1:1: the file has no document; write version, domain and limits",
		"# a comment\n":           "test.yaml:1:1: the file has no document; write version, domain and limits",
		"a: *b\n":                 "test.yaml:1:4: not valid YAML: unknown anchor 'b' referenced; put text that begins with one of * & ! % @ ` | > in quotes",
		"a: 1\nb: \tc\n":          "test.yaml:2:4: tabs are not allowed; use spaces",
		"\uFEFFa: 1\r\nb: *c\r\n": "test.yaml:2:4: not valid YAML: unknown anchor 'c' referenced; put text that begins with one of * & ! % @ ` | > in quotes",
		"\uFEFFa: \tb\r\n":        "test.yaml:1:4: tabs are not allowed; use spaces",
		"a: \xff\n":               "test.yaml:1:4: byte 0xff is not valid UTF-8; save the file as UTF-8",
	} {
		if got := errorsOf(t, text).Error(); got != want {
			t.Errorf("%q: %s\nwant %s", text, got, want)
		}
	}
}

// TestErrors_SplitCount checks that the error of a count that YAML splits suggests the whole count, and that lists of
// amounts are not taken for one.
func TestErrors_SplitCount(t *testing.T) {
	for list, want := range map[string]string{
		"100,000 per day":                          `write "100,000 per day" in quotes, or 100_000 per day`,
		"1,000,000 per day":                        `write "1,000,000 per day" in quotes, or 1_000_000 per day`,
		"5/s, 1,000,500 per day, 2000 per week":    `write "1,000,500 per day" in quotes, or 1_000_500 per day`,
		"10 per second burst 2,000":                `write "10 per second burst 2,000" in quotes, or 10 per second burst 2_000`,
		"10 per second burst 2,000 per day":        `write "10 per second burst 2,000 per day" in quotes, or 10 per second burst 2_000 per day`,
		"10 per second Burst 2,000, 500 per day":   `write "10 per second Burst 2,000" in quotes, or 10 per second Burst 2_000`,
		"10 per second burst 20, 100 per day":      "",
		"10 per second burst 20, 1000 per day":     "",
		"10 per second, 100 per minute, 200 per h": "",
	} {
		text := "version: 1\ndomain: shop\nlimits: {a: {allow: [" + list + "]}}\n"
		if want == "" {
			parse(t, text)
		} else if errs := errorsOf(t, text); len(errs) != 1 || errs[0].Suggestion != want {
			t.Errorf("[%s]: %v, want %s", list, errs, want)
		}
	}
}

// TestErrors_AtMost20 checks that the first 20 errors are returned.
func TestErrors_AtMost20(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\ndomain: d\nlimits:\n")
	for i := range 50 {
		fmt.Fprintf(&b, "  l%d: {allow: %d}\n", i, i)
	}
	errs := errorsOf(t, b.String())
	if len(errs) != 20 || errs[0].Line != 4 || errs[19].Line != 23 {
		t.Errorf("%d errors:\n%v", len(errs), errs)
	}
	if errs := errorsOf(t, strings.Repeat("\t\n", 50)); len(errs) != 20 || errs[19].Line != 20 {
		t.Errorf("%d errors:\n%v", len(errs), errs)
	}
}

// TestSuggest checks that similar words are suggested, and that all words are listed otherwise.
func TestSuggest(t *testing.T) {
	names := limitKeys.names()
	for word, want := range map[string]string{
		"alow": "allow", "Allow": "allow", "algorithn": "algorithm", "on-failure": "on_failure", "overides": "overrides",
		"prio": "", "retryjitter": "retry_jitter", "shadows": "shadow", "whne": "when", "descriptors": "",
	} {
		got := suggest(word, names)
		if want == "" && got != "write one of: "+strings.Join(names, ", ") || want != "" && got != fmt.Sprintf("did you mean %q?", want) {
			t.Errorf("suggest(%q) = %s, want %q", word, got, want)
		}
	}
}

// TestJoinPath checks that keys with other characters than those of names are quoted.
func TestJoinPath(t *testing.T) {
	for _, c := range [][3]string{{"", "limits", "limits"}, {"limits", "a-b_1", "limits.a-b_1"}, {"limits", "a.b", `limits."a.b"`}, {"a", "", `a.""`}, {"a", "/x/*", `a."/x/*"`}} {
		if got := joinPath(c[0], c[1]); got != c[2] {
			t.Errorf("joinPath(%q, %q) = %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// TestParse_Time checks that files of unusual shape take a time that is about linear in their size.
func TestParse_Time(t *testing.T) {
	head := "version: 1\ndomain: d\nlimits: "
	for name, text := range map[string]string{
		"one line":     head + "{" + strings.Repeat("a: {allow: 5},", 40_000) + "}",
		"long list":    head + "{a: {allow: 1/s, per: [" + strings.Repeat("x,", 100_000) + "]}}",
		"many names":   head + "{a: {allow: 1, per: [" + numbered(50_000, "n%d,") + "]}}",
		"many amounts": head + "{a: {allow: [" + numbered(50_000, "1 per %ds,") + "]}}",
		"many tiers":   "tiers: {by: t, default: n1}\nlimits: {a: {allow: {" + numbered(30_000, "n%d: 1/s,") + "}}," + numbered(10_000, "l%[1]d: {allow: {n%[1]d: 1/s}},") + "}",
		"deep":         head + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
		"deep matcher": head + "{a: {when: {x: " + strings.Repeat("{not: ", 5_000) + "a" + strings.Repeat("}", 5_000) + "}}}",
		"bad end":      head + "\n" + strings.Repeat("  a: {allow: 5/min}\n", 40_000) + " b: 1\n",
		"bad start":    "a: [\n" + strings.Repeat("- b\n", 100_000),
		"long names":   numbered(1000, strings.Repeat("x", 1000)+"%d: 1\n"),
		"long amount":  head + "{a: {allow: " + strings.Repeat("9", 1_000_000) + "}}",
		"long alias":   head + "{a: *" + strings.Repeat("x", 1_000_000) + "}",
		"long anchor":  head + "{a: &" + strings.Repeat("x", 1_000_000) + " 1, b: [&" + strings.Repeat("y", 1_000_000) + " 2]}",
		"long name":    head + "{" + strings.Repeat("x", 1_000_000) + ": {allow: 5/min}}",
	} {
		start := time.Now()
		errs := errorsOf(t, text)
		if n := len(errs.Error()); n > 20_000 {
			t.Errorf("%s: the text of the errors has %d bytes", name, n)
		}
		t.Logf("%s: %d bytes in %v, the first error is %v", name, len(text), time.Since(start), clip(errs[0].Reason))
	}
}

// TestParse_ManyLimits checks that limits are kept in their order.
func TestParse_ManyLimits(t *testing.T) {
	var b strings.Builder
	var want []string
	b.WriteString("version: 1\ndomain: d\nlimits:\n")
	for i := range 20_000 {
		want = append(want, fmt.Sprintf("limit%d", 19_999-i))
		fmt.Fprintf(&b, "  %s: {allow: 5/min, when: {user: u%d}, per: [ip]}\n", want[i], i)
	}
	limits := parse(t, b.String()).Domains[0].Limits
	if !slices.EqualFunc(limits, want, func(l Limit, name string) bool { return l.Name == name }) {
		t.Errorf("%d limits, want %d in the order of the file", len(limits), len(want))
	}
}

// numbered returns the format with each of the numbers 1 to n.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i+1)
	}
	return b.String()
}
