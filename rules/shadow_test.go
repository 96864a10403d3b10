package rules

import (
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
		got, err := x.Describe(Attributes{"path": "/"}, time.Time{})
		if _, end, _ := strings.Cut(got, "\nlate does not apply: path is \"/\", want {exact: '/live/late'}\n"); end != want || err != nil {
			t.Errorf("error %v, got\n%s\nwant at the end\n%s", err, got, want)
		}
		if !strings.HasPrefix(got, "trial applies, in shadow: 1 per second\nlive does not apply: ") {
			t.Errorf("got\n%s\nwant the shadow limit in the first line", got)
		}
	}
	f("The default applies: 7 per second, for all requests without the attribute\n")
	x.Default = nil
	f("No live limit applies: the request is admitted\n")
}
