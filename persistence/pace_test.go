package persistence

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPacer checks that a pause is proportional to the work before it, is omitted after
// little work, and is bounded.
func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hurry := make(chan struct{})
		p := newPacer(hurry)
		work := func(d time.Duration) (rest time.Duration) {
			<-time.After(d) // fake time
			begin := time.Now()
			p.step()
			return time.Since(begin)
		}
		for i, step := range []struct{ work, rest time.Duration }{
			{workTime - 1, 0},
			{1, 2 * workTime}, // 200 µs of work in total
			{1, 0},
			{3 * time.Millisecond, 2 * (3*time.Millisecond + 1)},
			{time.Hour, maxPause},
		} {
			if got := work(step.work); got != step.rest {
				t.Errorf("step %d: after %v of work, a pause of %v, want %v", i, step.work, got, step.rest)
			}
		}
		close(hurry)
		if got := work(time.Hour); got != 0 {
			t.Errorf("after hurry was closed: a pause of %v, want none", got)
		}
		p = nil
		if got := work(time.Hour); got != 0 {
			t.Errorf("a nil pacer pauses for %v, want no pause", got)
		}
	})
}
