package buckets

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

func TestNewRefusesOddNumbersOfShards(t *testing.T) {
	for _, shards := range []int{3, 511, -1, -512, math.MinInt} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("New does not panic")
				}
			}()
			New(Config{Shards: shards})
		})
	}
	if n := len(New(Config{}).shards); n != defaultShards {
		t.Errorf("%d shards by default, want defaultShards", n)
	}
}

// A batch is decided in order, and each request sees the effects of the requests before it.
func TestDecideBatch(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read})
	l := limiter.Limit{Max: 5, Interval: time.Second}
	quantities := []int64{2, 2, 2, 1, 0, -4, 3, 9}
	var reqs []limiter.Request
	for _, q := range quantities {
		reqs = append(reqs, limiter.Request{Kind: limiter.Throttle, Key: []byte("k"), Limit: l, Quantity: q})
	}
	out := make([]limiter.Decision, len(reqs))
	table.Decide(reqs, out)
	var remaining []int64
	for _, d := range out {
		remaining = append(remaining, d.Remaining)
	}
	if want := []int64{3, 1, 1, 0, 0, 4, 1, 1}; !slices.Equal(remaining, want) {
		t.Errorf("remaining units: got %v, want %v", remaining, want)
	}
	if !out[2].Limited || out[2].RetryAfter != time.Second || out[7].RetryAfter != limiter.NoRetry {
		t.Errorf("got %+v; want decision 2 limited with RetryAfter 1 s, and decision 7 with NoRetry", out)
	}
}

// A batch of any size has the same results as separate calls of Decide, one for each request.
func TestDecideLargeBatch(t *testing.T) {
	for _, size := range []int{0, 1, 2, lookahead - 1, lookahead, lookahead + 1, 5*lookahead + 3} {
		clock := newFakeClock()
		together, apart := New(Config{Clock: clock.read, Shards: 4}), New(Config{Clock: clock.read})
		r := rand.New(rand.NewPCG(uint64(size), 1))
		for range 100 {
			reqs := make([]limiter.Request, size)
			for i := range reqs {
				reqs[i] = limiter.Request{
					Kind:     limiter.Throttle,
					Key:      fmt.Appendf(nil, "k%d", r.IntN(50)),
					Limit:    limiter.Limit{Max: 5, Interval: time.Second},
					Quantity: r.Int64N(4) - 1,
				}
			}
			got, want := make([]limiter.Decision, size), make([]limiter.Decision, size)
			together.Decide(reqs, got)
			for i := range reqs {
				apart.Decide(reqs[i:i+1], want[i:i+1])
			}
			if !slices.Equal(got, want) {
				t.Fatalf("a batch of %d: got %+v, want %+v", size, got, want)
			}
			clock.advance(time.Second)
		}
		checkTable(t, together)
	}
}

// The table copies the key, so the caller may reuse its buffer.
func TestKeyIsCopied(t *testing.T) {
	table := New(Config{})
	key := []byte("first")
	reqs := []limiter.Request{{Kind: limiter.Throttle, Key: key, Limit: slow, Quantity: 1}}
	table.Decide(reqs, make([]limiter.Decision, 1))
	copy(key, "other")
	if _, ok := table.Lookup([]byte("first")); !ok {
		t.Error("the table does not hold the original key")
	}
	if _, ok := table.Lookup(key); ok {
		t.Error("the key in the table has changed with the buffer of the caller")
	}
}

func TestWrongKind(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read})
	as := func(kind limiter.Kind, quantity int64) limiter.Decision {
		reqs := []limiter.Request{{Kind: kind, Key: []byte("k"), Limit: limiter.Limit{Max: 5, Interval: time.Second}, Quantity: quantity}}
		out := []limiter.Decision{{Limit: 77, Limited: true}}
		table.Decide(reqs, out)
		return out[0]
	}
	as(limiter.Throttle, 1)
	for _, quantity := range []int64{1, 0, -1, 100} {
		if d := as(2, quantity); d != (limiter.Decision{Err: limiter.WrongKindError(limiter.Throttle)}) {
			t.Errorf("kind 2, quantity %d: got %+v, want a WrongKindError", quantity, d)
		}
	}
	if d := as(limiter.Throttle, 0); d.Remaining != 4 {
		t.Errorf("requests of another kind have changed the key: %+v", d)
	}
	// An expired key is absent, and accepts any kind.
	clock.advance(time.Second)
	if d := as(2, 1); d.Err != nil || d.Limited {
		t.Errorf("kind 2 after the expiry of the key: got %+v, want admitted", d)
	}
	if e, ok := table.Lookup([]byte("k")); !ok || e.Kind != 2 {
		t.Errorf("after the charge with kind 2, Lookup returns %+v, %t; want kind 2, true", e, ok)
	}
}

