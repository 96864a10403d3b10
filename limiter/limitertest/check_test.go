package limitertest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

const t0 = uint64(1e18)

// A recorder records the failures of a test. Fatalf aborts the test with a panic whose value is the
// recorder.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r)
}

// record calls f, and returns the failures that f reports.
func record(f func(tb testing.TB)) []string {
	r := &recorder{}
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(r) {
				panic(p)
			}
		}()
		f(r)
	}()
	return r.errors
}

// block is a simple algorithm, whose results the mutations of TestCheck change. All used units are restored one
// Interval after the first charge.
func block(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (ch limiter.Change, d limiter.Decision) {
	used, expires := int64(0), now
	if old.Expires > now {
		used, expires = int64(binary.LittleEndian.Uint64(old.Data[4:])), old.Expires
	}
	d = limiter.Decision{Limit: l.Max, RetryAfter: limiter.NoRetry}
	switch {
	case quantity > l.Max:
		d.Limited = true
	case quantity >= 0 && used+quantity > l.Max:
		d.Limited, d.RetryAfter = true, time.Duration(expires-now)
	case quantity != 0:
		if used == 0 {
			expires = now + uint64(l.Interval)
		}
		if used = max(used+max(quantity, -l.Max), 0); used == 0 {
			expires = now
		}
		ch = limiter.Change{Set: true, Expires: expires}
		room = room[:0]
		if ch.Keep = min(len(old.Data), 4); ch.Keep == 0 || old.Expires <= now {
			ch.Keep, room = 0, append(room, "head"...)
		}
		ch.Tail = binary.LittleEndian.AppendUint64(room, uint64(used))
	}
	d.Remaining, d.ResetAfter = max(l.Max-used, 0), time.Duration(expires-now)
	return ch, d
}

// checkAll checks charges, peeks, refunds and refusals on a key in use, an expired key, and an absent key.
func checkAll(tb testing.TB, f Decide) {
	l := limiter.Limit{Max: 4, Interval: time.Second}
	data := func(used byte) []byte { return []byte{'h', 'e', 'a', 'd', used, 0, 0, 0, 0, 0, 0, 0} }
	for _, old := range []limiter.State{{}, {Expires: t0 + 9, Data: data(2)}, {Expires: t0 + 9, Data: data(4)}, {Expires: t0, Data: data(4)}} {
		for _, quantity := range []int64{0, 1, 2, 4, 5, -1, -2, math.MinInt64} {
			f.Run(tb, l, old, t0, quantity).Check()
		}
	}
}

// A call holds the arguments and results of one call of block, so that a mutation can change them.
type call struct {
	l        *limiter.Limit
	old      limiter.State
	now      uint64
	quantity int64
	room     []byte
	*limiter.Change
	*limiter.Decision
}

// TestCheck checks that a violation of each rule is detected. Each mutation changes the results of block so that they
// violate one rule, and the failure message must name that rule.
func TestCheck(t *testing.T) {
	if got := record(func(tb testing.TB) { checkAll(tb, block) }); got != nil {
		t.Fatalf("a correct algorithm fails the checks: %v", got)
	}
	scratch := make([]byte, 12)
	for _, tt := range []struct {
		rule     string
		mutation func(c call)
	}{
		{"the limit was written to", func(c call) { c.l.Max++ }},
		{"the old state was written to", func(c call) {
			if len(c.old.Data) > 0 {
				c.old.Data[0] ^= 1
			}
		}},
		{"the tail has bytes in common", func(c call) {
			if len(c.old.Data) > 0 && c.Set {
				c.Keep, c.Tail = 0, c.old.Data
			}
		}},
		{"the same request has another result", func(c call) { c.Remaining = int64(len(c.room)) }},
		{"the same request makes another change", func(c call) {
			if c.room == nil && c.Set {
				c.Keep, c.Tail = 0, scratch
			}
		}},
		{"error or wait is set", func(c call) { c.Err = errors.ErrUnsupported }},
		{"error or wait is set", func(c call) { c.Wait = c.ResetAfter }},
		{"the decision has a different limit", func(c call) { c.Limit++ }},
		{"remaining out of range", func(c call) { c.Remaining -= 5 }},
		{"remaining out of range", func(c call) { c.Remaining++ }},
		{"negative reset after", func(c call) { c.ResetAfter-- }},
		{"remaining is the limit but reset after is not 0", func(c call) { c.ResetAfter++ }},
		{"remaining is the limit but reset after is not 0", func(c call) { c.Remaining = min(c.Remaining, c.Limit-1) }},
		{"a refund was refused", func(c call) {
			if c.quantity < 0 {
				*c.Change, c.Limited = limiter.Change{}, true
			}
		}},
		{"refused although enough remains", func(c call) {
			if c.quantity == 1 {
				*c.Change, c.Limited, c.RetryAfter = limiter.Change{}, true, 1
			}
		}},
		{"refused although enough remains", func(c call) {
			if c.quantity == 0 && c.Remaining > 0 {
				c.Limited, c.RetryAfter = true, 1
			}
		}},
		{"retry after for more than the limit", func(c call) {
			if c.quantity > c.l.Max {
				c.RetryAfter = 1
			}
		}},
		{"no retry after", func(c call) { c.RetryAfter = limiter.NoRetry }},
		{"no retry after", func(c call) {
			if c.Limited && c.quantity <= c.l.Max {
				c.RetryAfter = 0
			}
		}},
		{"more than the limit was admitted", func(c call) { c.Limited = c.Limited && c.quantity <= c.l.Max }},
		{"retry after, but admitted", func(c call) { c.RetryAfter = max(c.RetryAfter, 0) }},
		{"charged, but not changed", func(c call) { c.Set = false }},
		{"refused or peeked, but changed", func(c call) { c.Set = true }},
		{"refused or peeked, but changed", func(c call) { c.Set = c.Set || c.Limited }},
		{"keep is out of range", func(c call) { c.Keep = len(c.old.Data) + 1 }},
		{"keep is out of range", func(c call) { c.Keep-- }},
		{"Keep is above 0 but the length changes", func(c call) { c.Tail = append(c.Tail, 1) }},
		{"Expires is not now + ResetAfter", func(c call) { c.Expires++ }},
		{"Expires is not now + ResetAfter", func(c call) { c.Expires = c.now }},
		{"charged, but nothing is used", func(c call) {
			if c.quantity == 1 && c.Set {
				c.Expires, c.ResetAfter, c.Remaining = c.now, 0, c.Limit
			}
		}},
		{"an expired state is not an absent one", func(c call) {
			if c.old.Expires == t0 && c.quantity == 0 && c.old.Data[4] == 4 {
				c.Remaining, c.ResetAfter = 1, 1
			}
		}},
		{"an expired state is still used", func(c call) {
			if c.old.Expires == c.now && c.Set {
				c.Tail[0] = 'H'
			}
		}},
		{"a refund does not undo the charge", func(c call) {
			if c.quantity < 0 && c.Remaining > 3 {
				c.Remaining, c.ResetAfter, c.Expires = 3, 1, c.now+1
			}
		}},
		{"a peek has another result", func(c call) {
			if c.quantity == 1 && !c.Limited {
				c.Expires++
				c.ResetAfter++
				c.Tail[len(c.Tail)-8]++
			}
		}},
		{"the remaining units are refused", func(c call) {
			if c.quantity == c.Limit {
				*c.Change, *c.Decision = limiter.Change{}, limiter.Decision{Limited: true, Limit: 4, Remaining: 3, RetryAfter: 9, ResetAfter: 9}
			}
		}},
		{"more than remained is admitted", func(c call) {
			if c.Remaining < c.Limit {
				c.Remaining = max(c.Remaining-1, 0)
			}
		}},
		{"not first admitted at retry after", func(c call) {
			if c.RetryAfter > 1 {
				c.RetryAfter--
			}
		}},
		{"not first admitted at retry after", func(c call) {
			if c.RetryAfter > 0 {
				c.RetryAfter++
			}
		}},
		{"retry after is not 1 ns", func(c call) {
			if c.RetryAfter == 1 {
				c.RetryAfter++
			}
		}},
		{"not first full at reset after", func(c call) {
			c.ResetAfter = min(c.ResetAfter, 5)
			c.Expires = min(c.Expires, c.now+5)
		}},
		{"reset after is not 1 ns", func(c call) {
			if c.ResetAfter == 1 {
				c.ResetAfter++
			}
		}},
	} {
		got := record(func(tb testing.TB) {
			checkAll(tb, func(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (limiter.Change, limiter.Decision) {
				ch, d := block(l, old, now, quantity, room)
				tt.mutation(call{l, old, now, quantity, room, &ch, &d})
				return ch, d
			})
		})
		if len(got) != 1 || !strings.HasPrefix(got[0], tt.rule) {
			t.Errorf("mutation for the rule %q: got the failures %q, want one that names the rule", tt.rule, got)
		}
	}
}

func TestPlay(t *testing.T) {
	l := limiter.Limit{Max: 4, Interval: time.Second}
	const no, s = limiter.NoRetry, time.Second
	rows := []Row{
		{0, 3, false, 1, no, s},
		{s / 2, 2, true, 1, s / 2, s / 2},
		{s / 2, -1, false, 2, no, s / 2},
		{s, 4, false, 0, no, s},
	}
	play := func(look func(int, Decided)) []string {
		return record(func(tb testing.TB) {
			if end := Decide(block).Play(tb, l, limiter.State{}, t0, rows, look); end.Expires != t0+uint64(2*s) {
				t.Errorf("the last state is %+v, want one that expires 2 s after t0", end)
			}
		})
	}
	if got := play(nil); got != nil {
		t.Error(got)
	}
	looked := 0
	if got := play(func(i int, c Decided) {
		if looked++; c.Quantity != rows[i].Quantity {
			t.Errorf("row %d: look was called with %+v, want the quantity of that row", i, c)
		}
	}); got != nil || looked != len(rows) {
		t.Errorf("look was called for %d rows, want all rows; got the failures %v, want none", looked, got)
	}
	rows[0].Limited = true
	if got := play(nil); len(got) != 1 || !strings.HasPrefix(got[0], "row 0: got") {
		t.Errorf("a row with a wrong Limited: got the failures %v, want one: the decision differs", got)
	}
}

// TestPlay_Peek checks that Play reports a peek that changes the state.
func TestPlay_Peek(t *testing.T) {
	touch := Decide(func(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (limiter.Change, limiter.Decision) {
		c, d := block(l, old, now, quantity, room)
		c.Set = true
		return c, d
	})
	rows := []Row{{0, 0, false, 4, limiter.NoRetry, 0}}
	got := record(func(tb testing.TB) {
		touch.Play(tb, limiter.Limit{Max: 4, Interval: time.Second}, limiter.State{}, t0, rows, func(int, Decided) {})
	})
	if len(got) != 1 || got[0] != "row 0: set is true" {
		t.Errorf("got the failures %v, want one: set is true", got)
	}
}

func TestNoAllocs(t *testing.T) {
	var kept []byte
	if got := record(func(tb testing.TB) { NoAllocs(tb, "none", func() {}) }); got != nil {
		t.Error(got)
	}
	if got := record(func(tb testing.TB) { NoAllocs(tb, "one", func() { kept = make([]byte, 100) }) }); len(got) != 1 || kept == nil {
		t.Error(got)
	}
}

// TestAnyInt checks that AnyInt returns positive and negative numbers of each bit length, and also 0 and the largest
// int64.
func TestAnyInt(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var above, below [64]int
	ends := map[int64]int{}
	for range 100_000 {
		v := AnyInt(r)
		if v >= 0 {
			above[bits.Len64(uint64(v))]++
		} else {
			below[bits.Len64(uint64(-v))]++
		}
		ends[v]++
		if n := Within(v, 7); n < 1 || n > 7 {
			t.Fatalf("Within(%d, 7) is %d, want 1 to 7", v, n)
		}
	}
	for n := 1; n < 64; n++ {
		if above[n] < 500 || below[n] < 50 {
			t.Errorf("got %d positive numbers with %d bits, want at least 500; got %d negative numbers, want at least 50", above[n], n, below[n])
		}
	}
	if ends[0] < 500 || ends[math.MaxInt64] < 500 {
		t.Errorf("AnyInt returned 0 %d times and the largest int64 %d times, want each at least 500 times", ends[0], ends[math.MaxInt64])
	}
	if Within(0, 7) != 1 || Within(6, 7) != 7 || Within(7, 7) != 1 || Within(-1, math.MaxInt64) != 2 {
		t.Error("want Within(0, 7) = 1, Within(6, 7) = 7, Within(7, 7) = 1, Within(-1, math.MaxInt64) = 2")
	}
}

func TestSteps(t *testing.T) {
	defer func(was int) { *steps = was }(*steps)
	*steps = 0
	if got := Steps(7); got != 7 {
		t.Errorf("Steps(7) is %d without the flag, want 7", got)
	}
	*steps = 9
	if got := Steps(7); got != 9 {
		t.Errorf("Steps(7) is %d with -steps 9, want 9", got)
	}
}

// TestAnyQuantity checks that AnyQuantity returns each quantity that is a special case for a limit.
func TestAnyQuantity(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	l := limiter.Limit{Max: 1000, Interval: 1}
	missing := map[int64]bool{0: true, 1: true, 999: true, 1000: true, 1001: true, math.MinInt64: true}
	refunds, within := 0, 0
	for range 1000 {
		q := AnyQuantity(r, l)
		delete(missing, q)
		if q < 0 && q >= -l.Max {
			refunds++
		}
		if q > 1 && q < l.Max-1 {
			within++
		}
	}
	if len(missing) > 0 || refunds < 50 || within < 100 {
		t.Errorf("special quantities that were never returned: %v, want none; %d refunds, want at least 50; %d charges below the limit, want at least 100", missing, refunds, within)
	}
}
