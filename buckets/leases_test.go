package buckets

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// drawn draws a lease of a key of kind FixedWindow in a table, and returns the result.
func drawn(t *Table, key string, id uint64, units int64) (*limiter.Draw, limiter.Decision) {
	d := &limiter.Draw{ID: id, User: "app", Lessee: "lessee", Hold: time.Second}
	out := make([]limiter.Decision, 1)
	t.Decide([]limiter.Request{{Kind: limiter.FixedWindow, Key: []byte(key), Limit: hourly, Quantity: units, Draw: d}}, out)
	return d, out[0]
}

// mustDraw draws the units of a request as a lease of a second at most.
func mustDraw(tb testing.TB, t *Table, req limiter.Request) {
	tb.Helper()
	req.Draw = &limiter.Draw{ID: 1, User: "app", Lessee: "lessee", Hold: time.Second}
	out := make([]limiter.Decision, 1)
	if t.Decide([]limiter.Request{req}, out); req.Draw.Granted != req.Quantity {
		tb.Fatalf("%v: the draw is %+v, its decision %+v; want %d units", req.Kind, *req.Draw, out[0], req.Quantity)
	}
}

// hourly is a limit of 100 units in a window of an hour. The time start is far from its ends.
var hourly = limiter.Limit{Max: 100, Interval: time.Hour, Amount: 1}

// TestLeaseUsage checks the list of the leases, and their counters.
func TestLeaseUsage(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read})
	want := func(w limiter.LeaseUsage) {
		t.Helper()
		if got := table.LeaseUsage(); got != w {
			t.Errorf("the usage is %+v, want %+v", got, w)
		}
	}
	want(limiter.LeaseUsage{})
	drawn(table, "a", 1, 10)
	if d, out := drawn(table, "b", 2, 20); d.Granted != 20 || d.Valid != time.Second || out.Remaining != 80 || out.Limited {
		t.Fatalf("the draw is %+v, its decision %+v; want 20 units for 1s and 80 remaining", d, out)
	}
	clock.advance(500 * time.Millisecond)
	drawn(table, "b", 3, 30)
	want(limiter.LeaseUsage{Leases: 3, Units: 60, Granted: 60})
	for l := range table.Leases {
		if key := map[uint64]string{1: "a", 2: "b", 3: "b"}[l.ID]; string(l.Key) != key || l.Kind != limiter.FixedWindow || l.Units != int64(10*l.ID) || l.User != "app" || l.Lessee != "lessee" {
			t.Errorf("the lease is %+v", l)
		}
	}
	if until := table.LeasesUntil(); until != start+uint64(1500*time.Millisecond) {
		t.Errorf("the last lease ends at %d, want 1.5s after %d", until, start)
	}
	back := &limiter.Draw{ID: 3, User: "app", Return: true}
	table.Decide([]limiter.Request{{Key: []byte("b"), Quantity: 25, Draw: back}}, make([]limiter.Decision, 1))
	want(limiter.LeaseUsage{Leases: 3, Units: 35, Granted: 60, Returned: 25})
	clock.advance(500 * time.Millisecond)
	want(limiter.LeaseUsage{Leases: 1, Units: 5, Granted: 60, Returned: 25, Stranded: 30})
	clock.advance(500 * time.Millisecond)
	want(limiter.LeaseUsage{Granted: 60, Returned: 25, Stranded: 35})
	checkTable(t, table)
}

