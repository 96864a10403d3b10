package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// exact returns a condition on an attribute.
func exact(attribute, text string) Condition { return Condition{attribute, Matcher{Text: text}} }

// amounts returns an Allow without tiers.
func amounts(list ...Amount) Allow { return Allow{Amounts: list} }

// TestParse_Design checks each field of the example in the design document.
func TestParse_Design(t *testing.T) {
	file := parse(t, readAll(t, "testdata/valid/design.yaml")["design.yaml"])
	zone, _ := loadZone("Europe/Berlin")
	login := Limit{
		Name: "login", When: When{All: []Condition{exact("path", "/login"), exact("method", "POST")}}, Per: []string{"ip"},
		Allow: amounts(rate(5, 15, Minute)), Algorithm: Algorithm{Kind: Log}, Charge: []int{401, 403}, OnFailure: FailClosed,
		Ban: Ban{After: rate(20, 1, Hour), For: time.Hour},
	}
	api := Limit{
		Name: "api", When: When{All: []Condition{{"path", Matcher{Kind: Prefix, Text: "/api/"}}}}, Per: []string{"client"},
		Allow: Allow{Tiers: []TierAmounts{
			{"free", []Amount{burst(rate(20, 1, Minute), 2), rate(1000, 1, Day)}},
			{"pro", []Amount{burst(rate(1000, 1, Minute), 200), rate(100_000, 1, Day)}},
		}},
		Cost: Cost{Attribute: "path", Cases: []CostCase{{Matcher{Text: "/api/export"}, 10}, {Matcher{Text: "/api/search"}, 3}}},
		Overrides: []Override{
			{When: When{All: []Condition{exact("client", "acme")}}, Allow: amounts(rate(5000, 1, Minute)), Until: time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)},
			{When: When{All: []Condition{{"ip", cidr("10.0.0.0/8")}}}, Allow: amounts(Amount{Kind: Unlimited})},
			{When: When{All: []Condition{{"client", Matcher{Kind: AnyOf, List: []Matcher{{Text: "bot1"}, {Text: "bot2"}}}}}}, Allow: amounts(Amount{Kind: None})},
			{During: During{From: 60, To: 360, Zone: zone, Days: []time.Weekday{time.Saturday, time.Sunday}}, Allow: amounts(rate(10, 1, Minute))},
		},
		Soft: 10, Warn: 80, Priority: Priority{When{All: []Condition{exact("class", "critical")}}, 20}, RetryJitter: 20,
	}
	want := &File{[]Domain{{
		Name:       "shop",
		Attributes: []Attribute{{Name: "client", FirstOf: []string{"api_key", "user", "ip"}}, {Name: "ip", IPv6Prefix: 64}},
		Tiers:      Tiers{"tier", "free"},
		Default:    &Default{amounts(rate(1000, 1, Minute)), []string{"ip"}},
		Limits:     []Limit{login, api},
	}}}
	if !reflect.DeepEqual(file, want) {
		t.Errorf("Parse = %+v\nwant %+v", file, want)
	}
}

// limitOf parses a limit in flow style.
func limitOf(t testing.TB, keys string) Limit {
	t.Helper()
	return parse(t, "version: 1\ndomain: d\nlimits: {a: {"+keys+"}}\n").Domains[0].Limits[0]
}

// TestParse_LimitKeys checks values that the design document does not show.
func TestParse_LimitKeys(t *testing.T) {
	for keys, want := range map[string]Limit{
		`allow: 1/s`:                          {},
		`allow: 1/s, algorithm: buckets 1024`: {Algorithm: Algorithm{Buckets, 1024}},
		`allow: 1/s, algorithm: leaky`:        {Algorithm: Algorithm{Kind: Leaky}},
		`allow: 1/s, cost: 2, soft: 100%`:     {Cost: Cost{Number: 2}, Soft: 100},
		`allow: 1/s, cost: tokens`:            {Cost: Cost{Attribute: "tokens"}},
		`allow: 1/s, per: [a, b]`:             {Per: []string{"a", "b"}},
		`allow: 1/s, per: a`:                  {Per: []string{"a"}},
		`allow: 1/s, charge: {status: 599}`:   {Charge: []int{599}},
		`allow: 1/s, on_failure: local`:       {OnFailure: FailLocal},
		`allow: 1/s, consistency: async`:      {Consistency: Async},
		`allow: 1/s, shadow: true`:            {Shadow: true},
		`allow: 1/s, shadow: "true"`:          {Shadow: true},
		`allow: 1/s, soft: 100%, warn: 1 %`:   {Soft: 100, Warn: 1},
	} {
		want.Name, want.Allow = "a", amounts(rate(1, 1, Second))
		if got := limitOf(t, keys); !reflect.DeepEqual(got, want) {
			t.Errorf("%s = %+v, want %+v", keys, got, want)
		}
	}
}

