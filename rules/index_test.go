package rules

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// candidates returns the number of limits whose conditions are checked for a request.
func candidates(t *testing.T, d *CompiledDomain, pairs [][]byte) int {
	t.Helper()
	var r request
	if err := r.read(&d.attributes, pairs); err != nil {
		t.Fatal(err)
	}
	return len(r.lookUp(d.index))
}

// TestIndex_Candidates checks that few limits are examined for a request, also if all limits share some conditions.
func TestIndex_Candidates(t *testing.T) {
	const n = 2000
	for _, tt := range []struct {
		name, when, request string // N is the number of the limit; X and Y are its digits in base 45
		most                int
	}{
		{"exact", "{client: cN}", "client=c7", 1},
		{"shared prefix", "{path: /api/*, client: cN}", "path=/api/x client=c7", 1},
		{"shared value, distinct prefixes", "{method: get, path: /aN/*}", "method=get path=/a7/x", 1},
		{"two shared values", "{path: /pX, client: cY}", "path=/p7 client=c3", 1},
		{"list and shared value", "{path: [/pX, /qX], client: cY}", "path=/q7 client=c3", 1},
		{"any", "{path: /pX, any: [{client: cY}, {user: uY}]}", "path=/p7 user=u3", 1},
		{"distinct any", "{path: /p, any: [{client: cN}, {user: uN}]}", "path=/p client=c7 user=u8", 2},
		{"nested any", "{any: [{any: [{client: cN}, {path: /p, user: uN}]}]}", "path=/p user=u8", 1},
		{"hosts", `{host: "*.tN.example.com"}`, "host=a.b.t7.example.com", 1},
		{"globs", `{path: "/tN/*/x"}`, "path=/t7/a/x", 1},
		{"templates", `{path: "/users/{id}/rN"}`, "path=/users/5/r7", 1},
		{"templates and prefixes", `{path: ["/users/{id}/rN", /rN/*]}`, "path=/users/5/r7", 1},
		{"networks", "{ip: 10.X.Y.0/24}", "ip=10.7.3.9", 1},
		{"not", "{client: {not: x}, path: /pN}", "client=c path=/p7", 1},
		{"present", `{client: "*", path: /pX, user: uY}`, "client=c path=/p7 user=u3", 1},
	} {
		var b strings.Builder
		b.WriteString("version: 1\ndomain: d\nlimits:\n")
		for i := range n {
			digits := strings.NewReplacer("N", fmt.Sprint(i), "X", fmt.Sprint(i%45), "Y", fmt.Sprint(i/45))
			fmt.Fprintf(&b, "  l%d: {allow: 1/s, when: %s}\n", i, digits.Replace(tt.when))
		}
		d := compile(t, b.String())
		pairs := pairsOf(tt.request)
		if got := candidates(t, d, pairs); got < 1 || got > tt.most {
			t.Errorf("%s: %d limits are examined, want 1 to %d", tt.name, got, tt.most)
		}
		var m Matches
		checkMatch(t, d, pairs, time.Time{}, &m)
		if len(m.List) == 0 {
			t.Errorf("%s: no limit matches", tt.name)
		}
	}
}

// targetsOf returns all elements of an index, with repetitions.
func (x *index) targetsOf() int {
	n := len(x.always)
	for _, b := range x.buckets {
		n += len(b.elements)
		if b.index != nil {
			n += b.index.targetsOf()
		}
	}
	for i := range x.attributes {
		n += len(x.attributes[i].exact)
	}
	return n
}

// TestIndex_Work checks that an index stays small although the lists of its conditions have many combinations.
func TestIndex_Work(t *testing.T) {
	x := Domain{Name: "d"}
	const limits, values = 50, 50
	for i := range limits {
		l := Limit{Name: fmt.Sprint("l", i), Allow: Allow{Amounts: []Amount{{Count: 1, Per: Period{1, Second}}}}}
		for _, name := range []string{"a", "b", "c", "d"} {
			m := Matcher{Kind: AnyOf}
			for v := range values {
				m.List = append(m.List, Matcher{Text: fmt.Sprint(name, v)})
			}
			l.When.All = append(l.When.All, Condition{name, m})
		}
		l.When.All = append(l.When.All, Condition{"e", Matcher{Text: fmt.Sprint("e", i/10)}}) // no request matches more than 32
		x.Limits = append(x.Limits, l)
	}
	set, err := Compile(&File{Domains: []Domain{x}})
	if err != nil {
		t.Fatal(err)
	}
	d := set.Domain([]byte("d"))
	if got, most := d.index.targetsOf(), 2*maxWork*limits*4*values; got > most {
		t.Errorf("the index has %d elements, want at most %d", got, most)
	}
	var m Matches
	for i := range values {
		pairs := pairsOf(fmt.Sprintf("a=a%d b=b%d c=c3 d=d4 e=e%d", i, values-1-i, i%10))
		checkMatch(t, d, pairs, time.Time{}, &m)
	}
}

