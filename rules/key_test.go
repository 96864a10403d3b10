package rules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
)

// TestAppendKey checks keys of all forms.
func TestAppendKey(t *testing.T) {
	long := strings.Repeat("|", maxValue)
	for _, tt := range []struct {
		l      Limit
		amount string
		per    []Value
		want   string
	}{
		{Limit{}, "5 per 15m", nil, "rule|shop|api|gcra|15m"},
		{Limit{}, "5/min", []Value{{"api_key", []byte("acme")}}, "rule|shop|api|gcra|1m|api_key=acme"},
		{Limit{}, "5/min", []Value{{}, {"ip", []byte("::1")}}, "rule|shop|api|gcra|1m|-|ip=::1"},
		{Limit{}, "5/min", []Value{{"a", []byte("-")}, {"b", nil}}, "rule|shop|api|gcra|1m|a=-|b="},
		{Limit{}, "5/min", []Value{{"a", []byte("%|=\x00\x1f\x7f é\xff")}}, "rule|shop|api|gcra|1m|a=%25%7C=%00%1F%7F é\xff"},
		{Limit{}, "5/min", []Value{{"a", []byte(long)}}, "rule|shop|api|gcra|1m|a=" + strings.Repeat("%7C", maxValue)},
		{Limit{}, "5/min", []Value{{"a", []byte(long + "x")}},
			"rule|shop|api|gcra|1m|a=" + strings.Repeat("%7C", keptValue) + "%~" + "29174daa1d83d9c5324cabaa31c32828"},
		{Limit{Algorithm: Algorithm{Kind: Buckets, Buckets: 60}}, "5 per 2 hours", nil, "rule|shop|api|buckets|2h"},
		{Limit{Algorithm: Algorithm{Kind: Sliding}}, "5 per 24 hours", nil, "rule|shop|api|sliding|1d"},
		{Limit{Algorithm: Algorithm{Kind: Leaky}}, "5 per 1000ms", nil, "rule|shop|api|leaky|1s"},
		{Limit{Algorithm: Algorithm{Kind: Fixed}}, "5 per 24 hours", nil, "rule|shop|api|fixed|24h"},
		{Limit{Algorithm: Algorithm{Kind: Fixed}}, "5 per 60s", nil, "rule|shop|api|fixed|1m"},
		{Limit{Algorithm: Algorithm{Kind: Fixed}}, "5 per minute", nil, "rule|shop|api|fixed|1m"},
		{Limit{Algorithm: Algorithm{Kind: Fixed}}, "5 per 1440 minutes", nil, "rule|shop|api|fixed|24h"},
		{Limit{Algorithm: Algorithm{Kind: Fixed}}, "5 per 90 minutes", nil, "rule|shop|api|fixed|90m"},
		{Limit{Algorithm: Algorithm{Kind: Fixed}}, "5 per week", nil, "rule|shop|api|fixed|1w"},
		{Limit{Algorithm: Algorithm{Kind: Fixed}}, "5 per day", nil, "rule|shop|api|fixed|1d"},
		{Limit{Algorithm: Algorithm{Kind: Fixed}}, "5 per 7 days", nil, "rule|shop|api|fixed|7d"},
		{Limit{}, "none", nil, "rule|shop|api|gcra|none"},
		{Limit{}, "unlimited", nil, "rule|shop|api|gcra|unlimited"},
	} {
		c := counter(t, &tt.l, tt.amount)
		if got := string(c.AppendKey([]byte("x"), tt.per)); got != "x"+tt.want {
			t.Errorf("%s %q: key %q, want %q", tt.amount, tt.per, got[1:], tt.want)
		}
	}
}

// TestWindowName checks that windows of the same length have the same name, and others do not.
func TestWindowName(t *testing.T) {
	lengths := map[string]string{}
	calendar := map[string]Period{}
	for u := Millisecond; u <= Week; u++ {
		for _, n := range []int64{1, 2, 7, 14, 15, 24, 60, 90, 168, 1000, 3600, 86400, 604800, 60000} {
			p := Period{n, u}
			length, _ := p.Duration()
			name := windowName(p, false)
			if other, ok := lengths[name]; ok && other != length.String() {
				t.Errorf("%q is the name of %s and of %s", name, other, length)
			}
			lengths[name] = length.String()
			if again, err := ParseAmount("1 per " + strings.Replace(name, "mo", "month", 1)); err != nil || !samePeriod(again.Per, p) {
				t.Errorf("the name %q of %v is parsed as %v", name, p, again.Per)
			}
			name = windowName(p, true)
			other, ok := calendar[name]
			if calendar[name] = p; ok && (u >= Day || other.Unit >= Day || !samePeriod(other, p)) {
				t.Errorf("%q is the name of the calendar windows of %v and %v", name, other, p)
			}
		}
	}
}

