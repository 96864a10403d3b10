package limitertest

import (
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// A Row is a row of a test table: a request and the expected decision. It is an alias of an unnamed struct type, so
// that go vet accepts rows without field names in other packages.
type Row = struct {
	At         time.Duration // since the start time passed to Play
	Quantity   int64
	Limited    bool
	Remaining  int64
	RetryAfter time.Duration
	ResetAfter time.Duration
}

// Play makes the requests of rows on a key with the initial state s, compares each decision with its row, and returns
// the last state. An admitted charge or refund must change the state, and an admitted peek must not. Check tests that a
// refused request does not change it.
//
// Each decision is passed to the function look, which may check it further. If the algorithm sets Wait, look must check
// Wait, since a Row does not contain it. If look is nil, Play calls Check for each decision.
func (f Decide) Play(tb testing.TB, l limiter.Limit, s limiter.State, start uint64, rows []Row, look func(row int, c Decided)) limiter.State {
	tb.Helper()
	if look == nil {
		look = func(_ int, c Decided) { c.Check() }
	}
	for i, row := range rows {
		c := f.Run(tb, l, s, start+uint64(row.At), row.Quantity)
		want := limiter.Decision{Limited: row.Limited, Limit: l.Max, Remaining: row.Remaining,
			RetryAfter: row.RetryAfter, ResetAfter: row.ResetAfter, Wait: c.Got.Wait}
		if c.Got != want {
			tb.Errorf("row %d: got %+v, want %+v", i, c.Got, want)
		}
		if !c.Got.Limited && c.Change.Set != (row.Quantity != 0) {
			tb.Errorf("row %d: set is %t", i, c.Change.Set)
		}
		look(i, c)
		s = c.After()
	}
	return s
}

// NoAllocs fails the test if f allocates.
func NoAllocs(tb testing.TB, name string, f func()) {
	tb.Helper()
	if n := testing.AllocsPerRun(100, f); n != 0 {
		tb.Errorf("%s: %v allocations", name, n)
	}
}
