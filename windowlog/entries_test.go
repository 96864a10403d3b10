package windowlog

import (
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestEntries checks that Entries returns the charges that Decide has made, and that Build returns a state with them.
func TestEntries(t *testing.T) {
	l := limiter.Limit{Max: 1000, Interval: 10 * time.Second, Amount: 100}
	start := uint64(time.Hour)
	var old limiter.State
	var want []Entry
	for i := range 50 {
		e := Entry{start + uint64(i/2)*uint64(time.Second), uint64(1 + i%3)}
		c, _ := Decide(&l, old, e.At, int64(e.Units), nil)
		old = limiter.State{Expires: c.Expires, Data: append(slices.Clone(old.Data[:c.Keep]), c.Tail...)}
		want = append(want, e)
	}
	now := want[49].At
	want = want[50-20:] // the entries of the last 10 s
	got := Entries(old, l.Interval, now)
	if !slices.Equal(got, want) {
		t.Fatalf("Entries = %v, want %v", got, want)
	}
	built := Build(append([]Entry{{0, 0}}, want...), l.Interval)
	if got := Entries(built, l.Interval, now); !slices.Equal(got, want) || built.Expires != old.Expires {
		t.Errorf("Build makes the entries %v, which expire at %d; want %v and %d", got, built.Expires, want, old.Expires)
	}
	_, d := Decide(&l, built, now, 0, nil)
	if _, before := Decide(&l, old, now, 0, nil); d != before {
		t.Errorf("the decision on a built state is %+v, want %+v", d, before)
	}
}

// TestFutureEntries checks that entries with a later time count from now on until a period after their time.
func TestFutureEntries(t *testing.T) {
	l := limiter.Limit{Max: 10, Interval: 10 * time.Second, Amount: 100}
	start := uint64(time.Hour)
	at := func(d time.Duration) uint64 { return start + uint64(d) }
	s := Build([]Entry{{start, 2}, {at(time.Second), 5}}, l.Interval)
	c, d := Decide(&l, s, start, 1, nil)
	if d.Remaining != 2 || d.ResetAfter != 11*time.Second {
		t.Errorf("a charge has the decision %+v, want 2 remaining and a reset after 11s", d)
	}
	s = limiter.State{Expires: c.Expires, Data: append(slices.Clone(s.Data[:c.Keep]), c.Tail...)}
	for after, want := range map[time.Duration]int64{10*time.Second - 1: 2, 10 * time.Second: 4, 11*time.Second - 1: 4, 11 * time.Second: 10} {
		if _, d := Decide(&l, s, at(after), 0, nil); d.Remaining != want {
			t.Errorf("%d remain after %v, want %d", d.Remaining, after, want)
		}
	}
}

// TestNoEntries checks the states without entries.
func TestNoEntries(t *testing.T) {
	s := Build([]Entry{{5, 1}, {7, 2}, {9, 3}}, time.Hour)
	damaged := limiter.State{Expires: s.Expires, Data: slices.Clone(s.Data)}
	damaged.Data[1] = 0xff // the delta of the second entry
	for name, old := range map[string]limiter.State{"absent": {}, "expired": {Expires: 10, Data: s.Data}, "damaged": damaged, "short": {Expires: s.Expires, Data: s.Data[:20]}} {
		if got := Entries(old, time.Hour, 10); len(got) > 0 {
			t.Errorf("%s: Entries returns %v, want none", name, got)
		}
	}
	if s := Build(nil, time.Hour); s.Expires != 0 || s.Data != nil {
		t.Errorf("without entries, Build returns %+v", s)
	}
}