// From the exact nanosecond of its TAT on, a key counts as absent.
func TestExpiryIsExact(t *testing.T) {
	clock := newFakeClock()
	table := New(Config{Clock: clock.read})
	for i := range 3 {
		ask(table, fmt.Sprint(i), limiter.Limit{Max: 2, Interval: time.Second}, 2)
	}
	clock.advance(2*time.Second - 1)
	if e, ok := table.Lookup([]byte("0")); !ok || e.TTL != 1 {
		t.Errorf("1 ns before the TAT, Lookup returns %+v, %t; want a TTL of 1 ns", e, ok)
	}
	if u := table.Usage(); u.Keys != 3 || u.Expired != 0 {
		t.Errorf("1 ns before the TAT the usage is %+v; want 3 keys, none expired", u)
	}
	clock.advance(1)
	if e, ok := table.Lookup([]byte("0")); ok {
		t.Errorf("at the TAT, Lookup finds the key: %+v", e)
	}
	if mustDelete(table, []byte("1")) {
		t.Error("at the TAT, Delete reports that the key existed")
	}
	if d := ask(table, "2", slow, 0); d.Remaining != slow.Max {
		t.Errorf("a peek at the TAT: got %+v, want the full limit", d)
	}
	// Delete and the peek have dropped the keys they accessed; Lookup changes nothing.
	if u := table.Usage(); u.Keys != 1 || u.Expired != 2 {
		t.Errorf("at the TAT the usage is %+v; want 1 key, 2 expired", u)
	}
}

// Decisions do not allocate, except for a new key that needs more memory.
func TestDecideAllocatesNothing(t *testing.T) {
	table := filled(10_000, Config{Clock: newFakeClock().read})
	full := New(Config{Clock: newFakeClock().read, MaxMemory: 1})
	key := numberedKey(nil, 77)
	request := func(quantity int64) limiter.Request {
		return limiter.Request{Kind: limiter.Throttle, Key: key, Limit: slow, Quantity: quantity}
	}
	other := request(1)
	other.Kind = 2
	tests := []struct {
		name  string
		table *Table
		batch []limiter.Request
		err   error
	}{
		{"charge", table, []limiter.Request{request(1)}, nil},
		{"refuse", table, []limiter.Request{request(slow.Max)}, nil},
		{"peek", table, []limiter.Request{request(0)}, nil},
		{"refund", table, []limiter.Request{request(-1)}, nil},
		{"wrong kind", table, []limiter.Request{other}, limiter.ErrWrongKind},
		{"no memory", full, []limiter.Request{request(1)}, limiter.ErrOutOfMemory},
		{"wrong kind in a group", table, linked(charge(limiter.Throttle, "k", slow, 0), other), limiter.ErrGroup},
		{"the same key twice", table, linked(request(1), request(1)), limiter.ErrGroup},
		{"batch", table, []limiter.Request{request(1), request(1), request(-2)}, nil},
	}
	for _, tt := range tests {
		out := make([]limiter.Decision, len(tt.batch))
		if n := testing.AllocsPerRun(200, func() { tt.table.Decide(tt.batch, out) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", tt.name, n)
		}
		if !errors.Is(out[0].Err, tt.err) {
			t.Errorf("%s: the first decision has error %v, want the error of the case", tt.name, out[0].Err)
		}
	}
	if n := testing.AllocsPerRun(200, func() { table.Lookup(key) }); n != 0 {
		t.Errorf("Lookup: %v allocations, want none", n)
	}
	// A key that is added again after Delete uses memory that its arena already has.
	out := make([]limiter.Decision, 1)
	reqs := []limiter.Request{request(1)}
	if n := testing.AllocsPerRun(5, func() { mustDelete(table, key); table.Decide(reqs, out) }); n > 1 {
		t.Errorf("new key: %v allocations, want at most 1", n)
	}
}
