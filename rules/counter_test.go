package rules

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// counter compiles one amount of a limit.
func counter(t testing.TB, l *Limit, amount string) Counter {
	t.Helper()
	a, err := ParseAmount(amount)
	if err != nil {
		t.Fatal(err)
	}
	counters, err := compileCounters("shop", "api", l, []Amount{a})
	if err != nil {
		t.Fatal(err)
	}
	return counters[0]
}

// TestCounter checks the kind and the limit of each algorithm.
func TestCounter(t *testing.T) {
	for _, tt := range []struct {
		algorithm Algorithm
		amount    string
		kind      limiter.Kind
		want      limiter.Limit
	}{
		{Algorithm{}, "100 per minute", limiter.ScaledThrottle, limiter.Limit{Max: 100, Interval: 600 * time.Millisecond}},
		{Algorithm{}, "100 per minute burst 20", limiter.ScaledThrottle, limiter.Limit{Max: 20, Interval: 600 * time.Millisecond}},
		{Algorithm{}, "7 per 1s", limiter.ScaledThrottle, limiter.Limit{Max: 7, Interval: 142857143}},
		{Algorithm{}, "1 per 2 weeks", limiter.ScaledThrottle, limiter.Limit{Max: 1, Interval: 14 * 24 * time.Hour}},
		{Algorithm{Kind: Sliding}, "100 per minute", limiter.SlidingWindow, limiter.Limit{Max: 100, Interval: time.Minute, Amount: 1}},
		{Algorithm{Kind: Fixed}, "100 per 90 minutes", limiter.FixedWindow, limiter.Limit{Max: 100, Interval: 90 * time.Minute, Amount: 1}},
		{Algorithm{Kind: Log}, "5 per 15m", limiter.WindowLog, limiter.Limit{Max: 5, Interval: 15 * time.Minute, Amount: 5}},
		{Algorithm{Kind: Buckets, Buckets: 60}, "100 per hour", limiter.WindowBuckets, limiter.Limit{Max: 100, Interval: time.Minute, Amount: 60}},
		{Algorithm{Kind: Bucket}, "2 per second burst 20", limiter.ScaledBucket, limiter.Limit{Max: 20, Interval: time.Second, Amount: 2}},
		{Algorithm{Kind: Bucket}, "2 per second", limiter.ScaledBucket, limiter.Limit{Max: 2, Interval: time.Second, Amount: 2}},
		{Algorithm{Kind: Leaky}, "10 per second", limiter.ScaledLeaky, limiter.Limit{Max: 10, Interval: 100 * time.Millisecond}},
	} {
		c := counter(t, &Limit{Algorithm: tt.algorithm}, tt.amount)
		if c.Kind != tt.kind || c.Limit != tt.want || c.Nominal != tt.want.Max || c.Reserved != 0 {
			t.Errorf("%v, %s: %+v, want kind %v and %+v", tt.algorithm, tt.amount, c, tt.kind, tt.want)
		}
		if got := c.LimitAt(time.Unix(0, 0), false); got != tt.want {
			t.Errorf("%v, %s: LimitAt returns %+v, want %+v", tt.algorithm, tt.amount, got, tt.want)
		}
	}
}

// TestCounter_Default checks that the amounts of a default are decided by GCRA.
func TestCounter_Default(t *testing.T) {
	c := counter(t, nil, "3 per second")
	if want := (limiter.Limit{Max: 3, Interval: 333333334}); c.Kind != limiter.ScaledThrottle || c.Limit != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
}

// TestCounter_NoRate checks the amounts that need no state.
func TestCounter_NoRate(t *testing.T) {
	for _, kind := range []AlgorithmKind{GCRA, Fixed, Log, Bucket} {
		l := &Limit{Algorithm: Algorithm{Kind: kind}, Soft: 50, Priority: Priority{Share: 50}}
		if c := counter(t, l, "unlimited"); c.Kind != 0 || c.Nominal != 0 || c.Reserved != 0 {
			t.Errorf("unlimited: %+v", c)
		}
		if c := counter(t, l, "none"); !c.Kind.Known() || c.Nominal != 0 || c.Reserved != 0 || c.LimitAt(time.Now(), false).Max != 1 {
			t.Errorf("none: %+v", c)
		}
	}
}

