package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

const shadows = `version: 1
domain: d
default: {allow: 7/s, per: [ip]}
limits:
  trial: {when: {path: /*}, allow: 1/s, shadow: true}
  live: {when: {path: /live*}, allow: 2/s}
  late: {when: {path: /live/late}, allow: 3/s, shadow: true}
`

// TestMatch_Shadow checks that a shadow limit does not replace the default.
func TestMatch_Shadow(t *testing.T) {
	x := &parse(t, shadows).Domains[0]
	const trial = "trial [1 per second] cost 1 per []"
	for request, want := range map[string]string{
		"":                "default [7 per second] cost 1 per [{ }]",
		"path=/ ip=a":     trial + "; default [7 per second] cost 1 per [{ip a}]",
		"path=/live":      trial + "; live [2 per second] cost 1 per []",
		"path=/live/late": trial + "; live [2 per second] cost 1 per []; late [3 per second] cost 1 per []",
	} {
		if got := describe(t, x, time.Time{}, request); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", request, got, want)
		}
	}
	x.Default = nil
	if got := describe(t, x, time.Time{}, "path=/"); got != trial {
		t.Errorf("without a default: got %s, want %s", got, trial)
	}
}

// TestDescribe_Shadow checks that the description of a request has the default beside shadow limits.
func TestDescribe_Shadow(t *testing.T) {
	x := &parse(t, shadows).Domains[0]
	f := func(want string) {
		t.Helper()
		got := x.Describe(Attributes{"path": "/"}, time.Time{})
		if _, end, _ := strings.Cut(got, "\nlate does not apply: path is \"/\", want {exact: '/live/late'}\n"); end != want {
			t.Errorf("got\n%s\nwant at the end\n%s", got, want)
		}
		if !strings.HasPrefix(got, "trial applies, in shadow: 1 per second\nlive does not apply: ") {
			t.Errorf("got\n%s\nwant the shadow limit in the first line", got)
		}
	}
	f("The default applies: 7 per second, for all requests without ip\ndecision: admitted if 1 unit remains of the default (per second); charged to the default\n")
	x.Default = nil
	f("decision: admitted, no live limit applies\n")
}

// TestMatch_ShadowCost checks that a shadow limit whose cost cannot be determined causes no error.
func TestMatch_ShadowCost(t *testing.T) {
	const text = "version: 1\ndomain: d\nlimits:\n  trial: {allow: 5/s, cost: tokens, shadow: true}\n  live: {allow: 2/s}\n"
	x := &parse(t, text).Domains[0]
	const live = "; live [2 per second] cost 1 per []"
	for _, tokens := range []string{"", "x", "0", "-1", "+", "1_0", "9223372036854775808", "1x"} {
		if got := describe(t, x, time.Time{}, "tokens="+tokens); got != "trial [5 per second] cost 0 per []"+live {
			t.Errorf("tokens %q: got %s", tokens, got)
		}
	}
	if got := describe(t, x, time.Time{}, "tokens=9223372036854775807"); got != "trial [5 per second] cost 9223372036854775807 per []"+live {
		t.Errorf("the greatest cost: got %s", got)
	}
	want := "trial applies, in shadow: 5 per second, but its cost cannot be determined\nlive applies: 2 per second\n" +
		"decision: admitted if 1 unit remains of live (per second); charged to live\n"
	if got := x.Describe(Attributes{"tokens": "x"}, time.Time{}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// manyShadows returns a file with live limits and shadow limits. Each applies if the attribute with its kind has at least
// as many characters as its number.
func manyShadows(n int) string {
	var b strings.Builder
	b.WriteString("version: 1\ndomain: d\nlimits:\n")
	for i := 1; i <= n; i++ {
		stars := strings.Repeat("x", i)
		fmt.Fprintf(&b, "  s%d: {allow: [1/s, 2/m], when: {shadow: %s*}, shadow: true}\n  l%d: {allow: 1/s, when: {live: %s*}}\n", i, stars, i, stars)
	}
	return b.String()
}

// TestMatch_TooManyShadows checks that the amounts of shadow limits do not count towards those of live limits, and that
// shadow limits with more than 32 amounts are left out.
func TestMatch_TooManyShadows(t *testing.T) {
	d := compile(t, manyShadows(40))
	var m Matches
	for _, test := range []struct {
		live, shadow    int
		limits, leftOut int
	}{{32, 0, 32, 0}, {32, 16, 48, 0}, {32, 17, 48, 1}, {0, 40, 16, 24}, {1, 16, 17, 0}} {
		pairs := pairsOf("live=" + strings.Repeat("x", test.live) + " shadow=" + strings.Repeat("x", test.shadow))
		if checkMatch(t, d, pairs, time.Time{}, &m) || len(m.List) != test.limits || m.LeftOut != test.leftOut {
			t.Errorf("%d live and %d shadow limits: %d limits, %d left out; want %d, %d left out", test.live, test.shadow, len(m.List), m.LeftOut, test.limits, test.leftOut)
		}
	}
	if err := d.Match(pairsOf("live="+strings.Repeat("x", 33)), time.Time{}, &m); !errors.Is(err, ErrTooManyMatches) {
		t.Errorf("33 live limits: error %v, want %v", err, ErrTooManyMatches)
	}
	got := d.domain.Describe(Attributes{"shadow": strings.Repeat("x", 17)}, time.Time{})
	if want := "\ns17 applies, in shadow, but is left out: more than 32 amounts of shadow limits apply\nl17 does not"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestParse_ManyShadows checks that shadow limits do not count towards the amounts of live limits in a file.
func TestParse_ManyShadows(t *testing.T) {
	for _, when := range []string{"", ", when: {x: y}"} {
		var b strings.Builder
		b.WriteString("version: 1\ndomain: d\nlimits:\n")
		for i := range 2 * maxLimits {
			fmt.Fprintf(&b, "  a%d: {allow: 1/s, shadow: %t%s}\n", i, i%2 == 0, when)
		}
		x := &parse(t, b.String()).Domains[0]
		if matches, err := x.Match(Attributes{"x": "y"}, time.Time{}); len(matches) != 2*maxLimits || err != nil {
			t.Errorf("%s: %d limits and error %v, want %d", when, len(matches), err, 2*maxLimits)
		}
	}
}
