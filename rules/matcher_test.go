package rules

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/internal/glob"
)

func cidr(text string) Matcher { return Matcher{Kind: CIDR, Network: netip.MustParsePrefix(text)} }

// matcherOf parses the YAML of a matcher.
func matcherOf(t testing.TB, yaml string) Matcher {
	t.Helper()
	file := parse(t, "version: 1\ndomain: d\nlimits: {a: {allow: 1/s, when: {x: "+yaml+"}}}\n")
	return file.Domains[0].Limits[0].When.All[0].Matcher
}

// matcherForms maps the YAML of a matcher to its meaning.
var matcherForms = map[string]Matcher{
	`/login`:                             {Kind: Exact, Text: "/login"},
	`"it's"`:                             {Kind: Exact, Text: "it's"},
	`0123`:                               {Kind: Exact, Text: "0123"},
	`1e3`:                                {Kind: Exact, Text: "1e3"},
	`true`:                               {Kind: Exact, Text: "true"},
	`2027-01-31`:                         {Kind: Exact, Text: "2027-01-31"},
	`"null"`:                             {Kind: Exact, Text: "null"},
	`1.2.3`:                              {Kind: Exact, Text: "1.2.3"},
	`120.0.6099`:                         {Kind: Exact, Text: "120.0.6099"},
	`10/8`:                               {Kind: Exact, Text: "10/8"},
	`1.2/login`:                          {Kind: Exact, Text: "1.2/login"},
	`"12:30"`:                            {Kind: Exact, Text: "12:30"},
	`"12:30:45"`:                         {Kind: Exact, Text: "12:30:45"},
	`"00:1b:44:11:3a:b7"`:                {Kind: Exact, Text: "00:1b:44:11:3a:b7"},
	`"a:b"`:                              {Kind: Exact, Text: "a:b"},
	`"urn:shop:5"`:                       {Kind: Exact, Text: "urn:shop:5"},
	`"10.0.0.1:80"`:                      {Kind: Exact, Text: "10.0.0.1:80"},
	`/10.0.0/8`:                          {Kind: Exact, Text: "/10.0.0/8"},
	`10.0.*`:                             {Kind: Prefix, Text: "10.0."},
	`"2001:db8:*"`:                       {Kind: Prefix, Text: "2001:db8:"},
	`{exact: "fe80::1%eth0"}`:            {Kind: Exact, Text: "fe80::1%eth0"},
	`{exact: "/a/*"}`:                    {Kind: Exact, Text: "/a/*"},
	`{exact: 10.0.0.0/8}`:                {Kind: Exact, Text: "10.0.0.0/8"},
	`{exact: "/a?b=[1]"}`:                {Kind: Exact, Text: "/a?b=[1]"},
	`{exact: 'CORP\bob'}`:                {Kind: Exact, Text: `CORP\bob`},
	`/api/*`:                             {Kind: Prefix, Text: "/api/"},
	`a*`:                                 {Kind: Prefix, Text: "a"},
	`{prefix: "*"}`:                      {Kind: Prefix, Text: "*"},
	`"*"`:                                {Kind: Present},
	`{present: true}`:                    {Kind: Present},
	`{present: false}`:                   {Kind: Absent},
	`"/users/{id}/orders"`:               {Kind: Template, Text: "/users/{id}/orders"},
	`"/{a}/{b}/*"`:                       {Kind: Template, Text: "/{a}/{b}/*"},
	`{template: /users/all}`:             {Kind: Template, Text: "/users/all"},
	`"*.example.com"`:                    {Kind: Glob, Text: "*.example.com"},
	`a*b`:                                {Kind: Glob, Text: "a*b"},
	`a**`:                                {Kind: Glob, Text: "a**"},
	`"[ab]*"`:                            {Kind: Glob, Text: "[ab]*"},
	`{glob: "/a?"}`:                      {Kind: Glob, Text: "/a?"},
	`10.0.0.0/8`:                         cidr("10.0.0.0/8"),
	`192.0.2.7`:                          cidr("192.0.2.7/32"),
	`0.0.0.0/0`:                          cidr("0.0.0.0/0"),
	`2001:db8::/32`:                      cidr("2001:db8::/32"),
	`2001:DB8:0::1`:                      cidr("2001:db8::1/128"),
	`"::ffff:192.0.2.7"`:                 cidr("192.0.2.7/32"),
	`{cidr: 10.1.0.0/16}`:                cidr("10.1.0.0/16"),
	`[a]`:                                {Kind: AnyOf, List: []Matcher{{Text: "a"}}},
	`[a, b*, 10.0.0.0/8]`:                {Kind: AnyOf, List: []Matcher{{Text: "a"}, {Kind: Prefix, Text: "b"}, cidr("10.0.0.0/8")}},
	`{not: bob}`:                         {Kind: Not, List: []Matcher{{Text: "bob"}}},
	`{not: {not: [a, {present: true}]}}`: {Kind: Not, List: []Matcher{{Kind: Not, List: []Matcher{{Kind: AnyOf, List: []Matcher{{Text: "a"}, {Kind: Present}}}}}}},
}

