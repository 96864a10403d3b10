package client

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/client/internal/testserver"
)

var _ Redis = redis.UniversalClient(nil)

// TestAllow checks the decisions on a key that is not leased: the server decides each of them.
func TestAllow(t *testing.T) {
	c := connect(t, dial(t, testserver.Start(t, "0").Addr), Options{})
	limit := must(FixedWindow(2, time.Hour))
	for i, want := range []Decision{
		{Admitted: true, Limit: 2, Remaining: 1, RetryAfter: -1},
		{Admitted: true, Limit: 2, Remaining: 0, RetryAfter: -1},
		{Limit: 2},
	} {
		d := allow(t, c, "k", limit)
		if d.ResetAfter <= 0 || d.ResetAfter > time.Hour || !want.Admitted && d.RetryAfter != d.ResetAfter {
			t.Errorf("request %d: the times are %v and %v, want at most an hour", i, d.RetryAfter, d.ResetAfter)
		}
		if !want.Admitted {
			d.RetryAfter = 0
		}
		if d.ResetAfter = 0; d != want {
			t.Errorf("request %d: %+v, want %+v", i, d, want)
		}
	}
	if d, err := c.AllowN(t.Context(), "k", limit, 3); err != nil || d.Admitted || d.RetryAfter >= 0 {
		t.Errorf("3 of 2 units: %+v, %v, want a refusal without a time", d, err)
	}
	if s := c.Stats(); s.ServerAdmitted != 2 || s.ServerRefused != 2 || s.Flagged != 0 {
		t.Errorf("the counters are %+v, want 2 admissions and 2 refusals", s)
	}
}

// TestAllow_Errors checks the sentinels of requests that cannot be decided.
func TestAllow_Errors(t *testing.T) {
	rdb := dial(t, testserver.Start(t, "0").Addr)
	c := connect(t, rdb, Options{})
	limit := must(Throttle(9, 10, time.Second))
	allow(t, c, "throttle", limit)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, want := range map[string]struct {
		err   error
		allow func() (Decision, error)
	}{
		"zero limit":    {ErrLimit, func() (Decision, error) { return c.Allow(t.Context(), "k", Limit{}) }},
		"zero quantity": {ErrQuantity, func() (Decision, error) { return c.AllowN(t.Context(), "k", limit, 0) }},
		"wrong kind":    {ErrWrongKind, func() (Decision, error) { return c.Allow(t.Context(), "throttle", must(FixedWindow(1, time.Second))) }},
	} {
		if d, err := want.allow(); !errors.Is(err, want.err) || d != (Decision{}) {
			t.Errorf("%s: %+v, %v, want %v", name, d, err, want.err)
		}
	}
	busy, unblock := blocked()
	defer unblock()
	waiting := connect(t, busy, Options{Timeout: patience, Hold: 20 * time.Millisecond})
	if _, err := waiting.Allow(canceled, "k", limit); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled request: %v, want context.Canceled", err)
	}
	c.Close()
	if _, err := c.Allow(t.Context(), "k", limit); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}

// TestOptions checks that options out of range are refused.
func TestOptions(t *testing.T) {
	for name, list := range map[string][]Options{
		"Lessee":  {{Lessee: string(make([]byte, 65))}},
		"Hold":    {{Hold: time.Minute}},
		"Timeout": {{Timeout: -1}},
		"Away":    {{Away: Local + 1}},
		"Share":   {{Share: 2}, {Share: -1, Away: Open}, {Share: math.NaN(), Away: Local}},
		"MaxKeys": {{MaxKeys: -1}},
	} {
		for _, o := range list {
			if _, err := New(nil, o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), name) {
				t.Errorf("%+v: %v, want ErrOptions with %s", o, err, name)
			}
		}
	}
}

// hammer sends requests of several goroutines for a time, and returns the number of admissions and requests.
func hammer(t *testing.T, goroutines int, f func() (Decision, error), during time.Duration) (admitted, all int64) {
	t.Helper()
	var yes, total atomic.Int64
	var running sync.WaitGroup
	for end := time.Now().Add(during); goroutines > 0; goroutines-- {
		running.Go(func() {
			for time.Now().Before(end) {
				d, err := f()
				if err != nil {
					t.Error(err)
					return
				}
				total.Add(1)
				if d.Admitted {
					yes.Add(1)
				} else {
					time.Sleep(time.Millisecond) // the rate of the load: a loop without it leaves no processor to the server
				}
			}
		})
	}
	running.Wait()
	return yes.Load(), total.Load()
}

