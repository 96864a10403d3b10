package persistence

import (
	"testing"
	"testing/synctest"
	"time"
)

// Rests follow work in proportion, are not worth it after little, and stay short.
func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hurry := make(chan struct{})
		p := newPacer(hurry)
		work := func(d time.Duration) (rest time.Duration) {
			<-time.After(d) // in fake time: this is the work
			begin := time.Now()
			p.step()
			return time.Since(begin)
		}
		for i, step := range []struct{ work, rest time.Duration }{
			{workTime - 1, 0},
			{1, 2 * workTime}, // together it is enough
			{1, 0},
			{3 * time.Millisecond, 2 * (3*time.Millisecond + 1)},
			{time.Hour, longest},
		} {
			if got := work(step.work); got != step.rest {
				t.Errorf("step %d: after %v a rest of %v, want %v", i, step.work, got, step.rest)
			}
		}
		close(hurry)
		if got := work(time.Hour); got != 0 {
			t.Errorf("in a hurry there is a rest of %v", got)
		}
		p = nil
		if got := work(time.Hour); got != 0 {
			t.Errorf("a save that somebody waits for rests for %v", got)
		}
	})
}
