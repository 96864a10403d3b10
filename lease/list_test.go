package lease

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

var someLeases = list{
	{id: 1, end: 100, asOf: 100, units: 3, limit: limiter.Limit{Max: 60, Interval: 20, Amount: 0}, user: []byte("app"), lessee: []byte("a")},
	{id: math.MaxUint64, end: 50, asOf: 60, units: 1 << 40, limit: limiter.Limit{Max: math.MaxInt64, Interval: 1, Amount: math.MaxInt64}, user: []byte{}, lessee: []byte("b")},
	{id: 3, end: 70, asOf: 70, units: 2, limit: limiter.Limit{Max: 1, Interval: math.MaxInt64, Amount: 5}, user: []byte("app"), lessee: []byte("a")},
}

func TestListRoundTrip(t *testing.T) {
	b := someLeases.appendTo([]byte("prefix"))[len("prefix"):]
	l, ok := parse(b, nil)
	if !ok || len(l) != len(someLeases) {
		t.Fatalf("parse returns %d leases, %t; want %d, true", len(l), ok, len(someLeases))
	}
	for i, e := range l {
		want := someLeases[i]
		if e.id != want.id || e.end != want.end || e.asOf != want.asOf || e.units != want.units || e.limit != want.limit ||
			!bytes.Equal(e.user, want.user) || !bytes.Equal(e.lessee, want.lessee) {
			t.Errorf("lease %d is %+v, want %+v", i, e, want)
		}
	}
	for n := range b {
		if l, ok := parse(b[:n], nil); ok && len(l) == len(someLeases) {
			t.Errorf("parse accepts the first %d of %d bytes", n, len(b))
		}
	}
}

func TestListSums(t *testing.T) {
	l := someLeases
	if got := l.until(); got != 100 {
		t.Errorf("the last lease ends at %d, want 100", got)
	}
	if got := l.units(); got != 1<<40+5 {
		t.Errorf("the leases have %d units, want 1<<40 + 5", got)
	}
	if a, c := l.lessees("a"), l.lessees("c"); a != 2 || c != 3 {
		t.Errorf("%d lessees with a and %d with c, want 2 and 3", a, c)
	}
	if l.find(3) != 2 || l.find(4) != -1 {
		t.Errorf("lease 3 is at %d, and 4 at %d; want 2 and -1", l.find(3), l.find(4))
	}
}

// TestFloor checks that the floor counts the charges of all leases with the same or a later asOf, and does not overflow.
func TestFloor(t *testing.T) {
	at := func(asOf, units uint64) lease {
		return lease{asOf: asOf, units: units, limit: limiter.Limit{Max: 1, Interval: 10}}
	}
	for _, tt := range []struct {
		leases list
		after  uint64
		want   uint64
	}{
		{nil, 0, 0},
		{list{at(100, 2)}, 0, 120},
		{list{at(100, 2)}, 100, 0},
		{list{at(100, 2), at(100, 3)}, 99, 150},
		{list{at(100, 2), at(200, 1)}, 0, 210},
		{list{at(100, 20), at(200, 1)}, 0, 310},
		{list{at(100, 20), at(200, 1)}, 100, 210},
		{list{at(200, 1), at(100, 20)}, 0, 310},
		{list{at(200, math.MaxUint64)}, 0, math.MaxInt64},
		{list{at(math.MaxUint64, 1)}, 0, math.MaxInt64},
	} {
		if got := tt.leases.floor(tt.after); got != tt.want {
			t.Errorf("the floor of %+v after %d is %d, want %d", tt.leases, tt.after, got, tt.want)
		}
	}
}

