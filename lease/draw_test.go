package lease

import (
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

const ms = time.Millisecond

// sixty is a GCRA limit of 60 units that restores one in 20 ms. A lease takes at most 150 ms.
var sixty = limiter.Limit{Max: 60, Interval: 20 * ms}

// bench is a key of one kind with a fixed limit, for scripted tests.
type bench struct {
	*key
	tb      testing.TB
	l       limiter.Limit
	ids     uint64
	relaxed bool // draws relaxed leases
}

func newBench(tb testing.TB, kind limiter.Kind, l limiter.Limit) *bench {
	tb.Helper()
	return &bench{key: &key{now: uint64(1000 * time.Second), base: kind}, tb: tb, l: l}
}

// draw draws a lease, and returns its id.
func (b *bench) draw(units int64, hold time.Duration, want int64, valid time.Duration) uint64 {
	b.tb.Helper()
	d := b.drawAs("lessee", units, hold)
	if d.Granted != want || d.Valid != valid {
		b.tb.Fatalf("a draw of %d units for %v is granted %d units for %v, want %d for %v", units, hold, d.Granted, d.Valid, want, valid)
	}
	return d.ID
}

func (b *bench) drawAs(lessee string, units int64, hold time.Duration) *limiter.Draw {
	b.ids++
	d := &limiter.Draw{ID: b.ids, User: "app", Lessee: lessee, Hold: hold, Relaxed: b.relaxed}
	b.Decide(limiter.Request{Kind: b.base, Key: []byte("key"), Limit: b.l, Quantity: units, Draw: d})
	return d
}

// giveBack returns units of a lease.
func (b *bench) giveBack(id uint64, units, want int64) {
	b.tb.Helper()
	d := &limiter.Draw{ID: id, User: "app", Return: true}
	b.Decide(limiter.Request{Key: []byte("key"), Quantity: units, Draw: d})
	if d.Granted != want {
		b.tb.Fatalf("a return of %d units credits %d, want %d", units, d.Granted, want)
	}
}

// ask makes a plain request, and checks the result.
func (b *bench) ask(quantity int64, limited bool, remaining int64) limiter.Decision {
	b.tb.Helper()
	d := b.Decide(limiter.Request{Kind: b.base, Key: []byte("key"), Limit: b.l, Quantity: quantity})
	if d.Limited != limited || d.Remaining != remaining {
		b.tb.Fatalf("a request for %d units has the decision %+v, want limited %t and %d remaining", quantity, d, limited, remaining)
	}
	return d
}

// A lease is charged as of its end: other requests wait for its length, too.
func TestDrawOfGCRA(t *testing.T) {
	for _, kind := range []limiter.Kind{limiter.Throttle, limiter.ScaledThrottle} {
		b := newBench(t, kind, sixty)
		b.draw(10, 100*ms, 10, 100*ms)
		b.ask(0, false, 45) // 100 ms take the place of 5 units
		b.ask(46, true, 45)
		b.ask(45, false, 0)
		b.Sleep(100 * ms)
		b.ask(0, false, 5)
		b.draw(10, time.Second, 5, 150*ms) // the key is in use beyond the end of the lease
		b.Sleep(time.Second)
		b.draw(100, time.Second, 50, 150*ms)
		b.Sleep(1200 * ms)
		b.draw(100, time.Second, 52, 150*ms) // the rest is 60 units as of now, and 52 as of the end
		b.draw(1, 10*ms, 0, 0)
	}
}

// TestRelaxed checks that only leases of CL.THROTTLE can be relaxed, and that a list of them shows the bound.
func TestRelaxed(t *testing.T) {
	for kind, want := range map[limiter.Kind]time.Duration{limiter.Throttle: 100 * ms, limiter.ScaledThrottle: 100 * ms, limiter.WindowLog: 0, limiter.FixedWindow: 0} {
		b := newBench(t, kind, limiter.Limit{Max: 60, Interval: 10 * time.Second, Amount: 1})
		b.relaxed = true
		b.draw(5, 100*ms, 5, 100*ms)
		b.bound(want)
	}
}

// bound checks the bound of the only lease.
func (b *bench) bound(want time.Duration) {
	b.tb.Helper()
	var got []time.Duration
	for l := range All(b.state, b.now) {
		got = append(got, l.Relaxed)
	}
	if len(got) != 1 || got[0] != want {
		b.tb.Errorf("kind %v: the bounds of the leases are %v, want %v", b.base, got, want)
	}
}

// TestReturnKeepsLaterLease checks that a return of a lease leaves a lease that ends later charged as of its end: its units
// and all others that are admitted at its end do not exceed the limit.
func TestReturnKeepsLaterLease(t *testing.T) {
	b := newBench(t, limiter.Throttle, sixty)
	first := b.draw(1, 40*ms, 1, 40*ms)
	b.draw(10, 150*ms, 10, 150*ms)
	b.giveBack(first, 1, 1)
	b.Sleep(150 * ms)
	b.ask(50, false, 0)
	b.ask(1, true, 0)
}

// TestReturnKeepsLaterRelaxedLease checks the same with relaxed leases, which add at most 7 units: as many as 150 ms restore.
func TestReturnKeepsLaterRelaxedLease(t *testing.T) {
	b := newBench(t, limiter.Throttle, sixty)
	b.relaxed = true
	first := b.draw(20, 150*ms, 20, 150*ms)
	b.Sleep(75 * ms)
	b.draw(30, 150*ms, 30, 150*ms)
	b.giveBack(first, 20, 20)
	b.Sleep(150*ms - 1)
	b.ask(37, false, 0)
	b.ask(1, true, 0)
}

// TestLateReturn checks that a return after the end of a lease credits nothing: the units have been restored since.
func TestLateReturn(t *testing.T) {
	b := newBench(t, limiter.Throttle, sixty)
	id := b.draw(30, 100*ms, 30, 100*ms)
	b.Sleep(100 * ms)
	b.giveBack(id, 30, 0)
	id = b.draw(10, 100*ms, 10, 100*ms)
	b.Sleep(100*ms - 1)
	b.giveBack(id, 4, 4)
	b.giveBack(id, 7, 6)
	b.giveBack(id, 1, 0)
}

// TestReturn checks which returns credit units.
func TestReturn(t *testing.T) {
	b := newBench(t, limiter.FixedWindow, limiter.Limit{Max: 60, Interval: 10 * time.Second, Amount: 1})
	id := b.draw(30, time.Second, 30, time.Second)
	b.giveBack(id+1, 30, 0)
	b.giveBack(id, 0, 0)
	b.giveBack(id, -5, 0)
	other := &limiter.Draw{ID: id, User: "other", Return: true, Granted: 7}
	b.Decide(limiter.Request{Key: []byte("key"), Quantity: 1, Draw: other})
	if other.Granted != 0 {
		t.Errorf("a return by another user credits %d units, want 0", other.Granted)
	}
	b.ask(0, false, 30)
	b.giveBack(id, 1<<40, 30)
	b.ask(0, false, 60)
	if b.kind.Leased() {
		t.Errorf("the record of a key without leases has the kind %d, want its base", b.kind)
	}
}

// TestReturnTwice checks that a return which names the units of the lease is credited once, although the lease has more units.
func TestReturnTwice(t *testing.T) {
	for _, kind := range []limiter.Kind{limiter.Throttle, limiter.FixedWindow} {
		b := newBench(t, kind, limiter.Limit{Max: 1000, Interval: 10 * time.Second, Amount: 1})
		id := b.draw(30, time.Second, 30, time.Second)
		for i, want := range []int64{10, 0, 0} {
			d := &limiter.Draw{ID: id, User: "app", Return: true, Of: 30}
			b.Decide(limiter.Request{Key: []byte("key"), Quantity: 10, Draw: d})
			if d.Granted != want {
				t.Errorf("%v: return %d credits %d units, want %d", kind, i+1, d.Granted, want)
			}
		}
		d := &limiter.Draw{ID: id, User: "app", Return: true, Of: 20}
		b.Decide(limiter.Request{Key: []byte("key"), Quantity: 20, Draw: d})
		if d.Granted != 20 {
			t.Errorf("%v: the return of the rest credits %d units, want 20", kind, d.Granted)
		}
	}
}

// TestDrawRefused checks the draws that are granted nothing.
func TestDrawRefused(t *testing.T) {
	for name, change := range map[string]func(*limiter.Request){
		"no id":         func(r *limiter.Request) { r.Draw.ID = 0 },
		"no lessee":     func(r *limiter.Request) { r.Draw.Lessee = "" },
		"long lessee":   func(r *limiter.Request) { r.Draw.Lessee = string(make([]byte, limiter.MaxLessee+1)) },
		"no units":      func(r *limiter.Request) { r.Quantity = 0 },
		"short":         func(r *limiter.Request) { r.Draw.Hold = limiter.MinHold - 1 },
		"small limit":   func(r *limiter.Request) { r.Limit.Max = 7 },
		"known id":      func(r *limiter.Request) { r.Draw.ID = 1 },
		"limit of zero": func(r *limiter.Request) { r.Limit.Max = 0 },
	} {
		b := newBench(t, limiter.Throttle, sixty)
		b.draw(1, 50*ms, 1, 50*ms)
		req := limiter.Request{Kind: b.base, Key: []byte("key"), Limit: b.l, Quantity: 1, Draw: &limiter.Draw{ID: 9, User: "app", Lessee: "l", Hold: 50 * ms}}
		change(&req)
		before := b.state
		if b.Decide(req); req.Draw.Granted != 0 || req.Draw.Valid != 0 || b.state.Expires != before.Expires {
			t.Errorf("%s: %d units are granted for %v, want none and an unchanged state", name, req.Draw.Granted, req.Draw.Valid)
		}
	}
	for _, kind := range []limiter.Kind{limiter.LeakyBucket, limiter.ScaledLeaky, limiter.Ban} {
		if familyOf(kind) != none || familyOf(kind.WithLeases()) != none {
			t.Errorf("kind %v has leases", kind)
		}
	}
}

// TestMaxLeases checks that the number of leases of a key and of a lessee is bounded.
func TestMaxLeases(t *testing.T) {
	b := newBench(t, limiter.FixedWindow, limiter.Limit{Max: 1000, Interval: 100 * time.Second, Amount: 1})
	for i := range MaxLeases {
		lessee := string(rune('a' + i/MaxLeasesOfLessee))
		if d := b.drawAs(lessee, 1, time.Second); d.Granted != 1 {
			t.Fatalf("draw %d is granted %d units, want 1", i, d.Granted)
		}
		if i%MaxLeasesOfLessee == MaxLeasesOfLessee-1 {
			if d := b.drawAs(lessee, 1, time.Second); d.Granted != 0 {
				t.Errorf("lessee %s is granted %d units by its 17th lease, want none", lessee, d.Granted)
			}
		}
	}
	if d := b.drawAs("other", 1, time.Second); d.Granted != 0 {
		t.Errorf("the 65th lease of a key is granted %d units, want none", d.Granted)
	}
	b.Sleep(time.Second)
	b.draw(1, time.Second, 1, time.Second)
}

// TestShares checks that a lease has at most an equal share of the rest for each lessee.
func TestShares(t *testing.T) {
	b := newBench(t, limiter.FixedWindow, limiter.Limit{Max: 101, Interval: 100 * time.Second, Amount: 1})
	for _, tt := range []struct {
		lessee      string
		units, want int64
	}{{"a", 1, 1}, {"a", 20, 20}, {"b", 80, 40}, {"a", 80, 20}, {"c", 80, 7}, {"c", 2, 2}, {"d", 80, 3}} {
		if d := b.drawAs(tt.lessee, tt.units, time.Second); d.Granted != tt.want {
			t.Fatalf("%s draws %d units and is granted %d, want %d", tt.lessee, tt.units, d.Granted, tt.want)
		}
	}
	b.Sleep(time.Second)
	if d := b.drawAs("e", 80, time.Second); d.Granted != 8 {
		t.Errorf("%d units are granted after all leases have ended, want the rest of 8", d.Granted)
	}
}

// A lease ends with the window, the sub-window or the refill interval in which it is charged.
func TestLeaseEndsWithWindow(t *testing.T) {
	for _, tt := range []struct {
		kind limiter.Kind
		l    limiter.Limit
	}{
		{limiter.FixedWindow, limiter.Limit{Max: 60, Interval: 400 * ms, Amount: 1}},
		{limiter.SlidingWindow, limiter.Limit{Max: 60, Interval: 400 * ms, Amount: 1}},
		{limiter.WindowBuckets, limiter.Limit{Max: 60, Interval: 400 * ms, Amount: 5}},
		{limiter.TokenBucket, limiter.Limit{Max: 60, Interval: 400 * ms, Amount: 5}},
		{limiter.ScaledBucket, limiter.Limit{Max: 60, Interval: 400 * ms, Amount: 5}},
		{limiter.Calendar, limiter.Limit{Max: 60, Interval: 400 * ms, Amount: int64(1000*time.Second + 400*ms)}},
	} {
		b := newBench(t, tt.kind, tt.l)
		b.ask(1, false, 59)
		b.Sleep(100 * ms)
		b.draw(5, 200*ms, 5, 200*ms)
		b.draw(5, time.Second, 5, 300*ms)
		b.Sleep(280 * ms)
		b.draw(5, time.Second, 5, 20*ms)
		b.Sleep(1)
		b.draw(5, time.Second, 0, 0)
		b.ask(44, false, 0)
	}
}

// TestDelete checks that the deletion of a key with leases leaves their units charged.
func TestDelete(t *testing.T) {
	for _, tt := range []struct {
		kind limiter.Kind
		l    limiter.Limit
		left int64
	}{
		{limiter.Throttle, sixty, 45},
		{limiter.ScaledThrottle, sixty, 45},
		{limiter.FixedWindow, limiter.Limit{Max: 60, Interval: time.Second, Amount: 1}, 50},
		{limiter.SlidingWindow, limiter.Limit{Max: 60, Interval: time.Second, Amount: 1}, 50},
		{limiter.WindowBuckets, limiter.Limit{Max: 60, Interval: time.Second, Amount: 5}, 50},
		{limiter.TokenBucket, limiter.Limit{Max: 60, Interval: time.Second, Amount: 5}, 50},
		{limiter.ScaledBucket, limiter.Limit{Max: 60, Interval: time.Second, Amount: 5}, 50},
		{limiter.Calendar, limiter.Limit{Max: 60, Interval: time.Second, Amount: int64(1001 * time.Second)}, 50},
		{limiter.WindowLog, limiter.Limit{Max: 60, Interval: time.Second, Amount: 10}, 50},
	} {
		for _, refund := range []bool{false, true} {
			b := newBench(t, tt.kind, tt.l)
			b.ask(20, false, 40)
			id := b.draw(10, 100*ms, 10, 100*ms)
			if refund {
				b.ask(-1000, false, tt.left)
			} else {
				b.Delete()
			}
			b.ask(0, false, tt.left)
			b.giveBack(id, 10, 10)
			b.ask(0, false, tt.left+10) // a GCRA limit stays in use until the end of the lease
			b.Delete()
			if b.state.Expires != 0 {
				t.Errorf("%v: a key without leases has a state after its deletion", tt.kind)
			}
		}
	}
}
