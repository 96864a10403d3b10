package lease

import (
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestDrawOfLog checks that the units of a lease count until a period after its end, and that it lasts for at most an eighth of
// the period and takes one entry.
func TestDrawOfLog(t *testing.T) {
	b := newBench(t, limiter.WindowLog, limiter.Limit{Max: 60, Interval: time.Second, Amount: 3})
	b.draw(10, time.Second, 10, 125*ms)
	b.ask(5, false, 45) // counts as long as the lease
	b.Sleep(50 * ms)
	b.draw(20, 25*ms, 20, 25*ms) // ends before the first lease
	b.draw(1, 25*ms, 0, 0)       // the log is full
	b.Sleep(1025*ms - 1)
	b.ask(0, false, 0)
	b.Sleep(1)
	b.ask(0, false, 45)
	b.Sleep(50 * ms)
	b.ask(0, false, 60)
}

// TestReturnToLog checks that a return takes the units of its own lease, before and after a change of the period.
func TestReturnToLog(t *testing.T) {
	b := newBench(t, limiter.WindowLog, limiter.Limit{Max: 60, Interval: time.Second, Amount: 100})
	first := b.draw(10, 50*ms, 10, 50*ms)
	b.draw(20, 100*ms, 20, 100*ms)
	b.giveBack(first, 4, 4)
	b.ask(0, false, 34)
	b.l.Interval = 2 * time.Second
	b.ask(1, false, 33)
	b.giveBack(first, 10, 6)
	b.ask(0, false, 39)
	b.Sleep(1100 * ms)
	b.ask(0, false, 39)
	b.Sleep(1000 * ms)
	b.ask(0, false, 60)
}

// TestRefundOfLog checks that a refund takes the newest units that are not leased.
func TestRefundOfLog(t *testing.T) {
	b := newBench(t, limiter.WindowLog, limiter.Limit{Max: 60, Interval: time.Second, Amount: 100})
	b.ask(10, false, 50)
	b.Sleep(200 * ms)
	b.draw(20, 100*ms, 20, 100*ms)
	b.ask(5, false, 25)
	b.ask(-7, false, 32)
	b.Sleep(800 * ms)
	b.ask(0, false, 40)
	b.Sleep(300*ms - 1)
	b.ask(0, false, 40)
	b.Sleep(1)
	b.ask(0, false, 60)
}