// TestStoredState checks the state of a key with leases, as it is read by other packages.
func TestStoredState(t *testing.T) {
	b := newBench(t, limiter.Throttle, sixty)
	b.draw(10, 100*ms, 10, 100*ms)
	b.drawAs("other", 3, 150*ms)
	if end := b.now + uint64(150*ms); !b.kind.Leased() || Until(b.state.Data) != end || Inner(b.state).Expires != b.state.Expires {
		t.Errorf("kind %d, the leases end at %d and the inner state expires at %d; want a kind with leases, %d and %d", b.kind, Until(b.state.Data), Inner(b.state).Expires, end, b.state.Expires)
	}
	count := func() (n int) {
		for l := range All(b.state, b.now) {
			n++
			if l.User != "app" || l.Left <= 0 || l.Left > 150*ms || l.ID == 1 && (l.Units != 10 || l.Lessee != "lessee") {
				t.Errorf("the lease is %+v", l)
			}
		}
		return n
	}
	if n := count(); n != 2 {
		t.Errorf("%d leases, want 2", n)
	}
	b.Sleep(100 * ms)
	if n := count(); n != 1 {
		t.Errorf("%d leases after the first one has ended, want 1", n)
	}
	b.Sleep(50 * ms)
	b.ask(1, false, 48)
	if b.kind.Leased() || len(b.state.Data) != 0 {
		t.Errorf("after all leases have ended, a charge leaves the kind %d and %d bytes", b.kind, len(b.state.Data))
	}
}

// FuzzState checks that no state makes a function of this package panic, and that changed states are well formed.
func FuzzState(f *testing.F) {
	for _, kind := range []limiter.Kind{limiter.Throttle, limiter.ScaledThrottle, limiter.FixedWindow, limiter.WindowBuckets, limiter.TokenBucket, limiter.ScaledBucket, limiter.Calendar, limiter.SlidingWindow, limiter.WindowLog} {
		b := newBench(f, kind, limiter.Limit{Max: 60, Interval: 200 * ms, Amount: 2})
		if kind == limiter.Calendar {
			b.l.Amount = int64(b.now + uint64(200*ms))
		}
		b.drawAs("a", 5, 50*ms)
		b.drawAs("b", 5, 50*ms)
		f.Add(uint8(kind), b.state.Expires, b.state.Data, int64(1))
		f.Add(uint8(kind), b.state.Expires, b.state.Data, int64(-3))
	}
	f.Add(uint8(1), uint64(1<<62), bytes.Repeat([]byte{0xff}, 40), int64(5))
	f.Fuzz(func(t *testing.T, kind uint8, expires uint64, data []byte, quantity int64) {
		base := limiter.Kind(kind)
		if algorithms[base] == nil {
			return
		}
		old := key{now: uint64(1000 * time.Second), base: base, kind: base.WithLeases(), state: limiter.State{Expires: expires, Data: data}}
		l := limiter.Limit{Max: 60, Interval: 200 * ms, Amount: 2}
		for i := range 4 {
			k := old
			switch i {
			case 0:
				k.Decide(limiter.Request{Kind: base, Limit: l, Quantity: quantity})
			case 1:
				k.Decide(limiter.Request{Kind: base, Limit: l, Quantity: quantity, Draw: &limiter.Draw{ID: 99, Lessee: "a", Hold: time.Second}})
			case 2:
				for e := range All(k.state, k.now) {
					k.Decide(limiter.Request{Quantity: quantity, Draw: &limiter.Draw{ID: e.ID, User: e.User, Return: true}})
				}
			case 3:
				k.Delete()
			}
			if kind, s := k.current(); kind.Leased() && !bytes.Equal(s.Data, data) {
				if encoded, _ := split(s); len(encoded) == 0 {
					t.Errorf("operation %d leaves a state with leases that has none", i)
				}
			}
		}
	})
}

// TestBufferIsReleased checks that a buffer does not refer to the memory of a decided state, which a table may replace.
func TestBufferIsReleased(t *testing.T) {
	b := newBench(t, limiter.Throttle, sixty)
	b.draw(5, 30*ms, 5, 30*ms)
	b.draw(5, 100*ms, 5, 100*ms)
	for _, pause := range []time.Duration{0, 50 * ms, 100 * ms} { // with two leases, one, and none
		b.Sleep(pause)
		b.Decide(limiter.Request{Kind: b.base, Key: []byte("key"), Limit: b.l, Quantity: 1})
		for i := range b.buf.leases {
			if e := &b.buf.leases[i]; e.user != nil || e.lessee != nil {
				t.Fatalf("after %v, lease %d in the buffer refers to the names %q and %q", pause, i, e.user, e.lessee)
			}
		}
	}
}
