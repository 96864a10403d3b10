package lessee

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

const second = int64(time.Second)

// request returns a request of one unit of a limit of 1000 units that are restored in a second.
func request(key string) limiter.Request {
	return limiter.Request{
		Kind: limiter.Throttle, Key: []byte(key), Quantity: 1,
		Limit: limiter.Limit{Max: 1000, Interval: time.Millisecond},
	}
}

// local decides a request and fails the test unless the ledger decides it.
func local(t *testing.T, l *Ledger, req limiter.Request, now int64) (d limiter.Decision) {
	t.Helper()
	if !l.Decide(&req, now, &d) {
		t.Fatalf("at %v: the request is forwarded, want a local decision", time.Duration(now))
	}
	return d
}

// forwarded fails the test unless the ledger forwards a request.
func forwarded(t *testing.T, l *Ledger, req limiter.Request, now int64) {
	t.Helper()
	var d limiter.Decision
	if l.Decide(&req, now, &d) {
		t.Fatalf("at %v: the decision is %+v, want the request to be forwarded", time.Duration(now), d)
	}
}

// heat sends n requests for a key at the time now, and returns the draw that they cause.
func heat(t *testing.T, l *Ledger, req limiter.Request, n int, now int64) Call {
	t.Helper()
	for range n {
		forwarded(t, l, req, now)
	}
	c, ok := l.Next(now)
	if !ok || c.Request.Draw == nil || c.Request.Draw.Return {
		t.Fatalf("after %d requests the next call is %+v, want a draw", n, c)
	}
	return c
}

// grant passes the answer to a draw: n units, valid for some time.
func grant(l *Ledger, c Call, n int64, valid time.Duration, now int64) {
	c.Request.Draw.Granted, c.Request.Draw.Valid = n, valid
	l.Drawn(&c, now, &limiter.Decision{Limit: 1000, Remaining: 5, RetryAfter: limiter.NoRetry, ResetAfter: time.Second})
}

// TestColdKeys checks that requests for keys that are rarely used are forwarded, and cause no draw.
func TestColdKeys(t *testing.T) {
	l := New(Config{Lessee: "a"})
	for i := range 2000 {
		forwarded(t, l, request(fmt.Sprint("key", i)), int64(i)*second/100)
	}
	for now := range int64(100) {
		forwarded(t, l, request("slow"), now*second/10)
	}
	if c, ok := l.Next(20 * second); ok {
		t.Errorf("the next call is %+v, want none", c.Request)
	}
}

// TestNotLeased checks that requests which leased units cannot answer are forwarded, although units are in hand.
func TestNotLeased(t *testing.T) {
	l := New(Config{Lessee: "a"})
	req := request("k")
	grant(l, heat(t, l, req, 100, 0), 100, time.Second, 0)
	for name, change := range map[string]func(*limiter.Request){
		"a peek":        func(r *limiter.Request) { r.Quantity = 0 },
		"a refund":      func(r *limiter.Request) { r.Quantity = -1 },
		"a trial":       func(r *limiter.Request) { r.Trial = true },
		"a ban":         func(r *limiter.Request) { r.Kind = limiter.Ban },
		"a queue":       func(r *limiter.Request) { r.Kind = limiter.LeakyBucket },
		"another limit": func(r *limiter.Request) { r.Limit.Max++ },
		"another kind":  func(r *limiter.Request) { r.Kind = limiter.FixedWindow },
		"another key":   func(r *limiter.Request) { r.Key = []byte("k2") },
		"too much":      func(r *limiter.Request) { r.Quantity = 101 },
	} {
		t.Run(name, func(t *testing.T) {
			changed := req
			change(&changed)
			forwarded(t, l, changed, 1)
		})
	}
	local(t, l, req, 1)
}

