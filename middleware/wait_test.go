package middleware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// limitedServer is a fake server that decides as the policy Local does, in virtual time.
func limitedServer(limit Limit) *fake {
	decider := newLocal(1, 100)
	return &fake{reply: func(_ context.Context, args []any) (any, error) {
		r := keyed(args[3].(string), limit)
		r.Cost = args[1].(int64)
		d := decider.decide(&r)
		limited := int64(1)
		if d.Admitted {
			limited = 0
		}
		return reply(limited, d.Limit, d.Remaining, ceilMS(d.RetryAfter), ceilMS(d.ResetAfter)), nil
	}}
}

func ceilMS(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// TestWait_FIFO checks that requests of one key are admitted in the order of their arrival, one per interval, with one call
// of the server for each, and that other keys do not wait.
func TestWait_FIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := Limit{Count: 10, Period: time.Second, Burst: 1}
		client := limitedServer(limit)
		l := New(client, Config{})
		began := time.Now()
		var mu sync.Mutex
		var order []int
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				if _, err := l.Wait(t.Context(), keyed("k", limit)); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
				if at := time.Since(began); at < time.Duration(i)*100*time.Millisecond || at > time.Duration(i)*101*time.Millisecond {
					t.Errorf("request %d was admitted at %v", i, at)
				}
			})
			synctest.Wait()
		}
		if d, err := l.Wait(t.Context(), keyed("other", limit)); err != nil || !d.Admitted || time.Since(began) != 0 {
			t.Errorf("another key: %+v, %v", d, err)
		}
		if n := l.Stats().Waiting; n != 19 {
			t.Errorf("%d requests are waiting, want 19", n)
		}
		group.Wait()
		if !slices.IsSorted(order) {
			t.Errorf("order: %v", order)
		}
		if n := client.count(); n > 2*21 {
			t.Errorf("%d calls of the server for 21 requests", n)
		}
		if l.Stats().Waiting != 0 || len(l.queues.byKey) != 0 {
			t.Errorf("the queues are not empty: %+v", l.Stats())
		}
	})
}

func TestWait_Deadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := Limit{Count: 1, Period: time.Second, Burst: 1}
		l := New(limitedServer(limit), Config{})
		r := keyed("k", limit)
		allow(t, l, r)
		// The waiting requests are admitted after 1 s, 2 s and so on.
		for i, c := range []struct {
			timeout  time.Duration
			admitted bool
		}{
			{999 * time.Millisecond, false}, {1100 * time.Millisecond, true}, {1900 * time.Millisecond, false},
			{2100 * time.Millisecond, true}, {2900 * time.Millisecond, false}, {3100 * time.Millisecond, true},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
			defer cancel()
			result := make(chan error, 1)
			go func() {
				_, err := l.Wait(ctx, r)
				result <- err
			}()
			synctest.Wait()
			if !c.admitted {
				select {
				case err := <-result:
					if !errors.Is(err, ErrDeadline) {
						t.Errorf("request %d: %v, want ErrDeadline", i, err)
					}
				default:
					t.Errorf("request %d waits, although it cannot be admitted in time", i)
				}
				continue
			}
			defer func() {
				if err := <-result; err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			}()
		}
	})
}

func TestWait_Refusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := Limit{Count: 1, Period: time.Second, Burst: 1}
		l := New(limitedServer(limit), Config{MaxWaiters: 2})
		r := keyed("k", limit)
		big := r
		big.Cost = 2
		if d, err := l.Wait(t.Context(), big); !errors.Is(err, ErrNeverAdmitted) || d.Admitted {
			t.Errorf("more than the limit: %+v, %v", d, err)
		}
		allow(t, l, r)
		ctx, cancel := context.WithCancelCause(t.Context())
		results := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := l.Wait(ctx, r)
				results <- err
			}()
		}
		synctest.Wait()
		if d, err := l.Wait(t.Context(), r); !errors.Is(err, ErrQueueFull) || d.Admitted || d.RetryAfter != time.Second {
			t.Errorf("full: %+v, %v", d, err)
		}
		reason := errors.New("canceled")
		cancel(reason)
		for range 2 {
			if err := <-results; !errors.Is(err, reason) {
				t.Errorf("canceled: %v", err)
			}
		}
		if _, err := l.Wait(t.Context(), r); err != nil {
			t.Errorf("after the others have left: %v", err)
		}
	})
}

// TestWait_CanceledFirst checks that the next request becomes the first when the first one leaves.
func TestWait_CanceledFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := Limit{Count: 1, Period: time.Second, Burst: 1}
		l := New(limitedServer(limit), Config{})
		r := keyed("k", limit)
		allow(t, l, r)
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() {
			_, err := l.Wait(ctx, r)
			first <- err
		}()
		synctest.Wait()
		began := time.Now()
		second := make(chan error, 1)
		go func() {
			_, err := l.Wait(t.Context(), r)
			second <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("first: %v", err)
		}
		if err := <-second; err != nil || time.Since(began) != time.Second {
			t.Errorf("second: %v after %v", err, time.Since(began))
		}
	})
}

// leakyServer is a fake server that admits each request, after a delay of 700 ms.
func leakyServer() *fake {
	five := []any{int64(0), int64(9), int64(8), int64(-1), int64(1000)}
	limit := slices.Concat([]any{"queue", "1s"}, five, []any{[]any{}, int64(700)})
	return &fake{reply: func(context.Context, []any) (any, error) {
		return slices.Concat(five, []any{"queue", []any{}, []any{limit}, int64(1)}), nil
	}}
}

// TestWait_LeakyBucket checks that Wait delays a request by the time in the reply.
func TestWait_LeakyBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(leakyServer(), Config{})
		began := time.Now()
		if d, err := l.Wait(t.Context(), Request{Domain: "d"}); err != nil || !d.Admitted || time.Since(began) != 700*time.Millisecond {
			t.Errorf("%+v, %v after %v", d, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
		defer cancel()
		if _, err := l.Wait(ctx, Request{Domain: "d"}); !errors.Is(err, ErrDeadline) {
			t.Errorf("delay after the deadline: %v", err)
		}
	})
}

// TestQueueKey checks that requests wait for each other only if their limits are equal.
func TestQueueKey(t *testing.T) {
	requests := []Request{
		{Domain: "d"}, {Domain: "e"}, {Domain: "d", Attributes: []Attribute{{"a", "b"}}}, {Domain: "d", Attributes: []Attribute{{"a", "c"}}},
		{Domain: "d", Attributes: []Attribute{{"a", ""}, {"b", ""}}}, {Domain: "d", Attributes: []Attribute{{"a", `""b`}, {"", ""}}},
		keyed("d", PerMinute(1)), keyed("e", PerMinute(1)), {Limits: []Limit{{Key: "d"}, {Key: "e"}}}, {Limits: []Limit{{Key: `d""e`}}},
	}
	seen := map[string]string{}
	for _, r := range requests {
		key, text := r.queueKey(), fmt.Sprintf("%+v", r)
		if other, known := seen[key]; known {
			t.Errorf("%s and %s have the key %s", text, other, key)
		}
		seen[key] = text
	}
}
