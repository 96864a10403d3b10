package rules

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests need Europe/Berlin, also on machines without time zones
	"unicode/utf8"
)

func TestMatcher(t *testing.T) {
	for _, tt := range []struct{ matcher, yes, no string }{
		{"/login", "/login", "/login/ /Login /logi"},
		{"/api/*", "/api/ /api/a /api/a/b", "/api /ap /x/api/"},
		{`"*"`, "a *", ""},
		{`"/users/{id}"`, "/users/5 /users/{id}", "/users/ /users /users/5/ /users/5/x users/5"},
		{`"/users/{id}/orders"`, "/users/5/orders", "/users//orders /users/5/order /users/5/6/orders /users/5/orders/"},
		{`"/users/{id}/*"`, "/users/5/ /users/5/x /users/5/x/y", "/users/5 /users//x"},
		{`"/{a}/{b}/"`, "/x/y/", "/x/y //y/ /x/y/z"},
		{"{template: /users/all}", "/users/all", "/users/all/ /users"},
		{"{template: /users/*}", "/users/ /users/5", "/users"},
		{`"*.example.com"`, "a.example.com .example.com", "example.com a.example.comx"},
		{"{glob: 'b?t'}", "bat b?t", "bt baat"},
		{"10.0.0.0/8", "10.0.0.0 10.255.255.255 ::ffff:10.1.2.3", "11.0.0.0 9.255.255.255 10 10.0.0.0/8 ::"},
		{"192.0.2.7", "192.0.2.7 ::ffff:192.0.2.7", "192.0.2.70 192.0.2.6"},
		{"2001:db8::/32", "2001:db8::1 2001:0DB8:0:0::9 2001:db8::1%eth0", "2001:db9:: 10.0.0.1"},
		{`"::1"`, "::1 0:0:0:0:0:0:0:1", "::2"},
		{"[GET, POST*]", "GET POST POSTS", "PUT get"},
		{"{exact: '/a/*'}", "/a/*", "/a/b"},
		{"{prefix: '/a?'}", "/a? /a?b", "/ab"},
		{"{present: true}", "a", ""},
		{"{not: bob}", "alice", "bob"},
		{"{not: [bob, 10.0.0.0/8]}", "alice 11.0.0.1", "bob 10.0.0.1"},
		{"{not: {not: bob}}", "bob", "alice"},
	} {
		m := matcherOf(t, tt.matcher)
		for _, value := range strings.Fields(tt.yes) {
			if !m.matches(value) {
				t.Errorf("%s does not match %q", tt.matcher, value)
			}
		}
		for _, value := range strings.Fields(tt.no) {
			if m.matches(value) {
				t.Errorf("%s matches %q", tt.matcher, value)
			}
		}
	}
}

// TestMatcher_Absent checks which matchers match an absent attribute.
func TestMatcher_Absent(t *testing.T) {
	for matcher, want := range map[string]bool{
		"/login": false, `"*"`: false, "{prefix: a}": false, "{glob: '*'}": false, "10.0.0.0/8": false,
		"{present: true}": false, "{present: false}": true, "{not: bob}": true, "{not: {present: false}}": false,
		"[bob, {present: false}]": true, "[bob, alice]": false,
	} {
		if got := matcherOf(t, matcher).matches(""); got != want {
			t.Errorf("%s, absent attribute: %t, want %t", matcher, got, want)
		}
	}
}

// FuzzTemplate compares templates with regular expressions.
func FuzzTemplate(f *testing.F) {
	f.Add("/users/{id}/orders", "/users/5/orders")
	f.Add("/users/{id}/*", "/users/5")
	f.Add("/{a}/", "/x/")
	f.Add("/", "//")
	f.Fuzz(func(t *testing.T, template, path string) {
		m, err := parseTemplate(template)
		if err != nil || path == "" || !utf8.ValidString(template) { // a rules file is valid UTF-8
			return
		}
		if got, want := m.matches(path), templateExpression(template).MatchString(path); got != want {
			t.Errorf("template %q, path %q: %t, want %t", template, path, got, want)
		}
	})
}

var variable = regexp.MustCompile(`\\\{[^/]*\\\}`)

func templateExpression(template string) *regexp.Regexp {
	text, open := strings.CutSuffix(template, "/*")
	text = variable.ReplaceAllString(regexp.QuoteMeta(text), "[^/]+")
	if open {
		text += "/.*"
	}
	return regexp.MustCompile(`(?s)\A` + text + `\z`)
}