// TestCounter_Shares checks the soft share, which is rounded down, and the share of priority, which is rounded up.
func TestCounter_Shares(t *testing.T) {
	for _, tt := range []struct {
		amount              string
		soft, priority      int
		max, reserved, rest int64
	}{
		{"100 per minute", 10, 0, 110, 0, 110},
		{"100 per minute", 0, 20, 100, 20, 80},
		{"100 per minute", 10, 20, 110, 20, 90},
		{"100 per minute burst 20", 10, 25, 22, 5, 17},
		{"4 per minute", 0, 20, 4, 1, 3},
		{"9 per minute", 10, 10, 9, 1, 8},
		{"19 per minute", 10, 10, 20, 2, 18},
		{"1 per minute", 100, 1, 2, 1, 1},
		{"1 per minute", 100, 99, 2, 1, 1},
		{"9223372036854775807 per second", 0, 99, math.MaxInt64, 9131138316486228049, 92233720368547758},
		{"5 per minute", 0, 100, 5, 5, 0},
	} {
		c := counter(t, &Limit{Soft: tt.soft, Priority: Priority{Share: tt.priority}}, tt.amount)
		plain := counter(t, &Limit{}, tt.amount)
		if c.Limit.Max != tt.max || c.Nominal != plain.Limit.Max || c.Reserved != tt.reserved || c.Limit.Interval != plain.Limit.Interval {
			t.Errorf("%+v: %+v", tt, c)
		}
		now := time.Unix(1e9, 0)
		if all, rest := c.LimitAt(now, true), c.LimitAt(now, false); all != c.Limit || rest.Max != tt.rest || rest.Interval != c.Limit.Interval {
			t.Errorf("%+v: with priority %+v, without %+v", tt, all, rest)
		}
	}
}

// TestCounter_Errors checks that amounts that an algorithm cannot represent are refused, and that the error names the
// limit and the amount.
func TestCounter_Errors(t *testing.T) {
	const huge = math.MaxInt64
	for _, tt := range []struct {
		l      Limit
		amount Amount
		want   string
	}{
		{Limit{}, Amount{Count: huge, Per: Period{1, Week}}, ""},
		{Limit{}, Amount{Count: 1, Burst: huge, Per: Period{1, Week}}, "the time to restore all units is out of range"},
		{Limit{Soft: 1}, Amount{Count: huge, Per: Period{1, Millisecond}}, "the count with the soft share is out of range"},
		{Limit{Algorithm: Algorithm{Kind: Log}}, Amount{Count: 65536, Per: Period{1, Hour}}, ""},
		{Limit{Algorithm: Algorithm{Kind: Log}}, Amount{Count: 65537, Per: Period{1, Hour}}, `the algorithm "log" stores each request, and can store at most 65536`},
		{Limit{Algorithm: Algorithm{Kind: Log}, Soft: 1}, Amount{Count: 65536, Per: Period{1, Hour}}, `the algorithm "log" stores each request, and can store at most 65536`},
		{Limit{Algorithm: Algorithm{Kind: Sliding}}, Amount{Count: 1, Per: Period{10_000, Week}}, "the time to restore all units is out of range"},
	} {
		amounts := []Amount{{Count: 1, Per: Period{1, Second}}, tt.amount}
		_, err := compileCounters("shop", "api", &tt.l, amounts)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%+v: error %v, want none", tt, err)
			}
			continue
		}
		want := `domain shop, limit "api", amount "` + tt.amount.String() + `": ` + tt.want
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: error %v, want %s", tt, err, want)
		}
	}
}

// TestCompileBan checks the counter of bans.
func TestCompileBan(t *testing.T) {
	if c := compileBan("shop", &Limit{Name: "login"}); c != nil {
		t.Errorf("a limit without a ban has the counter %+v", c)
	}
	c := compileBan("shop", &Limit{Name: "login", Ban: Ban{After: rate(20, 1, Hour), For: time.Hour}})
	if want := (limiter.Limit{Max: 1, Interval: time.Hour}); c.Kind != limiter.Ban || c.LimitAt(time.Time{}, false) != want {
		t.Errorf("got kind %v and limit %+v, want %+v", c.Kind, c.LimitAt(time.Time{}, false), want)
	}
	if got := string(c.AppendKey(nil, []Value{{"ip", []byte("::1")}})); got != "rule|shop|login|ban|-|ip=::1" {
		t.Errorf("the key is %s", got)
	}
}
