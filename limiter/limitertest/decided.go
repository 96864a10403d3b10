package limitertest

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// LastTime is the largest limiter time, in nanoseconds.
const LastTime = uint64(math.MaxInt64)

// Decide is the signature that all algorithms share. It decides a request for quantity units under the limit l, at time
// now, for a key with the state old. The Tail of the Change is appended to room[:0].
type Decide func(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (limiter.Change, limiter.Decision)

// Decided is a decision, and the arguments for which it was made. Its methods do not change it, and a test may change a
// copy. For example, Check requires that Got.Wait is 0. The test of an algorithm that sets Wait therefore checks
// Got.Wait itself, and then calls Check on a copy in which Got.Wait is 0.
type Decided struct {
	TB       testing.TB
	Decide   Decide
	Limit    limiter.Limit
	Old      limiter.State
	Now      uint64
	Quantity int64
	Change   limiter.Change
	Got      limiter.Decision
}

// Run calls f and returns the decision. It fails the test if f writes to any argument except room, if the result
// depends on room, or if the Change cannot be applied to old.
func (f Decide) Run(tb testing.TB, l limiter.Limit, old limiter.State, now uint64, quantity int64) Decided {
	data, limit := bytes.Clone(old.Data), l
	ch, d := f(&limit, old, now, quantity, bytes.Repeat([]byte{0xaa}, 100))
	c := Decided{tb, f, l, old, now, quantity, ch, d}
	c.Expect(limit == l, "the limit was written to")
	c.Expect(bytes.Equal(data, old.Data), "the old state was written to")
	flip(ch.Tail)
	c.Expect(bytes.Equal(data, old.Data), "the tail has bytes in common with the old state")
	flip(ch.Tail)
	again, same := f(&limit, old, now, quantity, nil)
	c.Expect(same == d && again.Set == ch.Set, "the same request has another result")
	c.Expect(!ch.Set || again.Expires == ch.Expires && again.Keep == ch.Keep && bytes.Equal(again.Tail, ch.Tail), "the same request makes another change")
	c.Expect(!ch.Set || 0 <= ch.Keep && ch.Keep <= len(data), "keep is out of range")
	c.Expect(!ch.Set || ch.Keep == 0 || ch.Keep+len(ch.Tail) == len(data), "Keep is above 0 but the length changes")
	return c
}

func flip(b []byte) {
	for i := range b {
		b[i] ^= 0xff
	}
}

// Expect fails the test unless ok is true. The failure message contains the text what, the decision with its arguments,
// and the details.
func (c Decided) Expect(ok bool, what string, details ...any) {
	if ok {
		return
	}
	c.TB.Helper() // only on failure, because Helper is slow
	c.TB.Fatalf("%s: limit %+v, state %d %x, now %d, quantity %d\n= %+v, %+v\n%v",
		what, c.Limit, c.Old.Expires, c.Old.Data, c.Now, c.Quantity, c.Change, c.Got, details)
}

// ExpectEarliest fails the test unless wait is the shortest time after which the function ok returns true. It checks
// that ok returns true for the time Now + wait, and false for the time 1 ns earlier. It calls ok only with times up to
// last. If wait is the longest Duration, ExpectEarliest does not check that ok returns true, since the exact time may
// not fit in a Duration.
func (c Decided) ExpectEarliest(wait time.Duration, last uint64, what string, ok func(t uint64) bool) {
	c.Expect(wait >= 0, what, "it is negative")
	at := c.Now + uint64(wait)
	c.Expect(at > last || wait == math.MaxInt64 || ok(at), what, "it is too short")
	c.Expect(wait == 0 || !ok(min(at-1, last)), what, "it is too long")
}

// After returns the state after the decision.
func (c Decided) After() limiter.State { return After(c.Old, c.Change) }

// Converted returns the decision as if the state had been converted before, if a refused request has converted the state to
// a changed limit. The rules of Check hold for the result. Other decisions are returned unchanged.
func (c Decided) Converted() Decided {
	if c.Got.Limited && c.Change.Set {
		c.Old, c.Change = c.After(), limiter.Change{}
	}
	return c
}

// After applies ch to old, as a caller of Decide does, and returns the result.
func After(old limiter.State, ch limiter.Change) limiter.State {
	if !ch.Set {
		return old
	}
	return limiter.State{Expires: ch.Expires, Data: slices.Concat(old.Data[:ch.Keep], ch.Tail)}
}

// Then makes a request on the state after the decision. The time of the request is Now + wait, or LastTime if that is
// earlier.
func (c Decided) Then(wait time.Duration, quantity int64) Decided {
	return c.Decide.Run(c.TB, c.Limit, c.After(), min(c.Now+uint64(wait), LastTime), quantity)
}