// TestAppendKey_NoAllocation checks that AppendKey does not allocate.
func TestAppendKey_NoAllocation(t *testing.T) {
	c := counter(t, nil, "5/min")
	per := []Value{{"ip", []byte("192.0.2.1")}, {"user", []byte(strings.Repeat("x", 1000))}}
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { buf = c.AppendKey(buf[:0], per) }); n != 0 {
		t.Errorf("AppendKey allocates %v times", n)
	}
}

// anyText draws a text with characters that have a meaning in keys. Some texts are about as long as maxValue.
func anyText(r *rand.Rand) string {
	const alphabet = "%|~=-a2\x00\n\xff"
	n := r.IntN(4)
	if r.IntN(4) == 0 {
		n = maxValue - 1 + r.IntN(3)
	}
	text := make([]byte, n)
	for i := range text {
		text[i] = alphabet[0]
		if i < 3 || i >= maxValue-1 {
			text[i] = alphabet[r.IntN(len(alphabet))]
		}
	}
	return string(text)
}

// TestAppendKey_Distinct checks that different counters and values have different keys. Names of domains, limits and
// attributes have no special characters (see isName).
func TestAppendKey_Distinct(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 20))
	names, seen := []string{"a", "b", "a-b", "-", "a.b"}, map[string]string{}
	kinds := []Algorithm{{}, {Kind: Fixed}, {Kind: Log}, {Kind: Bucket}}
	for range 50_000 {
		domain, limit := names[r.IntN(len(names))], names[r.IntN(len(names))]
		l := &Limit{Algorithm: kinds[r.IntN(len(kinds))]}
		a := Amount{Kind: AmountKind(r.IntN(3)), Count: 1, Per: Period{1 + r.Int64N(2), Day + Unit(r.IntN(2))}}
		counters, err := compileCounters(domain, limit, l, []Amount{a})
		if err != nil {
			t.Fatal(err)
		}
		c := counters[0]
		var per []Value
		for range r.IntN(3) {
			per = append(per, Value{names[r.IntN(len(names))], []byte(anyText(r))})
			if r.IntN(4) == 0 {
				per[len(per)-1] = Value{}
			}
		}
		input := fmt.Sprintf("%q %q %v %q", domain, limit, l.Algorithm.Kind, per)
		if a.Kind == Rate {
			input += windowOf(l, a)
		} else {
			input += a.String()
		}
		key := string(c.AppendKey(nil, per))
		if other, ok := seen[key]; ok && other != input {
			t.Fatalf("%q is the key of\n%s\n%s", key, input, other)
		}
		seen[key] = input
		if most := len(c.prefix) + len(per)*(2+3+3*maxValue); len(key) > most || strings.ContainsFunc(key, unicode.IsControl) {
			t.Fatalf("the key %q has more than %d bytes, or a control character", key, most)
		}
	}
}

// FuzzAppendKey checks that the keys of two pairs of values are equal only if the values are.
func FuzzAppendKey(f *testing.F) {
	long := strings.Repeat("x", maxValue)
	for _, text := range []string{"", "-", "%", "%25", "|", "a|b=c", "%7C", "\x00", "%00", long, long + "x", "%~", long[:keptValue] + "%~00"} {
		f.Add("a", text, "b", text, "a", text, "b", "")
		f.Add("a", text, "", "", "a", text, "b", text)
		f.Add("a", text+"|b="+text, "", "", "a", text, "b", text)
	}
	c := counter(f, nil, "5/min")
	valid := func(v Value) bool { return v.Attribute == "" && len(v.Value) == 0 || isName(v.Attribute) }
	f.Fuzz(func(t *testing.T, a1, v1, a2, v2, a3, v3, a4, v4 string) {
		one := []Value{{a1, []byte(v1)}, {a2, []byte(v2)}}
		two := []Value{{a3, []byte(v3)}, {a4, []byte(v4)}}
		for i := range one {
			if !valid(one[i]) || !valid(two[i]) {
				return
			}
		}
		equal := a1 == a3 && a2 == a4 && v1 == v3 && v2 == v4
		x, y := string(c.AppendKey(nil, one)), string(c.AppendKey(nil, two))
		if (x == y) != equal {
			t.Errorf("%q has the key %q, %q has the key %q", one, x, two, y)
		}
		if short := string(c.AppendKey(nil, one[:1])); short == x || short == y {
			t.Errorf("%q is the key of one and of two values", short)
		}
	})
}

func TestLimitOf(t *testing.T) {
	for key, want := range map[string][3]string{
		"rule|shop|api|gcra|1m|api_key=acme": {"shop", "api", "true"},
		"rule|shop||gcra|1m|-":               {"shop", "", "true"},
		"rule|shop|api":                      {"", "", "false"},
		"rules|shop|api|gcra|1m|-":           {"", "", "false"},
		"user:1":                             {"", "", "false"},
		"":                                   {"", "", "false"},
	} {
		domain, limit, ok := LimitOf([]byte(key))
		if got := [3]string{string(domain), string(limit), fmt.Sprint(ok)}; got != want {
			t.Errorf("%q: got %v, want %v", key, got, want)
		}
	}
}