const shop = `
version: 1
domain: shop
attributes:
  client: {first_of: [api_key, user, ip]}
  ip: {ipv6_prefix: 64}
tiers: {by: tier, default: free}
default: {allow: 1000/min, per: ip}
limits:
  login:
    when: {path: /login, method: POST}
    per: ip
    allow: 5 per 15m
  api:
    when: {path: /api/*}
    per: [client, path]
    allow: {free: [20/min, 1000/day], pro: 1000/min}
    cost: {path: {/api/export: 10, /api/search/*: 3}}
    overrides:
      - {when: {client: acme}, allow: 5000/min, until: 2027-01-31}
      - {when: {client: acme}, allow: {free: 50/min, pro: 60/min}}
      - {when: {ip: 2001:db8::7}, allow: unlimited}
  tokens:
    when: {any: [{model: a}, {model: b, path: /x}], user: "*"}
    allow: 100k/min
    cost: tokens
`

// describe returns the matches of a request as text: for each, its name, amounts, cost and counted values.
func describe(t *testing.T, x *Domain, now time.Time, words string) string {
	t.Helper()
	request := Attributes{}
	for _, word := range strings.Fields(words) {
		name, value, _ := strings.Cut(word, "=")
		request[name] = value
	}
	set, err := Compile(&File{Domains: []Domain{*x}})
	if err != nil {
		t.Fatal(err)
	}
	compiled := set.Domain([]byte(x.Name))
	checkMatch(t, compiled, pairsOf(words), now, &Matches{})
	x = compiled.domain
	matches, err := x.Match(request, now)
	if err != nil {
		return err.Error()
	}
	var lines, names, explained []string
	for _, m := range matches {
		name := "default"
		if m.Limit != nil {
			name = m.Limit.Name
			names = append(names, name)
		}
		lines = append(lines, fmt.Sprintf("%s %v cost %d per %v", name, m.Amounts, m.Cost, m.Per))
	}
	for _, e := range x.Explain(request, now) {
		if e.Unmet == "" {
			explained = append(explained, e.Limit)
		}
	}
	if !slices.Equal(names, explained) {
		t.Errorf("%s: Match returned the limits %v, and Explain states that %v apply", words, names, explained)
	}
	return strings.Join(lines, "; ")
}

func TestMatch(t *testing.T) {
	x := &parse(t, shop).Domains[0]
	before := time.Date(2027, 1, 31, 23, 59, 59, 0, time.UTC)
	for _, tt := range []struct {
		now           time.Time
		request, want string
	}{
		{before, "path=/login method=POST ip=192.0.2.1", "login [5 per 15 minutes] cost 1 per [{ip 192.0.2.1}]"},
		{before, "path=/login method=POST", "login [5 per 15 minutes] cost 1 per [{ }]"},
		{before, "path=/login method=GET ip=::ffff:192.0.2.1", "default [1000 per minute] cost 1 per [{ip 192.0.2.1}]"},
		{before, "ip=2001:db8:0:5:1::4%eth0", "default [1000 per minute] cost 1 per [{ip 2001:db8:0:5::/64}]"},
		{before, "", "default [1000 per minute] cost 1 per [{ }]"},
		{before, "path=/api/a api_key=k user=u ip=i", "api [20 per minute 1000 per day] cost 1 per [{api_key k} {path /api/a}]"},
		{before, "path=/api/a api_key= user=u ip=i", "api [20 per minute 1000 per day] cost 1 per [{user u} {path /api/a}]"},
		{before, "path=/api/a ip=i tier=pro", "api [1000 per minute] cost 1 per [{ip i} {path /api/a}]"},
		{before, "path=/api/a ip=i tier=gold", "api [20 per minute 1000 per day] cost 1 per [{ip i} {path /api/a}]"},
		{before, "path=/api/export user=u", "api [20 per minute 1000 per day] cost 10 per [{user u} {path /api/export}]"},
		{before, "path=/api/search/x user=u", "api [20 per minute 1000 per day] cost 3 per [{user u} {path /api/search/x}]"},
		{before, "path=/api/a user=acme", "api [5000 per minute] cost 1 per [{user acme} {path /api/a}]"},
		{before.Add(time.Second), "path=/api/a user=acme", "api [50 per minute] cost 1 per [{user acme} {path /api/a}]"},
		{before.Add(time.Second), "path=/api/a user=acme tier=pro", "api [60 per minute] cost 1 per [{user acme} {path /api/a}]"},
		{before, "path=/api/a ip=2001:db8::7", "api [unlimited] cost 1 per [{ip 2001:db8::/64} {path /api/a}]"},
		{before, "path=/api/a ip=2001:db8::8", "api [20 per minute 1000 per day] cost 1 per [{ip 2001:db8::/64} {path /api/a}]"},
		{before, "model=a user=u tokens=250", "tokens [100000 per minute] cost 250 per []"},
		{before, "model=b user=u tokens=250", "default [1000 per minute] cost 1 per [{ }]"},
		{before, "model=b user=u tokens=1 path=/x", "tokens [100000 per minute] cost 1 per []"},
		{before, "model=a tokens=250", "default [1000 per minute] cost 1 per [{ }]"},
		{before, "model=a user=u tokens=0", `limit tokens: the cost, attribute tokens, must be an integer of at least 1, and is '0'`},
		{before, "model=a user=u", `limit tokens: the cost, attribute tokens, must be an integer of at least 1, and is missing`},
		{before, "model=a user=u tokens=2 path=/api/", "api [20 per minute 1000 per day] cost 1 per [{user u} {path /api/}]; tokens [100000 per minute] cost 2 per []"},
	} {
		if got := describe(t, x, tt.now, tt.request); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.request, got, tt.want)
		}
	}
}

