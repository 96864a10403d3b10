package lessee

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestCommands checks the commands of a draw and of a return, and the answer to a draw.
func TestCommands(t *testing.T) {
	l := New(Config{Lessee: "a", Relaxed: true})
	c := heat(t, l, request("k"), 100, 0)
	c.Request.Quantity = 50
	want := strings.Fields("CL.LEASE 50 1000 RAW k throttle 1000 1000000 0 LESSEE a RELAXED")
	if got := c.Args(); !slices.Equal(got, want) {
		t.Errorf("the command is %q, want %q", got, want)
	}
	d := c.Answer(&Reply{[7]int64{20, 500, 1, 1000, 3, 7, 900}, "000000000000000a:k"})
	if d != (limiter.Decision{Limited: true, Limit: 1000, Remaining: 3, RetryAfter: 7 * time.Millisecond, ResetAfter: 900 * time.Millisecond}) {
		t.Errorf("the decision is %+v", d)
	}
	if draw := c.Request.Draw; draw.ID != 10 || draw.Granted != 20 || draw.Valid != 500*time.Millisecond {
		t.Errorf("the draw is %+v, want 20 units for 500 ms with the ID 10", draw)
	}
	l.Drawn(&c, 0, &d)
	l.Close(1)
	returned, _ := l.Next(1)
	if got, want := returned.Args(), []string{"CL.LEASE.RETURN", "000000000000000a:k", "20", "OF", "20"}; !slices.Equal(got, want) {
		t.Errorf("the command is %q, want %q", got, want)
	}
}

// TestMalformedReplies checks that a reply which grants units without the name of a lease of the key, or more units or a
// longer time than requested, is an error.
func TestMalformedReplies(t *testing.T) {
	for _, r := range []Reply{
		{[7]int64{5, 500}, ""},
		{[7]int64{5, 500}, "000000000000000a:other"},
		{[7]int64{51, 500}, "000000000000000a:k"},
		{[7]int64{5, 1001}, "000000000000000a:k"},
	} {
		c := heat(t, New(Config{Lessee: "a"}), request("k"), 100, 0)
		c.Request.Quantity = 50
		if d := c.Answer(&r); d.Err == nil || c.Request.Draw.Granted != 0 {
			t.Errorf("%+v: got the decision %+v, want an error", r, d)
		}
	}
}

// TestNegativeTimes checks that negative times in a reply do not become long ones.
func TestNegativeTimes(t *testing.T) {
	l := New(Config{Lessee: "a"})
	c := heat(t, l, request("k"), 100, 0)
	const least = math.MinInt64
	d := c.Answer(&Reply{[7]int64{5, least + 808, 1, 1000, least, least + 808, least + 808}, "000000000000000a:k"})
	if d.Err != nil || d.ResetAfter != 0 || d.RetryAfter != limiter.NoRetry || c.Request.Draw.Valid != 0 {
		t.Errorf("the decision is %+v and the lease is valid for %v, want no times", d, c.Request.Draw.Valid)
	}
	l.Drawn(&c, 0, &d)
	if _, leases, units := l.Usage(0); leases != 0 || units != 0 {
		t.Errorf("the ledger has %d leases with %d units, want none", leases, units)
	}
}

// TestLongTimes checks that the times of a limit are those of the authority, and that the longest possible ones do not overflow.
func TestLongTimes(t *testing.T) {
	const month = 30 * 24 * time.Hour
	now := month.Nanoseconds()
	for n, want := range map[int64]time.Duration{(120 * month).Milliseconds(): 120 * month, math.MaxInt64: longest} {
		l := New(Config{Lessee: "a"})
		c := heat(t, l, request("k"), 100, now)
		d := c.Answer(&Reply{[7]int64{0, 0, 1, 1000, 0, n, n}, ""})
		l.Drawn(&c, now, &d)
		req := request("k")
		if ok := l.Decide(&req, now, &d); !ok || !d.Limited || d.RetryAfter != want || d.ResetAfter != want {
			t.Errorf("%d ms: the decision is %+v, want a refusal with the times %v", n, d, want)
		}
	}
}