// TestSpend checks that each unit is spent once, and none after the lease has ended, less 1/500.
func TestSpend(t *testing.T) {
	l := New(Config{Lessee: "a"})
	req := request("k")
	grant(l, heat(t, l, req, 100, 0), 3, time.Second, 0)
	if d := local(t, l, req, 1); d.Limited || d.Limit != 1000 || d.Remaining != 2+5 || d.RetryAfter != limiter.NoRetry {
		t.Errorf("the decision is %+v, want an admission with 7 remaining", d)
	}
	last := second*499/500 - 1
	local(t, l, req, last)
	forwarded(t, l, req, last+1)

	l = New(Config{Lessee: "a"})
	grant(l, heat(t, l, req, 100, 0), 2, time.Second, 0)
	local(t, l, req, 1)
	local(t, l, req, 1)
	forwarded(t, l, req, 1)
}

// TestValidFromSending checks that the validity of a lease is counted from the time at which the draw was sent, and
// that a grant that arrives too late is not used.
func TestValidFromSending(t *testing.T) {
	l := New(Config{Lessee: "a"})
	req := request("k")
	c := heat(t, l, req, 100, 0)
	grant(l, c, 10, 100*time.Millisecond, second/20)
	local(t, l, req, second/20)
	forwarded(t, l, req, second/10)

	l = New(Config{Lessee: "a"})
	grant(l, heat(t, l, req, 100, 0), 10, 100*time.Millisecond, second/10)
	forwarded(t, l, req, second/10)
	if lost := l.Counts().Lost.Load(); lost != 10 {
		t.Errorf("%d units are counted as lost, want the 10 of the late grant", lost)
	}
}

// TestRefusals checks that a refusal of one unit is repeated until the authority would admit a unit, or for the wanted
// validity of a lease if that is shorter, and that a draw without a grant is not such a refusal.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name  string
		retry time.Duration
		until time.Duration
	}{
		{"short", 300 * time.Millisecond, 300 * time.Millisecond},
		{"long", time.Minute, time.Second},
		{"forever", limiter.NoRetry, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := New(Config{Lessee: "a"})
			req := request("k")
			c := heat(t, l, req, 100, 0)
			l.Drawn(&c, 0, &limiter.Decision{Limited: true, Limit: 1000, RetryAfter: tt.retry, ResetAfter: time.Second})
			for _, now := range []int64{0, int64(tt.until) / 2, int64(tt.until) - 1} {
				d := local(t, l, req, now)
				wait := tt.retry
				if wait != limiter.NoRetry {
					wait -= time.Duration(now)
				}
				if !d.Limited || d.RetryAfter != wait || d.ResetAfter < wait {
					t.Errorf("at %v: the decision is %+v, want a refusal for %v", time.Duration(now), d, wait)
				}
			}
			forwarded(t, l, req, second)
		})
	}
	l := New(Config{Lessee: "a"})
	c := heat(t, l, request("k"), 100, 0)
	l.Drawn(&c, 0, &limiter.Decision{Limit: 1000, Remaining: 1, RetryAfter: limiter.NoRetry})
	forwarded(t, l, request("k"), 1)
}

// TestRefusals_Late checks that the time of a refusal is counted from the sending of the draw, and that the next draw is sent
// before this time has passed: until its answer arrives, requests are refused and not forwarded.
func TestRefusals_Late(t *testing.T) {
	l := New(Config{Lessee: "a"})
	req := request("k")
	c := heat(t, l, req, 100, 0)
	l.Drawn(&c, 3*second/10, &limiter.Decision{Limited: true, Limit: 1000, RetryAfter: limiter.NoRetry, ResetAfter: time.Minute})
	last := second - int64(lead)
	for now := 3 * second / 10; now < last; now += second / 1000 {
		local(t, l, req, now)
		if c, ok := l.Next(now); ok {
			t.Fatalf("at %v: the next call is %+v, want none before %v", time.Duration(now), c.Request, time.Duration(last))
		}
	}
	local(t, l, req, last)
	if c, ok := l.Next(last); !ok || c.Request.Draw == nil {
		t.Errorf("at %v: the next call is %+v, want a draw", time.Duration(last), c.Request)
	}
	local(t, l, req, second-1)
	forwarded(t, l, req, second)
}

