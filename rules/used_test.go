package rules

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/leaky"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/limiter/limitertest"
	"github.com/throttledhq/throttled/tokenbucket"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

// decides holds the function of each kind of counters.
var decides = map[limiter.Kind]limitertest.Decide{
	limiter.ScaledThrottle: gcra.DecideScaled,
	limiter.ScaledBucket:   tokenbucket.DecideScaled,
	limiter.ScaledLeaky:    leaky.DecideScaled,
	limiter.SlidingWindow:  window.Slide,
	limiter.FixedWindow:    window.Count,
	limiter.WindowBuckets:  window.Count,
	limiter.Calendar:       window.Calendar,
	limiter.WindowLog:      windowlog.Decide,
}

// everyAlgorithm holds a limit of each algorithm, and the period of its amounts.
var everyAlgorithm = []struct {
	l      Limit
	period string
}{
	{Limit{}, "minute"},
	{Limit{Algorithm: Algorithm{Kind: Sliding}}, "minute"},
	{Limit{Algorithm: Algorithm{Kind: Fixed}}, "minute"},
	{Limit{Algorithm: Algorithm{Kind: Fixed}}, "day"},
	{Limit{Algorithm: Algorithm{Kind: Fixed}, Anchor: 31}, "month"},
	{Limit{Algorithm: Algorithm{Kind: Log}}, "minute"},
	{Limit{Algorithm: Algorithm{Kind: Buckets, Buckets: 6}}, "minute"},
	{Limit{Algorithm: Algorithm{Kind: Bucket}}, "minute"},
	{Limit{Algorithm: Algorithm{Kind: Leaky}}, "minute"},
}

// usedKey is the state of one key, to which requests of several versions of a limit are made.
type usedKey struct {
	testing.TB
	name  string
	state limiter.State
	now   time.Time
}

// ask decides a request with the counter of one version of the limit.
func (k *usedKey) ask(l *Limit, amount string, quantity int64, priority bool) limiter.Decision {
	k.Helper()
	c := counter(k, l, amount)
	name := fmt.Sprint(c.Kind, string(c.AppendKey(nil, nil)))
	if k.name != "" && k.name != name {
		k.Fatalf("%s: the key changes from %s to %s", amount, k.name, name)
	}
	k.name = name
	d := decides[c.Kind].Run(k, c.LimitAt(k.now, priority), k.state, uint64(k.now.UnixNano()), quantity)
	k.state = d.After()
	d.Got.Wait = 0
	return d.Got
}

// noon is the time of most tests; it is in the middle of a window of each period.
var noon = time.Date(2026, 11, 23, 12, 0, 30, 0, time.UTC)

// TestCounter_ChangedAmount checks the units that remain after a change of the amount, for each algorithm.
func TestCounter_ChangedAmount(t *testing.T) {
	for _, tt := range everyAlgorithm {
		for _, change := range []struct{ from, used, to, remaining int64 }{
			{5, 5, 8, 3}, {100, 100, 1000, 900}, {100, 37, 1000, 963}, {8, 6, 5, 0}, {8, 2, 5, 3}, {1000, 1000, 1, 0},
		} {
			t.Run(fmt.Sprintf("%v per %s %+v", tt.l.Algorithm, tt.period, change), func(t *testing.T) {
				k := &usedKey{TB: t, now: noon}
				from, to := fmt.Sprintf("%d per %s", change.from, tt.period), fmt.Sprintf("%d per %s", change.to, tt.period)
				for i := range change.used {
					if d := k.ask(&tt.l, from, 1, false); d.Limited {
						t.Fatalf("charge %d is refused: %+v", i, d)
					}
				}
				if d := k.ask(&tt.l, to, 0, false); d.Remaining != change.remaining {
					t.Errorf("%d units remain, want %d", d.Remaining, change.remaining)
				}
				for range change.remaining {
					if d := k.ask(&tt.l, to, 1, false); d.Limited {
						t.Fatalf("refused: %+v", d)
					}
				}
				d := k.ask(&tt.l, to, 1, false)
				if !d.Limited || d.RetryAfter <= 0 {
					t.Fatalf("admitted: %+v", d)
				}
				k.now = k.now.Add(d.RetryAfter)
				if d := k.ask(&tt.l, to, 1, false); d.Limited {
					t.Errorf("refused after the time in the decision: %+v", d)
				}
			})
		}
	}
}