// TestExact checks the number of admissions of 8 goroutines on one limit: at most the burst and the refill of the time, and at
// least 90 % of it.
func TestExact(t *testing.T) {
	const rate, during = 5000, 3 * time.Second
	c := connect(t, dial(t, testserver.Start(t, "0").Addr), Options{})
	limit := must(Throttle(rate-1, rate, time.Second))
	began := time.Now()
	admitted, all := hammer(t, 8, func() (Decision, error) { return c.Allow(t.Context(), "k", limit) }, during)
	took := time.Since(began)
	most := int64(rate + rate*took.Seconds() + 1)
	if admitted > most || admitted < most*9/10 {
		t.Errorf("%d requests are admitted in %v, want %d to %d", admitted, took, most*9/10, most)
	}
	// The limit is exhausted after a second. Its refusals are known, so few requests need the server.
	if n := calls(c.Stats()); n > uint64(all)/20 {
		t.Errorf("%d calls of the server for %d decisions, want at most 5 per 100", n, all)
	}
}

// calls returns the number of calls of the server.
func calls(s Stats) uint64 {
	return s.ServerAdmitted + s.ServerRefused + s.Flagged + s.Draws + s.Returns
}

// TestHot checks that a key in demand causes at most one call of the server per 100 decisions.
func TestHot(t *testing.T) {
	c := connect(t, dial(t, testserver.Start(t, "0").Addr), Options{})
	limit := must(Throttle(99_999_999, 100_000_000, time.Second))
	hot := func() (Decision, error) { return c.Allow(t.Context(), "k", limit) }
	hammer(t, 2, hot, time.Second) // until the leases have the size of the demand
	before := calls(c.Stats())
	admitted, all := hammer(t, 2, hot, time.Second)
	n := calls(c.Stats()) - before
	t.Logf("%d calls of the server for %d decisions", n, all)
	if admitted != all || n > uint64(all)/10 { // on an idle machine, less than 1 call per 100
		t.Errorf("%d of %d requests are admitted, with %d calls of the server; want all, and at most 1 call per 10", admitted, all, n)
	}
}

// TestExact_TwoClients checks that two programs share one limit.
func TestExact_TwoClients(t *testing.T) {
	const count = 3000
	n := testserver.Start(t, "0")
	limit := must(FixedWindow(count, 24*time.Hour))
	var admitted [2]int64
	var running sync.WaitGroup
	for i := range admitted {
		c := connect(t, dial(t, n.Addr), Options{Hold: 200 * time.Millisecond})
		running.Go(func() {
			admitted[i], _ = hammer(t, 4, func() (Decision, error) { return c.Allow(t.Context(), "day", limit) }, 2*time.Second)
		})
	}
	running.Wait()
	if sum := admitted[0] + admitted[1]; sum > count || sum < count*9/10 {
		t.Errorf("%v requests are admitted, want %d to %d together", admitted, count*9/10, count)
	}
}

// TestClose checks that Close returns the units that are not used.
func TestClose(t *testing.T) {
	rdb := dial(t, testserver.Start(t, "0").Addr)
	c := connect(t, rdb, Options{})
	limit := must(FixedWindow(1_000_000, 24*time.Hour))
	var used int64
	eventually(t, "units in hand", func() bool {
		if allow(t, c, "k", limit).Admitted {
			used++
		}
		return c.Stats().Units > 10
	})
	c.Close()
	s := c.Stats()
	d, err := parse(rdb.Do(t.Context(), limit.command("k", 1)...).Val())
	if want := int64(1_000_000) - used - int64(s.UnitsLost) - 1; err != nil || d.Remaining != want || s.UnitsReturned == 0 {
		t.Errorf("%d units remain, %v, want %d; %+v", d.Remaining, err, want, s)
	}
	if s.Units != 0 {
		t.Errorf("%d units are in hand after Close, want 0", s.Units)
	}
}
