package buckets

import (
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestBan checks that a ban refuses a group until its end, that it is written in one step with the other requests of a
// group, and that a trial asks for it.
func TestBan(t *testing.T) {
	for _, replicated := range []bool{false, true} {
		clock := newFakeClock()
		table := New(Config{Clock: clock.read, Shards: 4, Replicated: replicated})
		if replicated {
			table.Lead(1)
		}
		l := limiter.Limit{Max: 1, Interval: time.Hour}
		ask, banned := charge(limiter.Ban, "ban", l, 0), charge(limiter.Ban, "ban", l, 1)
		units := charge(limiter.Throttle, "units", slow, 1)
		check := func(step string, d limiter.Decision, limited bool, rest time.Duration) {
			t.Helper()
			want := limiter.Decision{Limit: 1, Remaining: 1, RetryAfter: limiter.NoRetry}
			if rest > 0 {
				want.Remaining, want.ResetAfter = 0, rest
			}
			if limited {
				want.Limited, want.RetryAfter = true, rest
			}
			if d != want {
				t.Errorf("%s: got %+v, want %+v", step, d, want)
			}
		}
		check("before the ban", decideAll(table, linked(ask, units))[0], false, 0)
		check("trial before the ban", decideAll(table, linked(units, trial(banned)))[1], false, 0)
		refused := units
		refused.Quantity = slow.Max
		check("ban in a refused group", decideAll(table, linked(banned, refused))[0], false, 0)
		check("ban", decideAll(table, linked(banned, units))[0], false, time.Hour)
		if n := used(table, units); n != 3 {
			t.Errorf("%d units used before the ban, want 3", n)
		}
		clock.advance(20 * time.Minute)
		check("while banned", decideAll(table, linked(units, ask))[1], true, 40*time.Minute)
		check("trial while banned", decideOne(table, trial(banned)), true, 40*time.Minute)
		if n := used(table, units); n != 3 {
			t.Errorf("%d units used after the ban, want 3", n)
		}
		short := banned
		short.Limit.Interval = time.Minute
		check("a shorter ban", decideOne(table, short), false, 40*time.Minute)
		clock.advance(40*time.Minute - 1)
		check("before the end", decideOne(table, ask), true, 1)
		clock.advance(1)
		check("after the end", decideOne(table, ask), false, 0)
		decideOne(table, banned)
		check("lifted", decideOne(table, charge(limiter.Ban, "ban", l, -1)), false, 0)
		check("after it was lifted", decideOne(table, ask), false, 0)
		checkTable(t, table)
	}
}

// TestBan_IsNotEvicted checks that a flood of exhausted keys with shorter times does not evict a ban.
func TestBan_IsNotEvicted(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, Shards: 1, MaxMemory: 20_000, Eviction: EvictSmallestDebt})
	l := limiter.Limit{Max: 1, Interval: time.Hour}
	decideOne(table, charge(limiter.Ban, "ban", l, 1))
	flood(t, table, "key", 10_000, limiter.Limit{Max: 1, Interval: time.Minute})
	if d := decideOne(table, charge(limiter.Ban, "ban", l, 0)); !d.Limited {
		t.Errorf("the ban was evicted: got %+v", d)
	}
}