// TestIndex_LongLists checks conditions with long lists, which have indexes of their own.
func TestIndex_LongLists(t *testing.T) {
	var list, cases []string
	for i := range 500 {
		list = append(list, fmt.Sprintf("c%d, d%d*, 10.1.%d.0/28", i, i, i%256))
		cases = append(cases, fmt.Sprintf("/p%d/*: %d", i, i+2))
	}
	all := strings.Join(list, ", ")
	d := compile(t, fmt.Sprintf(`
version: 1
domain: d
limits:
  in: {allow: 1k/s, when: {client: [%s]}, cost: {path: {%s}}}
  out: {allow: 2/s, when: {client: {not: [%s]}}, priority: {when: {client: [%s]}, share: 10%%}}
`, all, strings.Join(cases, ", "), all, all))
	for _, words := range []string{
		"client=c7 path=/p7/x", "client=c500 path=/p499/", "client=d499 path=/p1", "client=d77xx", "client=10.1.7.15", "client=10.1.7.16", "", "path=/p3/",
	} {
		var m Matches
		checkMatch(t, d, pairsOf(words), time.Time{}, &m)
		if len(m.List) != 1 {
			t.Errorf("%s: %d limits match, want 1", words, len(m.List))
		}
	}
}

// TestPrefixTree compares a tree with a search of the whole list.
func TestPrefixTree(t *testing.T) {
	random := rand.New(rand.NewPCG(14, 5))
	word := func(most int) string {
		b := make([]byte, random.IntN(most+1))
		for i := range b {
			b[i] = "abc"[random.IntN(3)]
		}
		return string(b)
	}
	for range 300 {
		set := map[string]bool{}
		for range random.IntN(30) {
			set[word(6)] = true
		}
		var list []keyedTarget
		for text := range set {
			list = append(list, keyedTarget{text, target(len(list))})
		}
		texts := slices.Clone(list)
		tree := newPrefixTree(list)
		for range 30 {
			var want []uint32
			value := word(8)
			for _, one := range texts {
				if strings.HasPrefix(value, one.text) {
					want = append(want, uint32(one.target))
				}
			}
			var r request
			(&index{}).addPrefixes(&r, tree, []byte(value))
			slices.Sort(r.found)
			slices.Sort(want)
			if !slices.Equal(r.found, want) {
				t.Fatalf("prefixes of %q in %v: %v, want %v", value, texts, r.found, want)
			}
		}
	}
}

// TestTemplateTree compares a tree with regular expressions.
func TestTemplateTree(t *testing.T) {
	g := &randomRules{Rand: rand.New(rand.NewPCG(14, 6))}
	for range 300 {
		expressions := map[string]*regexp.Regexp{}
		for range 1 + g.IntN(30) {
			segments, open := splitTemplate(g.template())
			text := joinTemplate(segments, open)
			expressions[text] = templateExpression(strings.ReplaceAll(text, anySegment, "{x}"))
		}
		var list []keyedTarget
		for text := range expressions {
			list = append(list, keyedTarget{text, target(len(list))})
		}
		tree := newTemplateTree(list)
		for range 30 {
			var want []uint32
			path := g.path()
			for _, one := range list {
				if expressions[one.text].MatchString(path) {
					want = append(want, uint32(one.target))
				}
			}
			var r request
			(&index{}).addTemplates(&r, tree, []byte(path))
			slices.Sort(r.found)
			if !slices.Equal(r.found, want) {
				t.Fatalf("templates of %q in %v: %v, want %v", path, list, r.found, want)
			}
		}
	}
}

// TestNetworkTable compares a table with a search of the whole list.
func TestNetworkTable(t *testing.T) {
	g := &randomRules{Rand: rand.New(rand.NewPCG(14, 7))}
	for range 300 {
		set := map[netip.Prefix]bool{}
		for range 1 + g.IntN(40) {
			set[g.network()] = true
		}
		var list []keyedTarget
		for network := range set {
			list = append(list, keyedTarget{networkText(network), target(len(list))})
		}
		networks := slices.Clone(list)
		table := newNetworkTable(list)
		for _, text := range addresses {
			var want []uint32
			for _, one := range networks {
				if textNetwork(one.text).Contains(parseAddress([]byte(text))) {
					want = append(want, uint32(one.target))
				}
			}
			r := request{positions: []uint32{0}}
			r.set(0, 0, []byte(text))
			(&index{}).addNetworks(&r, table, 0)
			slices.Sort(r.found)
			if !slices.Equal(r.found, want) {
				t.Fatalf("networks of %s: %v, want %v", text, r.found, want)
			}
		}
	}
}