// TestRefusals_TooMany checks that a quantity above the limit has no retry time, that it does not change that of other requests,
// and that it causes no draw.
func TestRefusals_TooMany(t *testing.T) {
	l := New(Config{Lessee: "a"})
	one, many := request("k"), request("k")
	many.Quantity = 1001
	for range 100 {
		forwarded(t, l, many, 0)
	}
	if c, ok := l.Next(0); ok {
		t.Errorf("requests that no authority admits cause the call %+v, want none", c)
	}
	c := heat(t, l, one, 100, 0)
	l.Drawn(&c, 0, &limiter.Decision{Limited: true, Limit: 1000, RetryAfter: 300 * time.Millisecond, ResetAfter: time.Second})
	for _, tt := range []struct{ quantity, retry int64 }{{1, int64(300 * time.Millisecond)}, {1001, int64(limiter.NoRetry)}, {1000, int64(300 * time.Millisecond)}, {1, int64(300 * time.Millisecond)}} {
		req := request("k")
		req.Quantity = tt.quantity
		if d := local(t, l, req, 0); !d.Limited || int64(d.RetryAfter) != tt.retry || d.ResetAfter != time.Second {
			t.Errorf("%d units: the decision is %+v, want a refusal with a retry time of %v", tt.quantity, d, time.Duration(tt.retry))
		}
	}
}

// TestRefusalWhileDrawing checks that a refusal is repeated while the next draw is not answered, so that not all requests of
// this time are forwarded, but not for longer than the wanted validity of a lease.
func TestRefusalWhileDrawing(t *testing.T) {
	l := New(Config{Lessee: "a"})
	req := request("k")
	c := heat(t, l, req, 100, 0)
	l.Drawn(&c, 0, &limiter.Decision{Limited: true, Limit: 1000, RetryAfter: 10 * time.Millisecond})
	now := second / drawsPerLease
	for range 100 {
		if d := local(t, l, req, now); !d.Limited || d.RetryAfter < 1 {
			t.Fatalf("the decision is %+v, want a refusal", d)
		}
	}
	if c, ok := l.Next(now); !ok || c.Request.Draw.Return {
		t.Fatalf("the next call is %+v, want a draw", c.Request)
	}
	local(t, l, req, second-1)
	forwarded(t, l, req, second)
}

// TestDrawWithoutUnits checks the time until the next draw after one that is not granted any units, although the authority admits
// a unit. It is long if the authority may never lease the limit, and short if it may have had leases of the account on record
// when it decided the draw.
func TestDrawWithoutUnits(t *testing.T) {
	l := New(Config{Lessee: "a"})
	req := request("k")
	const valid = second / 8
	next := func(now, pause int64) Call {
		t.Helper()
		for range 100 {
			forwarded(t, l, req, now+pause-1)
		}
		if c, ok := l.Next(now + pause - 1); ok {
			t.Fatalf("%v after an answer without units, the next call is %+v, want none", time.Duration(pause-1), c.Request)
		}
		return heat(t, l, req, 1, now+pause)
	}
	grant(l, heat(t, l, req, 100, 0), 0, 0, 0)
	grant(l, next(0, second), 1, time.Duration(valid), second)
	local(t, l, req, second)
	draw, ok := l.Next(second)
	if !ok {
		t.Fatal("no draw follows a lease of one unit")
	}
	grant(l, draw, 0, 0, second)
	draw = next(second, valid/drawsPerLease)
	late := second + valid // the lease has ended since the draw was sent
	grant(l, draw, 0, 0, late)
	draw = next(late, valid/drawsPerLease)
	grant(l, draw, 0, 0, draw.Sent)
	next(draw.Sent, second)
}