func TestMatch_NoDefault(t *testing.T) {
	x := &parse(t, "version: 1\ndomain: d\nlimits: {a: {allow: 1/s, when: {x: y}}}").Domains[0]
	if matches, err := x.Match(Attributes{"x": "z"}, time.Time{}); matches != nil || err != nil {
		t.Errorf("Match returned %v, %v; want nil for a request that no limit applies to", matches, err)
	}
}

func TestMatch_TooMany(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\ndomain: d\nlimits:\n")
	for i := range maxLimits + 1 {
		fmt.Fprintf(&b, "  a%d: {allow: 1/s, when: {x: %q}}\n", i, fmt.Sprintf("%s*", strings.Repeat("y", i+1)))
	}
	x := &parse(t, b.String()).Domains[0]
	for n, want := range map[int]error{maxLimits: nil, maxLimits + 1: ErrTooManyMatches} {
		if matches, err := x.Match(Attributes{"x": strings.Repeat("y", n)}, time.Time{}); !errors.Is(err, want) || err == nil && len(matches) != n {
			t.Errorf("%d limits apply: Match returned %d limits and the error %v, want %v", n, len(matches), err, want)
		}
	}
}

// TestDuring checks parts of a week, also on days on which the clock changes: in Berlin, at 02:00 on 2027-03-28 it is
// set to 03:00, and at 03:00 on 2027-10-31 to 02:00.
func TestDuring(t *testing.T) {
	for _, tt := range []struct{ during, yes, no string }{
		{`{between: "01:00-06:00", days: [sat, sun]}`,
			"2027-03-27T01:00:00Z 2027-03-28T05:59:59Z", "2027-03-27T00:59:59Z 2027-03-27T06:00:00Z 2027-03-26T02:00:00Z"},
		{`{between: "22:00-06:00", days: [fri]}`,
			"2027-03-26T22:00:00Z 2027-03-27T05:59:59Z", "2027-03-26T05:00:00Z 2027-03-27T22:00:00Z 2027-03-27T06:00:00Z"},
		{`{between: "22:00-06:00"}`, "2027-03-27T22:00:00Z 2027-03-28T05:00:00Z", "2027-03-27T06:00:00Z 2027-03-27T21:59:59Z"},
		{`{between: "18:00-24:00"}`, "2027-03-27T23:59:59Z", "2027-03-27T00:00:00Z"},
		{`{days: [sun], zone: Europe/Berlin}`, "2027-03-27T23:00:00Z 2027-03-28T21:59:59Z", "2027-03-27T22:59:59Z 2027-03-28T22:00:00Z"},
		{`{between: "02:00-03:00", zone: Europe/Berlin}`, "2027-03-27T01:30:00Z 2027-10-31T00:30:00Z 2027-10-31T01:30:00Z",
			"2027-03-28T00:30:00Z 2027-03-28T01:30:00Z 2027-10-31T02:00:00Z"},
	} {
		text := "version: 1\ndomain: d\nlimits: {a: {allow: 1/s, overrides: [{allow: 2/s, during: " + tt.during + "}]}}"
		file, err := Parse("test.yaml", []byte(text), time.LoadLocation)
		if err != nil {
			t.Fatal(err)
		}
		part := file.Domains[0].Limits[0].Overrides[0].During
		for times, want := range map[string]bool{tt.yes: true, tt.no: false} {
			for _, text := range strings.Fields(times) {
				now, err := time.Parse(time.RFC3339, text)
				if err != nil {
					t.Fatal(err)
				}
				if got := part.contains(now); got != want {
					t.Errorf("%s contains %s: %t, want %t", tt.during, text, got, want)
				}
			}
		}
	}
}

// TestAttributesOf checks that the errors are those of CompiledDomain.Match.
func TestAttributesOf(t *testing.T) {
	d := compile(t, shop)
	for words, want := range map[string]Attributes{
		"": {}, "path /": {"path": "/"}, "a 1 b 2": {"a": "1", "b": "2"}, "path": nil, "a 1 path": nil, "a 1 b 2 a 3": nil,
	} {
		var pairs [][]byte
		for _, word := range strings.Fields(words) {
			pairs = append(pairs, []byte(word))
		}
		got, err := AttributesOf(pairs)
		if !maps.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: got %v and the error %v, want %v", words, got, err, want)
		}
		if match := d.Match(pairs, time.Time{}, &Matches{}); fmt.Sprint(match) != fmt.Sprint(err) {
			t.Errorf("%q: the error is %v, and that of Match is %v", words, err, match)
		}
	}
}
