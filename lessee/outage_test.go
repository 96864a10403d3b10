package lessee

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestDrawsAfterOutage checks that the draws for keys in demand are few while the authority does not answer, and in the
// second after its return, and that units of all keys are in hand a quarter of a lease after the return.
func TestDrawsAfterOutage(t *testing.T) {
	const keys, outage, step, timeout = 20, 5 * second, int64(time.Millisecond), second / 20
	l := New(Config{Lessee: "a"})
	var failing []Call
	during, after := 0, 0 // draws in the last second of the outage, and in the second after it
	for now := int64(0); now < outage+second; now += step {
		for i := range keys {
			req, d := request(fmt.Sprint("k", i)), limiter.Decision{}
			req.Limit.Max = 100_000
			if decided := l.Decide(&req, now, &d); !decided && now > outage+second/4 {
				t.Fatalf("%v after the return, a request for key %d is forwarded, want a local decision", time.Duration(now-outage), i)
			}
		}
		for len(failing) > 0 && failing[0].Sent+timeout <= now {
			l.Drawn(&failing[0], now, &limiter.Decision{Err: errors.New("no answer")})
			failing = failing[1:]
		}
		for c, ok := l.Next(now); ok; c, ok = l.Next(now) {
			switch {
			case c.Request.Draw.Return:
			case now < outage:
				failing = append(failing, c)
				if now >= outage-second {
					during++
				}
			default:
				after++
				grant(l, c, c.Request.Quantity, time.Second, now)
			}
		}
	}
	if during > 4*keys || during == 0 {
		t.Errorf("%d draws in a second of the outage, want 1 to %d", during, 4*keys)
	}
	if after > 3*keys {
		t.Errorf("%d draws in the second after the return, want at most %d", after, 3*keys)
	}
}
