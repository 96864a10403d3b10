package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

const unverified = `version: 1
domain: d
default: {allow: 7/s, per: [ip]}
limits:
  keys: {when: {path: /*}, per: [ip, unverified.key], allow: 1/s}
  agents: {when: {any: [{path: /crawl}, {path: /x, any: [{unverified.agent: {not: a}}]}]}, allow: 2/s}
  users: {when: {user: {present: true}}, per: user, allow: 3/s}
  trial: {when: {user: t}, allow: 4/s, shadow: true}
`

// TestMatch_Unverified checks that a limit that uses an unverified attribute does not replace the default, and that its
// value does not matter for this.
func TestMatch_Unverified(t *testing.T) {
	x := &parse(t, unverified).Domains[0]
	d := compile(t, unverified)
	var m Matches
	for request, want := range map[string]string{
		"ip=a":                             "default [7 per second] cost 1 per [{ip a}]",
		"path=/ ip=a":                      "keys [1 per second] cost 1 per [{ip a} { }]; default [7 per second] cost 1 per [{ip a}]",
		"path=/ ip=a unverified.key=k":     "keys [1 per second] cost 1 per [{ip a} {unverified.key k}]; default [7 per second] cost 1 per [{ip a}]",
		"path=/crawl ip=a":                 "keys [1 per second] cost 1 per [{ip a} { }]; agents [2 per second] cost 1 per []; default [7 per second] cost 1 per [{ip a}]",
		"path=/x unverified.agent=b":       "keys [1 per second] cost 1 per [{ } { }]; agents [2 per second] cost 1 per []; default [7 per second] cost 1 per [{ }]",
		"path=/ user=u unverified.key=k":   "keys [1 per second] cost 1 per [{ } {unverified.key k}]; users [3 per second] cost 1 per [{user u}]",
		"user=t":                           "users [3 per second] cost 1 per [{user t}]; trial [4 per second] cost 1 per []",
		"unverified.user=u unverified.ip=": "default [7 per second] cost 1 per [{ }]",
	} {
		if got := describe(t, x, time.Time{}, request); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", request, got, want)
		}
		checkMatch(t, d, pairsOf(request), time.Time{}, &m)
	}
}

func TestDescribe_Unverified(t *testing.T) {
	const text = "version: 1\ndomain: d\ndefault: {allow: 7/s, per: [ip]}\nlimits: {keys: {per: unverified.key, allow: 1/s}}\n"
	got := parse(t, text).Domains[0].Describe(Attributes{"ip": "a", "unverified.key": "k"}, time.Time{})
	const want = `keys applies: 1 per second, for unverified.key "k"
The default applies: 7 per second, for ip "a"
decision: admitted if 1 unit remains of keys (per second) and 1 unit remains of the default (per second); charged to keys and the default
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestLimit_ReplacesDefault checks all places of an attribute in a limit.
func TestLimit_ReplacesDefault(t *testing.T) {
	for limit, want := range map[string]bool{
		"allow: 1/s": true,
		"allow: 1/s, per: [unverified, unverifiedx, ip]":        true,
		"allow: 1/s, when: {path: unverified.key}":              true,
		"allow: 1/s, shadow: true":                              false,
		"allow: 1/s, per: unverified.key":                       false,
		"allow: 1/s, per: [ip, unverified.key]":                 false,
		"allow: 1/s, when: {ip: a, unverified.key: b}":          false,
		"allow: 1/s, when: {unverified.key: {present: false}}":  false,
		"allow: 1/s, when: {any: [{ip: a}, {unverified.x: b}]}": false,
		"allow: unlimited, when: {unverified.key: {not: a}}":    false,
	} {
		l := &parse(t, "version: 1\ndomain: d\nlimits: {l: {"+limit+"}}\n").Domains[0].Limits[0]
		if got := l.replacesDefault(); got != want {
			t.Errorf("%s: %t, want %t", limit, got, want)
		}
	}
}

// TestMatch_TooManyWithDefault checks that the amounts of the default count towards those of one request.
func TestMatch_TooManyWithDefault(t *testing.T) {
	for amounts, fails := range map[int]bool{maxLimits - 2: false, maxLimits - 1: true} {
		var b strings.Builder
		b.WriteString("version: 1\ndomain: d\ndefault: {allow: [1/s, 2/m]}\nlimits:\n")
		for i := range amounts {
			fmt.Fprintf(&b, "  l%d: {allow: 1/s, per: unverified.key}\n", i)
		}
		d := compile(t, b.String())
		var m Matches
		if checkMatch(t, d, nil, time.Time{}, &m) != fails {
			t.Errorf("%d amounts and 2 of the default: error %t, want %t", amounts, !fails, fails)
		}
		if err := d.Match(nil, time.Time{}, &m); fails && (!errors.Is(err, ErrTooManyMatches) || len(m.List) > 0) {
			t.Errorf("error %v and %d limits, want %v and none", err, len(m.List), ErrTooManyMatches)
		}
	}
}
