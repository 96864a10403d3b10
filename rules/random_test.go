package rules

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// randomRules returns random files, and requests that meet many of their conditions.
type randomRules struct {
	*rand.Rand
	texts map[string][]string // values that conditions on an attribute were made from
}

var (
	plainNames = []string{"path", "method", "ip", "user", "key", "host", "class", "model", "unverified.key"}
	condNames  = append([]string{"client", "origin"}, plainNames...)
	pathParts  = []string{"api", "users", "5", "orders", "x", "", "*"}
	words      = []string{"a", "b", "ab", "abc", "GET", "POST", "free", "pro", "gold", "b.example", "a.b.example", "1", "7", "0", "+12"}
	addresses  = []string{
		"10.1.2.3", "10.1.2.4", "10.200.0.1", "192.0.2.1", "2001:db8::7", "2001:db8:0:5::9", "::ffff:10.1.2.3",
		"fe80::1%eth0", "::1", "10.1.2.300", "2001:DB8:0:0::7",
	}
	berlin, _  = time.LoadLocation("Europe/Berlin")
	startOfDay = time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
)

func pick[T any](g *randomRules, list []T) T { return list[g.IntN(len(list))] }

// file returns a file with one domain.
func (g *randomRules) file() *File {
	g.texts = map[string][]string{}
	x := Domain{Name: "d"}
	x.Attributes = g.attributes()
	if g.IntN(2) == 0 {
		x.Tiers = Tiers{By: pick(g, []string{"tier", "client", "method"}), Default: "free"}
	}
	if g.IntN(2) == 0 {
		x.Default = &Default{Allow: g.allow(x.Tiers), Per: g.names()}
	}
	n := []int{1, 3, 10, 40, 120}[g.IntN(5)]
	common := g.when(1)
	for i := range n {
		x.Limits = append(x.Limits, g.limit(fmt.Sprintf("l%d", i), x.Tiers, common))
	}
	return &File{Domains: []Domain{x}}
}

// attributes returns definitions of attributes.
func (g *randomRules) attributes() (list []Attribute) {
	if g.IntN(4) > 0 {
		list = append(list, Attribute{Name: "client", FirstOf: []string{"key", "user", "ip"}[:1+g.IntN(3)]})
	}
	if g.IntN(4) == 0 {
		list = append(list, Attribute{Name: "origin", FirstOf: []string{"client", "ip"}})
	}
	if g.IntN(2) == 0 {
		list = append(list, Attribute{Name: "ip", IPv6Prefix: 1 + g.IntN(128)})
	}
	return list
}

func (g *randomRules) limit(name string, tiers Tiers, common When) Limit {
	l := Limit{Name: name, When: g.when(2), Per: g.names(), Allow: g.allow(tiers), Cost: g.cost()}
	if g.IntN(3) == 0 {
		l.When.All = append(slices.Clone(common.All), l.When.All...)
	}
	for range []int{0, 0, 1, 5, 30}[g.IntN(5)] {
		l.Overrides = append(l.Overrides, g.override(tiers))
	}
	l.Shadow = g.IntN(6) == 0
	if g.IntN(4) == 0 {
		l.Priority = Priority{When: g.when(1), Share: 20}
	}
	return l
}

func (g *randomRules) override(tiers Tiers) Override {
	o := Override{When: g.when(1), Allow: g.allow(tiers)}
	if g.IntN(4) == 0 {
		o.Until = startOfDay.Add(time.Duration(g.IntN(48)) * time.Hour)
	}
	if g.IntN(4) == 0 {
		o.During = During{From: 60 * g.IntN(24), To: 60 * (1 + g.IntN(24)), Days: []time.Weekday{time.Sunday, time.Monday}, Zone: pick(g, []*time.Location{time.UTC, berlin})}
	}
	return o
}

// names returns a list of distinct attributes, which may be empty.
func (g *randomRules) names() []string {
	list := slices.Clone(condNames)
	g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:g.IntN(3)]
}

// allow returns amounts that differ between calls, so that a wrong choice is detected.
func (g *randomRules) allow(tiers Tiers) Allow {
	if tiers.By == "" || g.IntN(2) == 0 {
		return Allow{Amounts: g.amounts()}
	}
	return Allow{Tiers: []TierAmounts{{"pro", g.amounts()}, {"free", g.amounts()}, {"GET", g.amounts()}}}
}

func (g *randomRules) amounts() []Amount {
	list := []Amount{{Count: 1 + g.Int64N(1e12), Per: Period{1, Minute}}}
	if g.IntN(4) == 0 {
		list = append(list, Amount{Count: 1 + g.Int64N(1e12), Per: Period{1, Day}})
	}
	return list
}