// TestDrawErrors checks the draws that are not decided, and those of a table that grants no leases.
func TestDrawErrors(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read})
	ask(table, "throttle", slow, 1)
	if _, out := drawn(table, "throttle", 1, 1); !errors.Is(out.Err, limiter.ErrWrongKind) {
		t.Errorf("a draw on a key of another kind has the error %v, want ErrWrongKind", out.Err)
	}
	d := &limiter.Draw{ID: 1, User: "app", Lessee: "lessee", Hold: time.Second}
	req := limiter.Request{Kind: limiter.FixedWindow, Key: []byte("k"), Limit: hourly, Quantity: 1, Draw: d}
	trial, linked, last := req, req, req
	trial.Trial, linked.Linked, last.Draw, last.Key = true, true, nil, []byte("l")
	for _, reqs := range [][]limiter.Request{{trial}, {linked, last}} {
		out := make([]limiter.Decision, len(reqs))
		if table.Decide(reqs, out); !errors.Is(out[0].Err, limiter.ErrGroup) || d.Granted != 0 {
			t.Errorf("%d requests with a draw: error %v, %d units are granted; want ErrGroup and none", len(reqs), out[0].Err, d.Granted)
		}
	}
	drawn(table, "k", 2, 5)
	if d := ask(table, "k", slow, 1); !errors.Is(d.Err, limiter.ErrWrongKind) || !errors.Is(d.Err, limiter.WrongKindError(limiter.FixedWindow)) {
		t.Errorf("a request of another kind on a key with leases has the error %v, want that of a fixed window", d.Err)
	}
	if e, found := table.Lookup([]byte("k")); !found || e.Kind != limiter.FixedWindow {
		t.Errorf("Lookup returns the kind %d, %t; want that without leases", e.Kind, found)
	}
	table.SetLeases(NoLeases)
	if d, out := drawn(table, "k", 3, 5); d.Granted != 0 || d.Valid != 0 || out.Err != nil || out.Limited || out.Remaining != 95 {
		t.Errorf("without leases, a draw is granted %d units for %v, and its decision is %+v; want none, and that on one unit", d.Granted, d.Valid, out)
	}
	table.SetLeases(CountLeases)
	if d, _ := drawn(table, "k", 3, 5); d.Granted != 5 {
		t.Errorf("with the first format of leases, a draw from a fixed window is granted %d units, want 5", d.Granted)
	}
	entries := limiter.Limit{Max: 10, Interval: time.Hour, Amount: 10}
	for format, want := range map[LeaseFormat]int64{CountLeases: 0, LogLeases: 1} {
		table.SetLeases(format)
		d := &limiter.Draw{ID: 1, User: "app", Lessee: "lessee", Hold: time.Second}
		table.Decide([]limiter.Request{{Kind: limiter.WindowLog, Key: fmt.Append(nil, "log", format), Limit: entries, Quantity: 1, Draw: d}}, make([]limiter.Decision, 1))
		if d.Granted != want {
			t.Errorf("with format %d of leases, a draw from a log is granted %d units, want %d", format, d.Granted, want)
		}
	}
	table.SetMaxMemory(1)
	if d, out := drawn(table, "new", 4, 5); d.Granted != 0 || out.Err != nil || out.Remaining != 100 {
		t.Errorf("without memory, a draw is granted %d units, and its decision is %+v; want none, and 100 remaining", d.Granted, out)
	}
}

// TestLeasedKeyIsNotEvicted checks that keys with a larger used share do not displace a key with a lease until it has ended.
func TestLeasedKeyIsNotEvicted(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, Shards: 1, MaxMemory: 20_000, Eviction: EvictSmallestDebt})
	drawn(table, "leased", 1, 1)
	flood(t, table, "a", 2000, limiter.Limit{Max: 1, Interval: time.Hour})
	if _, found := table.Lookup([]byte("leased")); !found {
		t.Errorf("the key with a lease was evicted: %+v", table.Usage())
	}
	clock.advance(time.Second)
	flood(t, table, "b", 2000, limiter.Limit{Max: 1, Interval: time.Hour})
	if _, found := table.Lookup([]byte("leased")); found {
		t.Error("the key was not evicted after the end of its lease")
	}
	checkTable(t, table)
}