// TestParse_Calendar checks the keys of calendar windows.
func TestParse_Calendar(t *testing.T) {
	l := limitOf(t, "allow: [5/day, 9/month], algorithm: fixed, zone: UTC, anchor: 31")
	if l.Anchor != 31 || l.Zone != time.UTC || !reflect.DeepEqual(l.Allow, amounts(rate(5, 1, Day), rate(9, 1, Month))) {
		t.Errorf("%+v", l)
	}
}

// TestParse_Any checks nested alternatives.
func TestParse_Any(t *testing.T) {
	got := limitOf(t, "allow: 1/s, when: {m: x, any: [{a: 1}, {b: 2, any: {c: 3}}]}").When
	want := When{All: []Condition{exact("m", "x")}, Any: []When{
		{All: []Condition{exact("a", "1")}},
		{All: []Condition{exact("b", "2")}, Any: []When{{All: []Condition{exact("c", "3")}}}},
	}}
	if !reflect.DeepEqual(got, want) || got.IsZero() || !(When{}).IsZero() {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestParse_Schedules checks the forms of "until" and "during".
func TestParse_Schedules(t *testing.T) {
	for keys, want := range map[string]Override{
		"until: 2028-02-29":                {Until: time.Date(2028, 3, 1, 0, 0, 0, 0, time.UTC)},
		"until: 2027-01-31T18:00:00+01:00": {Until: time.Date(2027, 1, 31, 17, 0, 0, 0, time.UTC)},
		"until: 2027-01-31T18:00:00Z":      {Until: time.Date(2027, 1, 31, 18, 0, 0, 0, time.UTC)},
		"during: {between: 22:00-06:00}":   {During: During{1320, 360, allDays[:], time.UTC}},
		"during: {between: 06:30 - 24:00}": {During: During{390, 1440, allDays[:], time.UTC}},
		"during: {days: sun}":              {During: During{0, 1440, []time.Weekday{time.Sunday}, time.UTC}},
	} {
		want.Allow = amounts(Amount{Kind: None})
		if got := limitOf(t, "allow: 1/s, overrides: [{allow: none, "+keys+"}]").Overrides; !reflect.DeepEqual(got, []Override{want}) {
			t.Errorf("%s = %+v, want %+v", keys, got, want)
		}
	}
}

// TestParse_KeepsText checks that no text becomes a boolean, a number or a date.
func TestParse_KeepsText(t *testing.T) {
	domain := parse(t, readAll(t, "testdata/valid/words.yaml")["words.yaml"]).Domains[0]
	var got []string
	for _, c := range append(domain.Limits[0].When.All, domain.Limits[1].When.All...) {
		got = append(got, c.Attribute+"="+c.Matcher.Text)
	}
	want := strings.Split("flag=on answer=no code=0123 hex=0x1F float=1e3 day=2027-01-31 time=1:30 big=1_000 big2=.5 y=true space=a_b null=null tilde=~", " ")
	want[10] = "space=a b"
	if domain.Name != "on" || domain.Limits[0].Name != "yes" || !slices.Equal(got, want) {
		t.Errorf("%s, %s, %q; want %q", domain.Name, domain.Limits[0].Name, got, want)
	}
}

// TestParse_Domains checks that each document is a domain.
func TestParse_Domains(t *testing.T) {
	file := parse(t, readAll(t, "testdata/valid/domains.yaml")["domains.yaml"])
	if len(file.Domains) != 2 || file.Domains[0].Name != "shop" || file.Domains[1].Name != "billing" {
		t.Errorf("%+v", file)
	}
}

// TestString checks that the words of a rules file are those that String returns.
func TestString(t *testing.T) {
	for _, word := range algorithmNames {
		if word == "buckets" {
			word = "buckets 60"
		}
		if got := limitOf(t, "allow: 1/s, algorithm: "+word).Algorithm.String(); got != word {
			t.Errorf("algorithm %q: String() = %q", word, got)
		}
	}
	if got := limitOf(t, "allow: 1/s").OnFailure.String(); got != "default" {
		t.Errorf("without on_failure: String() = %q, want default", got)
	}
	for _, word := range failurePolicies {
		if got := limitOf(t, "allow: 1/s, on_failure: "+word).OnFailure.String(); got != word {
			t.Errorf("on_failure %q: String() = %q", word, got)
		}
	}
	for _, word := range consistencies {
		if got := limitOf(t, "allow: 1/s, consistency: "+word).Consistency.String(); got != word {
			t.Errorf("consistency %q: String() = %q", word, got)
		}
	}
}

// TestKeys checks that each key of the tables has a documentation or is not supported, and that the valid files use
// each supported key.
func TestKeys(t *testing.T) {
	var all strings.Builder
	for _, text := range readAll(t, "testdata/valid/*.yaml") {
		all.WriteString(text)
	}
	text := all.String()
	checkKeys(t, domainKeys, text)
	checkKeys(t, tierKeys, text)
	checkKeys(t, defaultKeys, text)
	checkKeys(t, attributeKeys, text)
	checkKeys(t, limitKeys, text)
	checkKeys(t, chargeKeys, text)
	checkKeys(t, banKeys, text)
	checkKeys(t, overrideKeys, text)
	checkKeys(t, priorityKeys, text)
	checkKeys(t, duringKeys, text)
	checkKeys(t, matcherKeys(), text)
	checkKeys(t, envoyKeys, text)
}

func checkKeys[T any](t *testing.T, ks keys[T], text string) {
	t.Helper()
	for _, k := range ks {
		supported := k.decode != nil
		if (k.doc != "") != supported {
			t.Errorf("key %q: supported %v, documentation %q", k.name, supported, k.doc)
		}
		if supported && !strings.Contains(text, k.name+":") {
			t.Errorf("no valid file has the key %q", k.name)
		}
		if supported {
			checkExample(t, ks, k)
		}
	}
}

// checkExample checks that a key has a schema, and that its example is accepted.
func checkExample[T any](t *testing.T, ks keys[T], k key[T]) {
	t.Helper()
	if k.value == nil || k.value.Title == "" || k.example == "" {
		t.Errorf("key %q: no title of its values, or no example", k.name)
		return
	}
	src, _ := newSource("example", []byte(k.name+": "+k.example))
	roots, err := src.documents()
	if err != nil {
		t.Fatalf("key %q: example %q: %v", k.name, k.example, err)
	}
	d := &decoder{report: &report{src: src, refused: map[*yaml.Node]bool{}}, loadZone: loadZone}
	treeCheck{d.report}.checkTree(value{roots[0], place{}}, 1)
	var into T
	ks.decodeEntry(d, value{roots[0], place{}}.firstEntry(), &into)
	if len(d.errs) > 0 {
		t.Errorf("key %q: example %q: %v", k.name, k.example, d.errs)
	}
}

// TestParse_Together checks that 32 amounts may match a request together, and that limits with other conditions do not
// count.
func TestParse_Together(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\ndomain: d\nlimits:\n  l: {allow: [5/s, 5/min]}\n")
	for i := range 30 {
		fmt.Fprintf(&b, "  a%d: {allow: 5/min, when: {a: b}}\n  b%d: {allow: 5/min, when: {a: c}}\n  c%d: {allow: 5/min, when: {a: d%d*}}\n", i, i, i, i)
	}
	parse(t, b.String())
}