// TestCounter_UsedUnits makes random requests at one instant, with random amounts, soft shares and priorities. It
// checks this guarantee: while no time passes, a request is admitted if and only if the units used and its quantity are
// at most the maximum of its own limit.
func TestCounter_UsedUnits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 19))
	for _, tt := range everyAlgorithm {
		for range 100 {
			k, used := &usedKey{TB: t, now: noon}, int64(0)
			for range 60 {
				l := tt.l
				l.Soft, l.Priority.Share = r.IntN(2)*r.IntN(101), r.IntN(2)*r.IntN(101)
				count := 1 + r.Int64N([]int64{9, 99, 999}[r.IntN(3)])
				priority, quantity := r.IntN(2) == 0, []int64{1, 1 + r.Int64N(count), 1 + r.Int64N(9), -1}[r.IntN(4)]
				most := count + count*int64(l.Soft)/100
				if !priority {
					most -= (count*int64(l.Priority.Share) + 99) / 100
				}
				d := k.ask(&l, fmt.Sprintf("%d per %s", count, tt.period), quantity, priority)
				full := tt.l.Algorithm.Kind == Log && d.Remaining == 0 // the log may have its maximum number of requests
				if admitted := used+quantity <= most || quantity < 0; d.Limited == admitted && !full || d.Limit != most {
					t.Fatalf("%v, %d per %s, %+v, priority %t: %d units used, quantity %d: %+v, want admitted %t with limit %d",
						l.Algorithm, count, tt.period, l.Priority, priority, used, quantity, d, admitted, most)
				}
				if !d.Limited {
					used = max(0, used+quantity)
				}
				if want := max(0, most-used); d.Remaining != want && !full {
					t.Fatalf("%v: %d units remain, want %d", l.Algorithm, d.Remaining, want)
				}
			}
		}
	}
}

// TestCounter_NeverMore makes requests under amounts that change at random times. It checks this guarantee: in the time
// of one period, counted from any charge, the units admitted are at most twice the largest amount. One amount can be
// used at once, and is restored over the period; a window can be used up at its end and again at its start.
func TestCounter_NeverMore(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 19))
	for _, tt := range everyAlgorithm {
		if tt.period != "minute" {
			continue
		}
		for range 20 {
			type charge struct {
				at       time.Time
				quantity int64
			}
			var charges []charge
			k, most, count := &usedKey{TB: t, now: noon}, int64(0), int64(50)
			for range 400 {
				if r.IntN(15) == 0 {
					count = 1 + r.Int64N(100)
				}
				most = max(most, count)
				k.now = k.now.Add(time.Duration(r.Int64N(int64(600 * time.Millisecond))))
				quantity := 1 + r.Int64N(4)
				if d := k.ask(&tt.l, fmt.Sprintf("%d per minute", count), quantity, false); !d.Limited {
					charges = append(charges, charge{k.now, quantity})
				}
				sum := int64(0)
				for _, c := range charges {
					if k.now.Sub(c.at) < time.Minute {
						sum += c.quantity
					}
				}
				if bound := 2 * most; sum > bound {
					t.Fatalf("%v: %d units are admitted within a minute, want at most %d", tt.l.Algorithm, sum, bound)
				}
			}
		}
	}
}

// TestCounter_None checks that the limit of "none" refuses a quantity of 2 and changes nothing.
func TestCounter_None(t *testing.T) {
	k := &usedKey{TB: t, now: noon}
	for range 3 {
		if d := k.ask(&Limit{}, "none", 2, true); !d.Limited || d.RetryAfter != limiter.NoRetry || k.state.Expires != 0 {
			t.Errorf("got %+v, state %+v", d, k.state)
		}
	}
}