// TestMatcher_Forms checks the kind of each form of a matcher, and that String returns YAML with the same meaning.
func TestMatcher_Forms(t *testing.T) {
	for yaml, want := range matcherForms {
		got := matcherOf(t, yaml)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s = %+v, want %+v", yaml, got, want)
		}
		if again := matcherOf(t, got.String()); !reflect.DeepEqual(again, got) {
			t.Errorf("%s: the String %s = %+v, want %+v", yaml, got, again, got)
		}
	}
}

// TestParseForm_Networks checks that misspelled networks are not matched as texts.
func TestParseForm_Networks(t *testing.T) {
	for _, text := range []string{
		"10.0.0/8", "10.0/8", "010.0.0.0/8", "300.0.0.0/8", "10.1.2.300", "192.168.1/24", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/255.0.0.0",
		"10.0.0.0 /8", " 10.0.0.1", "10.0.0.0.0/8", "10.0.0.1%eth0", "2001:db8:/32", "2001:/16", "2001:db8:1", "2001:db8:::1", "2001:db8::1::2",
		"2001:db8::12345/64", "2001:db8::/129", "::ffff:1.2.3.400", "fe80::1%eth0", "fe80::1%eth0/64", "1:2:3:4:5:6:7:8:9",
		"00:1b:44:11:3a:b7/24",
	} {
		if m, err := parseForm(text); err != errNetwork {
			t.Errorf("parseForm(%q) = %v, %v; want errNetwork", text, m, err)
		}
	}
}

// randomText returns a text of characters that have a meaning in YAML or in patterns.
func randomText(random *rand.Rand) string {
	var b strings.Builder
	for range 1 + random.IntN(7) {
		b.WriteString([]string{"a", "B", "0", "*", "?", "[", "]", "{", "}", "\\", "/", ":", " ", "'", `"`, "#", ",", "&", "!", "|", "%", "-", "~", "ü", "日", ".", "<<", "null", "::1"}[random.IntN(29)])
	}
	return b.String()
}

// randomMatcher returns a matcher that Parse can return, with lists of at most the given depth.
func randomMatcher(random *rand.Rand, depth int) Matcher {
	kind := MatcherKind(random.IntN(9))
	switch {
	case kind == Template:
		return Matcher{Kind: Template, Text: "/users/{id}/*"}
	case kind == CIDR:
		address := netip.AddrFrom4([4]byte{byte(random.Uint32()), byte(random.Uint32()), 0, 1})
		return Matcher{Kind: CIDR, Network: netip.PrefixFrom(address, random.IntN(33)).Masked()}
	case kind == Present, kind == Absent:
		return Matcher{Kind: kind}
	case kind == Not && depth > 0:
		return Matcher{Kind: Not, List: []Matcher{randomMatcher(random, depth-1)}}
	case kind == AnyOf && depth > 0:
		m := Matcher{Kind: AnyOf}
		for range 1 + random.IntN(3) {
			m.List = append(m.List, randomMatcher(random, depth-1))
		}
		return m
	}
	text := randomText(random)
	if kind == Prefix || kind == Glob && glob.Check(text) == nil {
		return Matcher{Kind: kind, Text: text}
	}
	return Matcher{Kind: Exact, Text: text}
}

// TestMatcher_StringProperty checks that random matchers equal the matchers that are parsed from their String.
func TestMatcher_StringProperty(t *testing.T) {
	random := rand.New(rand.NewPCG(14, 1))
	for range 2000 {
		want := randomMatcher(random, 4)
		if got := matcherOf(t, want.String()); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s = %+v, want %+v", want, got, want)
		}
	}
}

// TestMatcher_String_Control checks texts with characters that a file can have only in escaped form.
func TestMatcher_String_Control(t *testing.T) {
	for _, text := range []string{"a\x1bb", "a\tb'\"\\", "\n", "\u0085\u2028é", "\x00\x7f", "\U0001f600\u00a0\x01"} {
		want := Matcher{Kind: Exact, Text: text}
		if got := matcherOf(t, want.String()); !reflect.DeepEqual(got, want) {
			t.Errorf("%s = %+v, want %+v", want, got, want)
		}
	}
}

// TestParseForm_TextIsKept checks that each random text without the form of a pattern is matched exactly, and that a
// refused text has a reason.
func TestParseForm_TextIsKept(t *testing.T) {
	random := rand.New(rand.NewPCG(14, 2))
	for range 20000 {
		text := randomText(random)
		m, err := parseForm(text)
		switch {
		case err != nil:
			if !strings.ContainsAny(text, `?[\{}/.:`) {
				t.Errorf("parseForm(%q): %v", text, err)
			}
		case m.Kind == Exact && (m.Text != text || strings.ContainsAny(text, `*?[\{}`)):
			t.Errorf("parseForm(%q) = %+v", text, m)
		case m.Kind == Prefix && m.Text+"*" != text:
			t.Errorf("parseForm(%q) = %+v", text, m)
		}
	}
}