func (g *randomRules) cost() Cost {
	switch n := g.IntN(80); {
	case n == 0:
		return Cost{Attribute: pick(g, []string{"class", "model", "client"})}
	case n < 10:
		return Cost{Number: 1 + g.Int64N(9)}
	case n < 30:
		c := Cost{Attribute: pick(g, condNames)}
		for range []int{1, 3, 20}[g.IntN(3)] {
			c.Cases = append(c.Cases, CostCase{g.matcher(c.Attribute, 0), 2 + g.Int64N(100)})
		}
		return c
	}
	return Cost{}
}

// when returns conditions with alternatives that are nested at most depth times.
func (g *randomRules) when(depth int) When {
	var w When
	for _, name := range g.names() {
		w.All = append(w.All, Condition{name, g.matcher(name, 2)})
	}
	if g.IntN(3) == 0 {
		name := pick(g, condNames)
		w.All = append(w.All, Condition{name, g.matcher(name, 2)})
	}
	if depth > 0 && g.IntN(5) == 0 {
		for range []int{1, 2, 4, 12}[g.IntN(4)] {
			w.Any = append(w.Any, g.when(depth-1))
		}
	}
	return w
}

// matcher returns a matcher for an attribute, with lists that are nested at most depth times.
func (g *randomRules) matcher(name string, depth int) Matcher {
	if depth > 0 && g.IntN(4) == 0 {
		if g.IntN(2) == 0 {
			return Matcher{Kind: Not, List: []Matcher{g.matcher(name, depth-1)}}
		}
		m := Matcher{Kind: AnyOf}
		for range []int{1, 2, 3, 20}[g.IntN(4)] {
			m.List = append(m.List, g.matcher(name, depth-1))
		}
		return m
	}
	text := g.newText(name)
	switch kind := MatcherKind(g.IntN(10)); kind {
	case Prefix:
		return Matcher{Kind: Prefix, Text: text[:1+g.IntN(len(text))]}
	case Template:
		return Matcher{Kind: Template, Text: g.template()}
	case Glob:
		return Matcher{Kind: Glob, Text: g.glob(text)}
	case CIDR:
		return Matcher{Kind: CIDR, Network: g.network()}
	case Present, Absent:
		if depth == 0 || g.IntN(2) == 0 {
			return Matcher{Kind: Present}
		}
		return Matcher{Kind: kind}
	}
	return Matcher{Kind: Exact, Text: text}
}

// newText returns a text for a condition, which requests have often.
func (g *randomRules) newText(name string) string {
	text := g.text(name)
	g.texts[name] = append(g.texts[name], text)
	return text
}

func (g *randomRules) text(name string) string {
	switch {
	case name == "path":
		return g.path()
	case name == "ip" || g.IntN(8) == 0:
		return pick(g, addresses)
	}
	return pick(g, words)
}

func (g *randomRules) path() string {
	var b strings.Builder
	for range 1 + g.IntN(3) {
		b.WriteString("/" + pick(g, pathParts))
	}
	return b.String()
}

func (g *randomRules) template() string {
	var b strings.Builder
	for range 1 + g.IntN(3) {
		b.WriteString("/" + pick(g, []string{"{id}", "{id}", "api", "users", "orders", "x", ""}))
	}
	return b.String() + pick(g, []string{"", "", "/*"})
}

func (g *randomRules) glob(text string) string {
	if g.IntN(10) == 0 {
		return text
	}
	i, j := g.IntN(len(text)+1), g.IntN(len(text)+1)
	i, j = min(i, j), max(i, j)
	return text[:i] + pick(g, []string{"*", "?", "[a-z]", `\`, "**"}) + text[j:] + pick(g, []string{"", "", "*", "[", `\`})
}

func (g *randomRules) network() netip.Prefix {
	address := netip.MustParseAddr(pick(g, []string{"10.1.2.3", "10.200.0.1", "192.0.2.1", "2001:db8::7", "2001:db8:0:5::9", "::1"}))
	return netip.PrefixFrom(address, address.BitLen()-g.IntN(address.BitLen()+1)).Masked()
}

// request returns the attributes of a request.
func (g *randomRules) request() [][]byte {
	var pairs [][]byte
	for _, name := range append([]string{"tier", "client", "unused"}, plainNames...) {
		if g.IntN(3) == 0 {
			continue
		}
		pairs = append(pairs, []byte(name), []byte(g.value(name)))
	}
	return pairs
}

func (g *randomRules) value(name string) string {
	list := g.texts[name]
	if name == "key" || name == "user" {
		list = append(list, g.texts["client"]...)
	}
	switch n := g.IntN(20); {
	case n == 0:
		return ""
	case n < 15 && len(list) > 0:
		return pick(g, list)
	}
	return g.text(name)
}

// time returns a time around that of the overrides.
func (g *randomRules) time() time.Time {
	return startOfDay.Add(time.Duration(g.IntN(72*60)) * time.Minute)
}
