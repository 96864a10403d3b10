package limitertest

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// LastTime is the last instant of the clock.
const LastTime = uint64(math.MaxInt64)

// Decide is what algorithms have in common: it answers a request for quantity units under l
// of a key whose state is old. The Tail of the Change is appended to room[:0].
type Decide func(l *limiter.Limit, old limiter.State, now uint64, quantity int64, room []byte) (limiter.Change, limiter.Decision)

// Decided is a decision with all that was asked. It is a value: a test of an algorithm may
// change its copy, as that of one with a Wait does, which Check wants to be 0.
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

// Ask makes a decision, and fails the test unless f is pure (it writes to nothing but room,
// and answers alike whatever room it has) and its Change can be applied.
func (f Decide) Ask(tb testing.TB, l limiter.Limit, old limiter.State, now uint64, quantity int64) Decided {
	data, limit := bytes.Clone(old.Data), l
	ch, d := f(&limit, old, now, quantity, bytes.Repeat([]byte{0xaa}, 100))
	c := Decided{tb, f, l, old, now, quantity, ch, d}
	c.Expect(limit == l, "the limit was written to")
	c.Expect(bytes.Equal(data, old.Data), "the old state was written to")
	flip(ch.Tail)
	c.Expect(bytes.Equal(data, old.Data), "the tail has bytes in common with the old state")
	flip(ch.Tail)
	again, same := f(&limit, old, now, quantity, nil)
	c.Expect(same == d && again.Set == ch.Set, "the same is answered otherwise")
	c.Expect(!ch.Set || again.Expires == ch.Expires && again.Keep == ch.Keep && bytes.Equal(again.Tail, ch.Tail), "the same is changed otherwise")
	c.Expect(!ch.Set || 0 <= ch.Keep && ch.Keep <= len(data), "keeps what is not there")
	c.Expect(!ch.Set || ch.Keep == 0 || ch.Keep+len(ch.Tail) == len(data), "keeps some, but changes the length")
	return c
}

func flip(b []byte) {
	for i := range b {
		b[i] ^= 0xff
	}
}

// Expect fails the test unless ok, and then shows what, the decision, and what is given besides.
func (c Decided) Expect(ok bool, what string, besides ...any) {
	if ok {
		return
	}
	c.TB.Helper() // here, because it takes longer than all else
	c.TB.Fatalf("%s: limit %+v, state %d %x, now %d, quantity %d\n= %+v, %+v\n%v",
		what, c.Limit, c.Old.Expires, c.Old.Data, c.Now, c.Quantity, c.Change, c.Got, besides)
}

// ExpectEarliest fails the test unless ok holds once wait has passed, and not 1 ns before.
// It asks about times up to last only, and takes the longest Duration for any that is as
// long or longer.
func (c Decided) ExpectEarliest(wait time.Duration, last uint64, what string, ok func(t uint64) bool) {
	c.Expect(wait >= 0, what, "it is negative")
	at := c.Now + uint64(wait)
	c.Expect(at > last || wait == math.MaxInt64 || ok(at), what, "it is too short")
	c.Expect(wait == 0 || !ok(min(at-1, last)), what, "it is too long")
}

// After returns the state that the decision leaves.
func (c Decided) After() limiter.State { return After(c.Old, c.Change) }

// After returns what ch makes of old, as a caller does it.
func After(old limiter.State, ch limiter.Change) limiter.State {
	if !ch.Set {
		return old
	}
	return limiter.State{Expires: ch.Expires, Data: slices.Concat(old.Data[:ch.Keep], ch.Tail)}
}

// Then asks about what the decision leaves, after wait, or when the clock ends.
func (c Decided) Then(wait time.Duration, quantity int64) Decided {
	return c.Decide.Ask(c.TB, c.Limit, c.After(), min(c.Now+uint64(wait), LastTime), quantity)
}