// TestDrawsInAdvance checks that the next lease is drawn before the units in hand run out or their lease ends, one draw at
// a time.
func TestDrawsInAdvance(t *testing.T) {
	l := New(Config{Lessee: "a"})
	req := request("k")
	now := int64(0)
	c := heat(t, l, req, 1000, now)
	if n := c.Request.Quantity; n != 1000 {
		t.Errorf("after 1000 requests within 50 ms the draw is for %d units, want the whole limit", n)
	}
	grant(l, c, 1000, time.Second, now)
	draws := 0
	for ; now < second; now += second / 1000 { // 1000 requests per second
		local(t, l, req, now)
		for c, ok := l.Next(now); ok; c, ok = l.Next(now) {
			if c.Request.Draw.Return {
				continue
			}
			draws++
			grant(l, c, c.Request.Quantity, time.Second, now)
		}
	}
	if draws < 1 || draws > 3 {
		t.Errorf("%d draws in a second, want 1 to 3", draws)
	}
}

// TestDrawsInAdvance_Short checks that leases of the shortest validity, which is the time in which longer ones are renewed, are
// renewed once each, and before they end.
func TestDrawsInAdvance_Short(t *testing.T) {
	const valid, step = limiter.MinHold, second / 10_000
	l := New(Config{Lessee: "a", Hold: valid})
	req := request("k")
	now := int64(0)
	grant(l, heat(t, l, req, 1000, now), 1000, valid, now)
	draws := 0
	for ; now < second; now += step {
		local(t, l, req, now)
		for c, ok := l.Next(now); ok; c, ok = l.Next(now) {
			if !c.Request.Draw.Return {
				draws++
				grant(l, c, c.Request.Quantity, valid, now)
			}
		}
	}
	if most := int(2*second/int64(valid)) + 1; draws > most {
		t.Errorf("%d draws in a second, want at most one in half of the validity, so %d", draws, most)
	}
}

// TestReturns checks that units are returned if the demand has ceased, once, and before their lease ends.
func TestReturns(t *testing.T) {
	l := New(Config{Lessee: "a"})
	grant(l, heat(t, l, request("k"), 100, 0), 100, time.Second, 0)
	returned := int64(0) // the authority has 100 - returned units on record
	for now := int64(0); now < 2*second; now += second / 200 {
		for c, ok := l.Next(now); ok; c, ok = l.Next(now) {
			if !c.Request.Draw.Return || now >= second*499/500 {
				t.Fatalf("at %v: the call is %+v, want a return before the lease ends", time.Duration(now), c.Request)
			}
			if of := c.Request.Draw.Of; of != 100-returned {
				t.Errorf("at %v: the return is of a lease of %d units, want %d", time.Duration(now), of, 100-returned)
			}
			returned += c.Request.Quantity
		}
	}
	if returned != 100 {
		t.Errorf("%d units were returned, want 100", returned)
	}
	if keys, leases, units := l.Usage(5 * second); keys+leases != 0 || units != 0 {
		t.Errorf("the ledger has %d keys, %d leases, %d units, want none", keys, leases, units)
	}
}

// TestClose checks that Close returns all units in hand.
func TestClose(t *testing.T) {
	l := New(Config{Lessee: "a"})
	grant(l, heat(t, l, request("k"), 100, 0), 100, time.Second, 0)
	local(t, l, request("k"), 1)
	l.Close(2)
	if c, ok := l.Next(2); !ok || !c.Request.Draw.Return || c.Request.Quantity != 99 || c.Request.Draw.Of != 100 {
		t.Errorf("the call is %+v, want the return of 99 units of 100", c.Request)
	}
	forwarded(t, l, request("k"), 2)
}

// TestClose_Draws checks that a ledger which is closed draws no units: neither those of draws that were planned before, nor
// for later requests.
func TestClose_Draws(t *testing.T) {
	l := New(Config{Lessee: "a"})
	for range 100 {
		forwarded(t, l, request("before"), 0)
	}
	l.Close(0)
	for range 100 {
		forwarded(t, l, request("after"), 0)
	}
	if c, ok := l.Next(0); ok {
		t.Errorf("the call is %+v, want none", c.Request)
	}
}

