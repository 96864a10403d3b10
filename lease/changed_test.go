package lease

import (
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestRelaxedRate checks that a change of the rate neither charges restored units of a relaxed lease again nor restores the
// others.
func TestRelaxedRate(t *testing.T) {
	for interval, bound := range map[time.Duration]time.Duration{20 * ms: (80 + 100) * ms, 500 * ms: (2000 + 100) * ms} {
		b := newBench(t, limiter.ScaledThrottle, limiter.Limit{Max: 60, Interval: 100 * ms})
		b.relaxed = true
		b.draw(20, 500*ms, 20, 500*ms)
		b.Sleep(400 * ms) // restores 4 units
		b.l.Interval = interval
		b.ask(1, false, 43)
		b.bound(bound)
		b.Delete()
		b.ask(0, false, 44)
	}
}

// TestShorterWindow checks that the units of a lease count in the window of a changed limit in which the lease ends.
func TestShorterWindow(t *testing.T) {
	for _, kind := range []limiter.Kind{limiter.FixedWindow, limiter.SlidingWindow, limiter.WindowBuckets} {
		b := newBench(t, kind, limiter.Limit{Max: 60, Interval: time.Second, Amount: 1})
		b.draw(10, 250*ms, 10, 250*ms)
		b.l.Interval = 100 * ms
		b.ask(5, false, 45)
		b.Sleep(220 * ms) // the window of the charge has ended
		b.ask(1, false, 44)
		b.Sleep(79 * ms) // the lease has ended in the present window
		b.ask(0, false, 44)
		if kind != limiter.SlidingWindow {
			b.Sleep(1 * ms)
			b.ask(0, false, 60)
		}
	}
}

// TestShorterRefill checks that refills of a changed limit do not restore the units of a lease before it has ended.
func TestShorterRefill(t *testing.T) {
	for _, kind := range []limiter.Kind{limiter.TokenBucket, limiter.ScaledBucket} {
		b := newBench(t, kind, limiter.Limit{Max: 60, Interval: time.Second, Amount: 5})
		b.draw(20, 250*ms, 20, 250*ms)
		b.Sleep(100 * ms)
		b.l.Interval = 40 * ms
		b.ask(1, false, 39)
		b.Sleep(150*ms - 1)
		b.ask(0, false, 39)
		b.Sleep(1)
		b.ask(0, false, 44)
		b.Sleep(40 * ms)
		b.ask(0, false, 49)
	}
}

// TestDueRefills checks the refills that a changed limit makes due immediately: they restore only units that do not belong
// to leases.
func TestDueRefills(t *testing.T) {
	b := newBench(t, limiter.TokenBucket, limiter.Limit{Max: 60, Interval: 10 * time.Second, Amount: 5})
	b.ask(30, false, 30)
	b.Sleep(5 * time.Second)
	b.draw(20, 250*ms, 20, 250*ms)
	b.l.Interval = time.Second
	b.ask(1, false, 34)
	b.l.Interval = 100 * ms
	b.ask(1, false, 33)
	b.Sleep(time.Second)
	b.ask(0, false, 60)
}

// TestCalendarEndsEarly checks that the units of a lease count in the next window if its window has ended by the wall clock only.
func TestCalendarEndsEarly(t *testing.T) {
	end := int64(1000*time.Second + 400*ms)
	b := newBench(t, limiter.Calendar, limiter.Limit{Max: 60, Interval: 400 * ms, Amount: end})
	b.ask(7, false, 53)
	b.draw(20, 300*ms, 20, 300*ms)
	b.l.Amount += int64(400 * ms)
	b.ask(1, false, 39)
	b.Sleep(500 * ms)
	b.ask(0, false, 39)
	b.Sleep(300 * ms)
	b.ask(0, false, 60)
}

// TestCalendarBeginsEarly checks that a lessee whose clock is ahead or behind gets no lease in a window that has not begun or has
// ended, and that its draws do not change the count of the present window.
func TestCalendarBeginsEarly(t *testing.T) {
	const length = 400 * ms
	present := limiter.Limit{Max: 60, Interval: length, Amount: int64(1000*time.Second + length)}
	b := newBench(t, limiter.Calendar, present)
	b.Sleep(100 * ms)
	b.ask(50, false, 10)
	for _, windows := range []int64{-1, 1, 2, 1000} {
		b.l.Amount += windows * int64(length)
		b.draw(20, 100*ms, 0, 0)
		b.l = present
		b.ask(0, false, 10)
	}
	b.draw(20, 100*ms, 10, 100*ms)
	b.Sleep(300 * ms)
	b.l.Amount += int64(length)
	b.draw(20, 100*ms, 20, 100*ms)
}

// TestDeleteAfterChange checks that a deletion leaves the units of leases charged until they end, after a change of the limit.
func TestDeleteAfterChange(t *testing.T) {
	for _, kind := range []limiter.Kind{limiter.FixedWindow, limiter.WindowBuckets, limiter.SlidingWindow, limiter.TokenBucket, limiter.ScaledBucket} {
		for _, refund := range []bool{false, true} {
			b := newBench(t, kind, limiter.Limit{Max: 60, Interval: time.Second, Amount: 1})
			b.draw(20, 250*ms, 20, 250*ms)
			b.l.Interval = 20 * ms
			b.ask(5, false, 35)
			if refund {
				b.ask(-1000, false, 40)
			} else {
				b.Delete()
			}
			b.Sleep(250*ms - 1)
			b.ask(0, false, 40)
		}
	}
}

// TestRefundAfterLease checks that a refund after the end of all leases keeps the window of the units.
func TestRefundAfterLease(t *testing.T) {
	for _, kind := range []limiter.Kind{limiter.FixedWindow, limiter.WindowBuckets} {
		b := newBench(t, kind, limiter.Limit{Max: 60, Interval: time.Second, Amount: 1})
		b.draw(20, 250*ms, 20, 250*ms)
		b.Sleep(300 * ms)
		b.ask(-5, false, 45)
		b.Sleep(700 * ms)
		b.ask(0, false, 60)
	}
}
