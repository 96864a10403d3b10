package ban

import (
	"math"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
)

const t0 = uint64(1e18)

var decide = limitertest.Decide(Decide)

// TestDecide checks questions, bans and ends of bans in all states.
func TestDecide(t *testing.T) {
	const never, h = limiter.NoRetry, time.Hour
	for _, tt := range []struct {
		name     string
		rest     time.Duration // of the ban before the request
		quantity int64
		want     limiter.Decision
		set      bool
		expires  time.Duration
	}{
		{"ask", 0, 0, limiter.Decision{Limit: 1, Remaining: 1, RetryAfter: never}, false, 0},
		{"ask while banned", 5, 0, limiter.Decision{Limited: true, Limit: 1, RetryAfter: 5, ResetAfter: 5}, false, 0},
		{"ban", 0, 1, limiter.Decision{Limit: 1, RetryAfter: never, ResetAfter: h}, true, h},
		{"ban with a large quantity", 0, math.MaxInt64, limiter.Decision{Limit: 1, RetryAfter: never, ResetAfter: h}, true, h},
		{"prolong", 5, 1, limiter.Decision{Limit: 1, RetryAfter: never, ResetAfter: h}, true, h},
		{"do not shorten", 3 * h, 1, limiter.Decision{Limit: 1, RetryAfter: never, ResetAfter: 3 * h}, true, 3 * h},
		{"end", 5, -1, limiter.Decision{Limit: 1, Remaining: 1, RetryAfter: never}, true, 0},
		{"end nothing", 0, -1, limiter.Decision{Limit: 1, Remaining: 1, RetryAfter: never}, false, 0},
	} {
		c := decide.Run(t, NewLimit(h), limiter.State{Expires: t0 + uint64(tt.rest)}, t0, tt.quantity)
		c.Expect(c.Got == tt.want && c.Change.Set == tt.set, tt.name, tt.want)
		c.Expect(!tt.set || c.After().Expires == t0+uint64(tt.expires) && len(c.After().Data) == 0, tt.name, "another state")
	}
}

// FuzzDecide checks that any state, time and length give a decision that the next question confirms.
func FuzzDecide(f *testing.F) {
	for _, quantity := range []int64{0, 1, -1} {
		f.Add(int64(time.Hour), t0, t0, quantity)
		f.Add(int64(time.Hour), t0+9, t0, quantity)
		f.Add(int64(math.MaxInt64), uint64(math.MaxUint64), uint64(math.MaxInt64), quantity)
		f.Add(int64(1), uint64(0), uint64(0), quantity)
	}
	f.Fuzz(func(t *testing.T, length int64, expires, now uint64, quantity int64) {
		l := NewLimit(time.Duration(limitertest.Within(length, math.MaxInt64)))
		now &= math.MaxInt64
		c := decide.Run(t, l, limiter.State{Expires: expires}, now, quantity)
		d := c.Got
		c.Expect(d.Err == nil && d.Limit == 1 && d.ResetAfter >= 0 && (d.Remaining == 1) == (d.ResetAfter == 0), "another decision")
		c.Expect(d.Limited == (quantity == 0 && expires > now) && (d.RetryAfter == limiter.NoRetry) == !d.Limited, "another decision")
		again := c.Then(0, 0)
		again.Expect(again.Got.ResetAfter == d.ResetAfter && again.Got.Limited == (d.ResetAfter > 0), "a question has another result", d)
		over := c.Then(d.ResetAfter, 0)
		over.Expect(!over.Got.Limited || over.Now == limitertest.LastTime || d.ResetAfter == math.MaxInt64, "the ban does not end", d)
		c.Expect(quantity <= 0 || c.After().Expires >= max(expires, now+uint64(l.Interval)), "the ban is too short")
	})
}

func TestDecide_AllocatesNothing(t *testing.T) {
	l := NewLimit(time.Hour)
	for _, quantity := range []int64{0, 1, -1} {
		limitertest.NoAllocs(t, "Decide", func() { Decide(&l, limiter.State{Expires: t0 + 1}, t0, quantity, nil) })
	}
}
