package rules

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// compile compiles the text of a file, and returns its first domain.
func compile(t testing.TB, text string) *CompiledDomain {
	t.Helper()
	set, err := Compile(parse(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return set.Domain([]byte(set.File().Domains[0].Name))
}

// pairsOf converts words such as path=/login to the attributes of a request.
func pairsOf(words string) [][]byte {
	var pairs [][]byte
	for _, word := range strings.Fields(words) {
		name, value, _ := strings.Cut(word, "=")
		pairs = append(pairs, []byte(name), []byte(value))
	}
	return pairs
}

// checkMatch compares the result of a compiled domain with that of Domain.Match. It reports whether both
// return an error.
func checkMatch(t testing.TB, d *CompiledDomain, pairs [][]byte, now time.Time, m *Matches) (failed bool) {
	t.Helper()
	request := Attributes{}
	for i := 0; i < len(pairs); i += 2 {
		request[string(pairs[i])] = string(pairs[i+1])
	}
	want, wantErr := d.domain.Match(request, now)
	err := d.Match(pairs, now, m)
	if err != nil && len(m.List) > 0 {
		t.Fatalf("Match(%q) returned an error and %d limits", pairs, len(m.List))
	}
	// Match returns ErrTooManyMatches before it reaches limits whose cost may be wrong.
	if !errors.Is(err, ErrTooManyMatches) && fmt.Sprint(err) != fmt.Sprint(wantErr) || (err == nil) != (wantErr == nil) {
		t.Fatalf("Match(%q) = %v, want the error %v", pairs, err, wantErr)
	}
	if len(m.List) != len(want) {
		t.Fatalf("Match(%q) = %v, want %v", pairs, m.List, want)
	}
	for i := range want {
		checkMatched(t, d.domain, request, m.List[i], want[i])
	}
	return err != nil
}

// checkMatched compares one limit.
func checkMatched(t testing.TB, x *Domain, request Attributes, got Matched, want Match) {
	t.Helper()
	samePer := slices.EqualFunc(got.Per, want.Per, func(v Value, s Source) bool {
		return v.Attribute == s.Attribute && string(v.Value) == s.Value
	})
	priority := want.Limit != nil && want.Limit.Priority.Share > 0 && want.Limit.Priority.When.matches(x, request)
	sameAmounts := slices.EqualFunc(got.Counters, want.Amounts, func(c Counter, a Amount) bool { return c.Amount == a })
	if got.Limit != want.Limit || !sameAmounts || got.Cost != want.Cost || !samePer || got.Priority != priority {
		t.Fatalf("request %v:\ngot  %+v\nwant %+v, priority %t", request, got, want, priority)
	}
}

func TestSet_Domain(t *testing.T) {
	file := parse(t, "version: 1\ndomain: a\nlimits: {x: {allow: 1/s}}\n---\nversion: 1\ndomain: b\nlimits: {y: {allow: 1/s}}\n")
	set, err := Compile(file)
	if err != nil || set.File() != file {
		t.Fatalf("Compile = %v, %v", set, err)
	}
	for i, name := range []string{"a", "b"} {
		if d := set.Domain([]byte(name)); d == nil || d.Domain() != &file.Domains[i] {
			t.Errorf("Domain(%q) = %v", name, d)
		}
	}
	if d := set.Domain([]byte("c")); d != nil {
		t.Errorf("Domain of an unknown name = %v, want nil", d)
	}
}

// TestSet_Match_Errors checks the errors for the attributes of a request.
func TestSet_Match_Errors(t *testing.T) {
	d := compile(t, shop)
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, " unused%d=x", i)
	}
	for words, want := range map[string]string{
		"path=/ path=/x":                        `attribute 'path' is repeated: give each attribute once`,
		"path= path=/x":                         `attribute 'path' is repeated: give each attribute once`,
		"path=/ path=":                          `attribute 'path' is repeated: give each attribute once`,
		"unused=1 path=/ unused=1":              `attribute 'unused' is repeated: give each attribute once`,
		"client=1 client=2":                     `attribute 'client' is repeated: give each attribute once`,
		"=1":                                    `the attribute with the value '1' has no name: attributes are pairs of a name and a value`,
		"path=/ =":                              `the attribute with the value '' has no name: attributes are pairs of a name and a value`,
		`path=/ a"ü=1 a"ü=2`:                    `attribute 'a\"\u00fc' is repeated: give each attribute once`,
		many.String() + " unused7=x":            `attribute 'unused7' is repeated: give each attribute once`,
		many.String() + " unused99=x":           `attribute 'unused99' is repeated: give each attribute once`,
		many.String() + " unused100=x":          "",
		many.String() + " user=u path=/":        "",
		"model=a user=u path=/x":                `limit tokens: the cost, attribute tokens, must be an integer of at least 1, and is missing`,
		"model=a user=u tokens=x":               `limit tokens: the cost, attribute tokens, must be an integer of at least 1, and is 'x'`,
		"model=a user=u tokens=-1":              `limit tokens: the cost, attribute tokens, must be an integer of at least 1, and is '-1'`,
		"model=a user=u tokens=9" + "223372036": "",
	} {
		var m Matches
		if err := d.Match(pairsOf(words), time.Time{}, &m); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: error %v, want %s", words, err, want)
		}
	}
	var m Matches
	if err := d.Match([][]byte{[]byte("path"), []byte("/"), []byte("user")}, time.Time{}, &m); err == nil || err.Error() != `attribute 'user' has no value: attributes are pairs of a name and a value` {
		t.Errorf("odd number of words: %v", err)
	}
}

