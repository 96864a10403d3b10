package rules

import (
	"strings"
	"testing"
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
		}
	}
}

// TestAppendKey_NoAllocation checks that AppendKey and LimitAt do not allocate.
func TestAppendKey_NoAllocation(t *testing.T) {
	c := counter(t, nil, "5/min")
	per := []Value{{"ip", []byte("192.0.2.1")}, {"user", []byte(strings.Repeat("x", 1000))}}
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { buf = c.AppendKey(buf[:0], per) }); n != 0 {
		t.Errorf("AppendKey allocates %v times", n)
	}
}
