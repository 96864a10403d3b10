package lessee

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// groupRate is the number of groups per second that sendGroups sends.
const groupRate = 150

// sendGroups sends groups from a time on, for some seconds. It grants draws as requested, and refuses those of the key "exhausted" if
// refuses is set. It returns the number of groups that were decided, and the units of the key "shared" that were drawn.
func sendGroups(l *Ledger, from, seconds int64, refuses bool, group func(i int) []limiter.Request) (decided, drawn int64) {
	out := make([]limiter.Decision, 2)
	for i := range int(groupRate * seconds) {
		now := from + int64(i)*second/groupRate
		if l.DecideGroup(group(i), now, out) {
			decided++
		}
		for c, ok := l.Next(now); ok; c, ok = l.Next(now) {
			switch key := string(c.Request.Key); {
			case c.Request.Draw.Return:
			case key == "exhausted" && refuses:
				l.Drawn(&c, now, &limiter.Decision{Limited: true, Limit: 1000, RetryAfter: limiter.NoRetry, ResetAfter: time.Hour})
			default:
				grant(l, c, c.Request.Quantity, time.Second/4, now)
				if key == "shared" {
					drawn += c.Request.Quantity
				}
			}
		}
	}
	return decided, drawn
}

func pair(a, b limiter.Request) []limiter.Request {
	a.Linked = true
	return []limiter.Request{a, b}
}

// TestGroups_NotReady checks that hardly any units of a limit are drawn for groups that are forwarded because of another limit. The
// units would not be spent, and the authority would refuse the forwarded groups for lack of them.
func TestGroups_NotReady(t *testing.T) {
	tooLarge := request("large")
	tooLarge.Quantity = tooLarge.Limit.Max + 1
	for name, c := range map[string]struct {
		other func(i int) limiter.Request
		most  int64 // part of the units of all groups that may be drawn, in percent
	}{
		"an exhausted limit":    {func(int) limiter.Request { return request("exhausted") }, 15},
		"keys in little demand": {func(i int) limiter.Request { return request(fmt.Sprint(i % 100)) }, 0},
		"keys used once":        {func(i int) limiter.Request { return request(fmt.Sprint(i)) }, 0},
		"too large a quantity":  {func(int) limiter.Request { return tooLarge }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(Config{Lessee: "a"})
			decided, drawn := sendGroups(l, 0, 20, true, func(i int) []limiter.Request { return pair(request("shared"), c.other(i)) })
			if most := 20 * groupRate * c.most / 100; decided != 0 || drawn > most {
				t.Errorf("%d groups are decided, and %d units drawn; want 0, and at most %d", decided, drawn, most)
			}
		})
	}
}

// TestGroups_Ready checks that groups are decided again after a limit is no longer exhausted, and that their units are drawn.
func TestGroups_Ready(t *testing.T) {
	l := New(Config{Lessee: "a"})
	group := func(int) []limiter.Request { return pair(request("shared"), request("exhausted")) }
	sendGroups(l, 0, 5, true, group)
	decided, drawn := sendGroups(l, 5*second, 5, false, group)
	if least := int64(5 * groupRate * 7 / 10); decided < least || drawn < least {
		t.Errorf("%d of %d groups are decided, and %d units drawn; want at least %d", decided, 5*groupRate, drawn, least)
	}
}

// TestGroups checks that a group is decided locally only if units of all its limits are in hand, and charges all.
func TestGroups(t *testing.T) {
	l := New(Config{Lessee: "a"})
	a, b := request("a"), request("b")
	a.Linked = true
	out := make([]limiter.Decision, 2)
	grant(l, heat(t, l, a, 100, 0), 10, time.Second, 0)
	if l.DecideGroup([]limiter.Request{a, b}, 1, out) {
		t.Fatal("a group was decided without units of its second limit")
	}
	grant(l, heat(t, l, b, 100, 0), 5, time.Second, 0)
	for range 5 {
		if !l.DecideGroup([]limiter.Request{a, b}, 1, out) || out[0].Limited || out[1].Limited {
			t.Fatalf("the decisions are %+v, want two admissions", out)
		}
	}
	if l.DecideGroup([]limiter.Request{a, b}, 1, out) {
		t.Fatal("a group was admitted with spent units")
	}
	for range 5 {
		local(t, l, a, 1)
	}
	forwarded(t, l, a, 1)
	if l.DecideGroup([]limiter.Request{a, a}, 1, out) {
		t.Fatal("a group with the same key twice was decided")
	}
}

// TestGroups_SameKey checks that a group with one key under two limits is forwarded, although units of both are in hand, and that
// the units of each limit are counted apart.
func TestGroups_SameKey(t *testing.T) {
	l := New(Config{Lessee: "a"})
	a, b, other := request("k"), request("k"), request("other")
	b.Limit.Max, a.Linked = 500, true
	grant(l, heat(t, l, a, 100, 0), 4, time.Second, 0)
	grant(l, heat(t, l, b, 100, 0), 3, time.Second, 0)
	grant(l, heat(t, l, other, 100, 0), 9, time.Second, 0)
	before := l.Counts().Forwarded.Load()
	out := make([]limiter.Decision, 2)
	for _, group := range [][]limiter.Request{{a, b}, {b, a}, {a, a}} {
		if l.DecideGroup(group, 1, out) {
			t.Errorf("a group with the key %q twice is decided, want it to be forwarded", group[0].Key)
		}
	}
	if n := l.Counts().Forwarded.Load() - before; n != 6 {
		t.Errorf("%d requests are counted as forwarded, want 6", n)
	}
	for range 3 { // groups with other keys spend the units of the limit that they name
		if !l.DecideGroup([]limiter.Request{b, other}, 1, out) || out[0].Limit != 500 || out[1].Limit != 1000 {
			t.Fatalf("the decisions are %+v, want admissions by limits of 500 and 1000", out)
		}
	}
	if l.DecideGroup([]limiter.Request{b, other}, 1, out) {
		t.Error("a group is admitted with spent units of its first limit")
	}
	if _, leases, units := l.Usage(1); leases != 2 || units != 4+6 {
		t.Errorf("%d leases with %d units are in hand, want 2 with 10", leases, units)
	}
	for range 4 {
		local(t, l, a, 1)
	}
	forwarded(t, l, a, 1)
}