// TestSet_Match_KeepsPer checks that a result stays valid although the memory for values was extended meanwhile.
func TestSet_Match_KeepsPer(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\ndomain: d\nattributes: {ip: {ipv6_prefix: 48}}\nlimits:\n")
	for i := range 20 {
		fmt.Fprintf(&b, "  l%d: {per: [ip, user], allow: 1/s}\n", i)
	}
	d := compile(t, b.String())
	var m Matches
	for _, words := range []string{"ip=2001:db8:1:2::3 user=u", "ip=::ffff:10.0.0.1", "user=v", ""} {
		if checkMatch(t, d, pairsOf(words), time.Time{}, &m); len(m.List) != 20 {
			t.Errorf("%s: %d limits, want 20", words, len(m.List))
		}
	}
}

// TestSet_Match_AfterOtherRequests checks that the result does not depend on the requests for which a Matches was used:
// other domains and orders of the attributes, repeated attributes, and one that has the name of a derived attribute.
func TestSet_Match_AfterOtherRequests(t *testing.T) {
	domains := []*CompiledDomain{
		compile(t, shop),
		compile(t, "version: 1\ndomain: d\nlimits: {l: {when: {user: u, client: c}, per: [client, ip], allow: 1/s}}\n"),
	}
	requests := []string{"user=u path=/api/x ip=10.0.0.1", "path=/login method=POST", "client=c user=u", "user=u client=c", "ip=10.0.0.1 x=1 client=c user=u", ""}
	var m Matches
	for range 3 {
		for i, words := range requests {
			for _, d := range domains {
				checkMatch(t, d, pairsOf(words), time.Time{}, &m)
				if err := d.Match(pairsOf(words+" user=a user=b"), time.Time{}, &m); err == nil {
					t.Errorf("no error for a repeated attribute after %q", words)
				}
			}
			checkMatch(t, domains[i%2], pairsOf(requests[len(requests)-1-i]), time.Time{}, &m)
		}
	}
}

// TestSet_Match_DoesNotAllocate checks that no kind of condition, cost or counted value allocates memory.
func TestSet_Match_DoesNotAllocate(t *testing.T) {
	g := &randomRules{Rand: rand.New(rand.NewPCG(14, 8))}
	var m Matches
	for range 200 {
		set, err := Compile(g.file())
		if err != nil {
			t.Fatal(err)
		}
		d := set.Domain([]byte("d"))
		for range 10 {
			pairs, now := g.request(), g.time()
			if d.Match(pairs, now, &m) != nil {
				continue // errors allocate
			}
			if got := testing.AllocsPerRun(5, func() { _ = d.Match(pairs, now, &m) }); got != 0 {
				t.Errorf("Match(%q) allocates memory %v times, want 0", pairs, got)
			}
		}
	}
}

// FuzzParseAddress compares parseAddress with netip.ParseAddr.
func FuzzParseAddress(f *testing.F) {
	for _, text := range append([]string{
		"", ".", ":", "%", "1.2.3", "1.2.3.4.5", "01.2.3.4", "256.1.1.1", "1.2.3.4%x", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8",
		"1:2:3:4:5:6:7:8:9", "1::2::3", ":::", "1:", ":1", "12345::", "::%", "::%a", "::1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4",
		"::ffff:1.2.3.4%e", "::g", "0000.1.1.1", "1..2.3", "1:2:3:4::5:6:7:8", "1.2.3.4:5", "::1.2.3.4:5", "::1234.2.3.4",
	}, addresses...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want, err := netip.ParseAddr(string(text))
		if err == nil {
			want = want.WithZone("").Unmap()
		} else {
			want = netip.Addr{}
		}
		if got := parseAddress(bytes.Clone(text)); got != want {
			t.Errorf("parseAddress(%q) = %v, want %v", text, got, want)
		}
	})
}

// TestNumbers checks that each match has the number of its limit in Set.Limits, and the default the number of the domain.
func TestNumbers(t *testing.T) {
	set, err := Compile(parse(t, "version: 1\ndomain: a\nlimits:\n  x: {allow: 1/s}\n  y: {shadow: true, allow: 1/s}\n"+
		"---\nversion: 1\ndomain: b\ndefault: {allow: 1/s}\nlimits:\n  z: {when: {p: q}, allow: 1/s}\n"+
		"---\nversion: 1\ndomain: c\nlimits:\n  u: {allow: 1/s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for domain, limit := range set.Limits() {
		names = append(names, domain+"/"+limit)
	}
	if want := []string{"a/x", "a/y", "a/", "b/z", "b/", "c/u", "c/"}; !slices.Equal(names, want) {
		t.Fatalf("Limits: got %q, want %q", names, want)
	}
	for _, c := range []struct {
		domain string
		pairs  []string
		want   []string
	}{
		{"a", nil, []string{"a/x", "a/y"}}, {"b", nil, []string{"b/"}}, {"b", []string{"p", "q"}, []string{"b/z"}}, {"c", nil, []string{"c/u"}},
	} {
		d := set.Domain([]byte(c.domain))
		if got := names[d.Default()]; got != c.domain+"/" {
			t.Errorf("domain %s: the default has the number of %q", c.domain, got)
		}
		var pairs [][]byte
		for _, p := range c.pairs {
			pairs = append(pairs, []byte(p))
		}
		var m Matches
		if err := d.Match(pairs, time.Time{}, &m); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range m.List {
			got = append(got, names[m.List[i].Number])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("domain %s, request %q: got the numbers of %q, want %q", c.domain, c.pairs, got, c.want)
		}
	}
	for range set.Limits() {
		break // stops early without a panic
	}
}