// TestEndedLeaseWithoutMemory checks that a charge is decided on a key whose leases have ended, although there is no
// memory for a record without them.
func TestEndedLeaseWithoutMemory(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, Shards: 1})
	drawn(table, "k", 1, 10)
	clock.advance(time.Second)
	table.SetMaxMemory(1)
	out := make([]limiter.Decision, 1)
	table.Decide([]limiter.Request{{Kind: limiter.FixedWindow, Key: []byte("k"), Limit: hourly, Quantity: 5}}, out)
	if out[0].Err != nil || out[0].Remaining != 85 {
		t.Errorf("the decision is %+v, want 85 remaining", out[0])
	}
	checkTable(t, table)
}

// TestPinnedMemory checks that the records with outstanding leases take at most an eighth of the memory limit, and that the
// keys with leases that are refused can still be charged.
func TestPinnedMemory(t *testing.T) {
	const limit = 1 << 20
	clock := newFakeClock()
	table := New(Config{Clock: clock.read, Shards: 16, MaxMemory: limit, Eviction: EvictSmallestDebt})
	granted := 0
	for i := range 4000 {
		key := fmt.Sprintf("key:%050d", i)
		d, out := drawn(table, key, 1, 1)
		if out.Err != nil || out.Remaining != 100-d.Granted {
			t.Fatalf("draw %d is granted %d units, and its decision is %+v", i, d.Granted, out)
		}
		granted += int(d.Granted)
		if d.Granted == 0 {
			if out := ask(table, key, hourly, 1); out.Limited {
				t.Fatalf("a charge of key %d has the decision %+v, want it admitted", i, out)
			}
		}
	}
	pinned := pinnedBytes(table, clock.read())
	if pinned > limit/pinShare || pinned < limit/pinShare*9/10 || table.LeaseUsage().Leases != int64(granted) {
		t.Errorf("%d leases take %d bytes, want almost an eighth of %d", granted, pinned, limit)
	}
	clock.advance(2 * limiter.MaxHold)
	if d, _ := drawn(table, "later", 1, 1); d.Granted != 1 {
		t.Error("after the leases have ended, nothing is granted")
	}
	for i := range 100 {
		drawn(table, "later", uint64(i+2), 1)
	}
	checkTable(t, table)
}

// TestLogDrawSize bounds the bytes that a draw adds to the changes. A draw changes the list of leases, which precedes the
// entries of a log, so all entries are written again.
func TestLogDrawSize(t *testing.T) {
	for _, log := range []struct{ entries, most int }{{100, 1_000}, {1_000, 5_000}, {10_000, 45_000}} {
		clock := newFakeClock()
		table := New(Config{Clock: clock.read, Replicated: true, Shards: 1})
		table.Lead(1)
		req := limiter.Request{Kind: limiter.WindowLog, Key: []byte("k"), Limit: limiter.Limit{Max: 100_000, Interval: time.Hour, Amount: 100_000}, Quantity: 1}
		decide := func() (size int) {
			var out [1]limiter.Decision
			table.Decide([]limiter.Request{req}, out[:])
			if out[0].Err != nil || out[0].Limited {
				t.Fatalf("the decision is %+v, want an admission", out[0])
			}
			generation, changes := table.Collect(nil)
			table.Commit(generation, clock.read())
			return len(changes)
		}
		for i := range log.entries {
			clock.advance(time.Duration(1_000_000 + 1_000_003*(i%7)))
			decide()
		}
		sum := 0
		const draws = 10
		for i := range draws {
			clock.advance(time.Second / 8)
			req.Draw = &limiter.Draw{ID: uint64(i) + 1, User: "default", Lessee: "sidecar", Hold: time.Second}
			sum += decide()
			if req.Draw.Granted != 1 {
				t.Fatalf("a draw is granted %d units, want 1", req.Draw.Granted)
			}
		}
		t.Logf("%d entries: %d bytes per draw", log.entries, sum/draws)
		if sum/draws > log.most {
			t.Errorf("a draw from a log of %d entries writes %d bytes, want at most %d", log.entries, sum/draws, log.most)
		}
	}
}