// TestFailedDraw checks that after a draw without an answer requests are forwarded, and the next draw waits.
func TestFailedDraw(t *testing.T) {
	l := New(Config{Lessee: "a"})
	c := heat(t, l, request("k"), 100, 0)
	l.Drawn(&c, 0, &limiter.Decision{Err: limiter.ErrNotLeading})
	for range 100 {
		forwarded(t, l, request("k"), 1)
	}
	if c, ok := l.Next(1); ok {
		t.Errorf("the next call is %+v, want none", c.Request)
	}
	heat(t, l, request("k"), 100, second/4)
}

// TestFailedDraw_NotAccepted checks that a draw that the authority does not accept is not repeated for a long time, while the
// key is in demand.
func TestFailedDraw_NotAccepted(t *testing.T) {
	l := New(Config{Lessee: "a"})
	c := heat(t, l, request("k"), 100, 0)
	l.Drawn(&c, 0, &limiter.Decision{Err: fmt.Errorf("%w: no", ErrNotAccepted)})
	for now := int64(0); now < int64(notAcceptedPause); now += second / 10 {
		for range 10 {
			forwarded(t, l, request("k"), now)
		}
		if c, ok := l.Next(now); ok {
			t.Fatalf("at %v: the next call is %+v, want none", time.Duration(now), c.Request)
		}
	}
	heat(t, l, request("k"), 100, int64(notAcceptedPause))
}

// TestLongKeys checks that keys are tracked up to a length, whether they are requested alone or in a group.
func TestLongKeys(t *testing.T) {
	for length, want := range map[int]int{maxKey: 2, maxKey + 1: 0} {
		l := New(Config{Lessee: "a"})
		group := []limiter.Request{request(strings.Repeat("k", length)), request(strings.Repeat("l", length))}
		for range trackFrom {
			forwarded(t, l, group[0], 0)
			if l.DecideGroup(group, 0, make([]limiter.Decision, 2)) {
				t.Fatal("a group without units is decided")
			}
		}
		if keys, _, _ := l.Usage(0); keys != want {
			t.Errorf("%d keys of %d bytes are tracked, want %d", keys, length, want)
		}
	}
}

// TestManyKeys checks that the number of tracked keys is bounded.
func TestManyKeys(t *testing.T) {
	l := New(Config{Lessee: "a", MaxKeys: 640})
	for i := range 10_000 {
		for range trackFrom {
			forwarded(t, l, request(fmt.Sprint(i)), 0)
		}
	}
	if keys, _, _ := l.Usage(0); keys > 640 {
		t.Errorf("%d keys are tracked, want at most 640", keys)
	}
}

// TestNoAllocation checks that decisions allocate no memory.
func TestNoAllocation(t *testing.T) {
	l := New(Config{Lessee: "a"})
	grant(l, heat(t, l, request("k"), 100, 0), 1_000_000, time.Second, 0)
	req, cold := request("k"), request("cold")
	group := []limiter.Request{req}
	var d limiter.Decision
	out := make([]limiter.Decision, 1)
	for name, f := range map[string]func(){
		"local":     func() { l.Decide(&req, 1, &d) },
		"forwarded": func() { l.Decide(&cold, int64(rand.N(time.Hour)), &d) },
		"group":     func() { l.DecideGroup(group, 1, out) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

// BenchmarkDecide measures a local decision, with and without the clock.
func BenchmarkDecide(b *testing.B) {
	l := New(Config{Lessee: "a"})
	req := request("user:1234567890")
	var d limiter.Decision
	l.Decide(&req, 0, &d)
	s, _ := l.shard(appendName(nil, &req))
	a := newAccount(l, string(appendName(nil, &req)), &req, 0)
	s.accounts[a.name] = a
	a.leases = []held{{id: 1, units: 1 << 60, of: 1 << 60, ends: 1 << 62}}
	b.Run("decide", func(b *testing.B) {
		for b.Loop() {
			l.Decide(&req, 1, &d)
		}
	})
	b.Run("clock", func(b *testing.B) {
		for b.Loop() {
			l.Decide(&req, Now(), &d)
		}
	})
}
