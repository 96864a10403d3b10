package limitertest

import (
	"bytes"
	"math"

	"github.com/throttledhq/throttled/limiter"
)

// Check tests a decision against the rules that all algorithms obey. It makes further requests on the state after the
// decision: at the time of the decision, and after RetryAfter and ResetAfter.
func (c Decided) Check() {
	c.CheckNow()
	c.retryAfter()
	c.resetAfter()
}

// CheckNow is the part of Check whose requests are all made at the time of the decision. It is for decisions whose
// RetryAfter or ResetAfter is inexact, because the exact time does not fit in a Duration.
func (c Decided) CheckNow() {
	c.CheckAnswer()
	c.remaining()
	c.refund()
}

// CheckAnswer is the part of Check that makes no request on the state after the decision. It is for corrupt states, for
// which the results of two requests need not be consistent: a later request may read more of the state.
func (c Decided) CheckAnswer() {
	d, q, most := c.Got, c.Quantity, c.Limit.Max
	c.Expect(d.Err == nil && d.Wait == 0, "error or wait is set")
	c.Expect(d.Limit == most, "the decision has a different limit")
	c.Expect(0 <= d.Remaining && d.Remaining <= most, "remaining out of range")
	c.Expect(d.ResetAfter >= 0, "negative reset after")
	c.Expect((d.ResetAfter == 0) == (d.Remaining == most), "remaining is the limit but reset after is not 0, or the reverse")
	if d.Limited {
		c.Expect(q >= 0, "a refund was refused")
		c.Expect(q > most || d.Remaining < max(q, 1), "refused although enough remains")
		c.Expect(q <= most || d.RetryAfter == limiter.NoRetry, "retry after for more than the limit")
		c.Expect(q > most || d.RetryAfter > 0, "no retry after")
	} else {
		c.Expect(q <= most, "more than the limit was admitted")
		c.Expect(d.RetryAfter == limiter.NoRetry, "retry after, but admitted")
	}
	c.change()
	c.expired()
}

// change checks that an admitted charge changes the state, that a refused request or a peek does not change it, and
// that a changed state expires after ResetAfter.
func (c Decided) change() {
	ch := c.Change
	if !ch.Set {
		c.Expect(c.Got.Limited || c.Quantity <= 0, "charged, but not changed")
		return
	}
	c.Expect(!c.Got.Limited && c.Quantity != 0, "refused or peeked, but changed")
	reset := min(max(ch.Expires, c.Now)-c.Now, math.MaxInt64)
	c.Expect(reset == uint64(c.Got.ResetAfter), "Expires is not now + ResetAfter")
	c.Expect(c.Quantity < 0 || reset > 0, "charged, but nothing is used")
}

// expired checks that the decision on an expired state equals the decision on an absent state.
func (c Decided) expired() {
	if c.Old.Expires > c.Now {
		return
	}
	fresh := c.Decide.Run(c.TB, c.Limit, limiter.State{}, c.Now, c.Quantity)
	fresh.Got.Wait = c.Got.Wait
	c.Expect(fresh.Got == c.Got, "an expired state is not an absent one", fresh.Got)
	if c.Change.Set && fresh.Change.Set {
		got, want := c.After(), fresh.After()
		c.Expect(got.Expires == want.Expires && bytes.Equal(got.Data, want.Data), "an expired state is still used", want)
	}
}

// remaining checks that the remaining units can be charged, and that one unit more cannot.
func (c Decided) remaining() {
	r := c.Got.Remaining
	peek := c.Then(0, 0)
	c.Expect(peek.Got.Remaining == r && peek.Got.ResetAfter == c.Got.ResetAfter, "a peek has another result", peek.Got)
	if r > 0 {
		all := c.Then(0, r)
		all.Expect(!all.Got.Limited && all.Got.Remaining == 0, "the remaining units are refused, or not all of them")
		all.refund()
	}
	if r < c.Limit.Max {
		more := c.Then(0, r+1)
		more.Expect(more.Got.Limited, "more than remained is admitted")
	}
}

// refund checks that a refund of the charge restores the number of remaining units before the charge.
func (c Decided) refund() {
	if !c.Change.Set || c.Quantity <= 0 {
		return
	}
	before := c.Decide.Run(c.TB, c.Limit, c.Old, c.Now, 0)
	back := c.Then(0, -c.Quantity)
	back.Expect(back.Got.Remaining == before.Got.Remaining, "a refund does not undo the charge", before.Got)
}

// retryAfter checks that the repeated request is admitted after RetryAfter, and refused 1 ns before.
func (c Decided) retryAfter() {
	retry := c.Got.RetryAfter
	if retry == limiter.NoRetry {
		return
	}
	c.ExpectEarliest(retry, LastTime, "not first admitted at retry after", func(t uint64) bool {
		return !c.at(t, c.Quantity).Got.Limited
	})
	if c.Now+uint64(retry) <= LastTime && retry < math.MaxInt64 {
		again := c.Then(retry-1, c.Quantity)
		again.Expect(again.Got.RetryAfter == 1, "retry after is not 1 ns at 1 ns before that time")
	}
}

// resetAfter checks that the full limit is available after ResetAfter, but not 1 ns before.
func (c Decided) resetAfter() {
	reset := c.Got.ResetAfter
	c.ExpectEarliest(reset, LastTime, "not first full at reset after", func(t uint64) bool {
		peek := c.at(t, 0)
		full := peek.Got.Remaining == c.Limit.Max
		peek.Expect(full != c.at(t, c.Limit.Max).Got.Limited, "full but the whole limit is refused, or the reverse")
		return full
	})
	if reset > 0 && c.Now+uint64(reset) <= LastTime && reset < math.MaxInt64 {
		peek := c.Then(reset-1, 0)
		peek.Expect(peek.Got.ResetAfter == 1, "reset after is not 1 ns at 1 ns before that time")
	}
}

// at makes a request at time t on the state after the decision.
func (c Decided) at(t uint64, quantity int64) Decided {
	return c.Decide.Run(c.TB, c.Limit, c.After(), t, quantity)
}
