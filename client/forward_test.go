package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/client/internal/testserver"
)

// TestForward_Pipelines checks that concurrent requests of cold keys share pipelines.
func TestForward_Pipelines(t *testing.T) {
	c := connect(t, dial(t, testserver.Start(t, "0").Addr), Options{})
	limit := must(FixedWindow(10, time.Hour))
	const goroutines, each = 64, 50
	var running sync.WaitGroup
	for g := range goroutines {
		running.Go(func() {
			for i := range each {
				allow(t, c, fmt.Sprintf("key %d %d", g, i), limit)
			}
		})
	}
	running.Wait()
	if s := c.Stats(); s.ServerAdmitted != goroutines*each || s.Pipelines > goroutines*each/4 {
		t.Errorf("%d requests are decided with %d pipelines, want %d with at most a quarter", s.ServerAdmitted, s.Pipelines, goroutines*each)
	}
}

// TestForward_FarServer checks that a request waits for one round trip to a server that is far away, and at most the time ahead, and
// that requests which arrive within this time share a pipeline.
func TestForward_FarServer(t *testing.T) {
	const trip, goroutines, each = 30 * time.Millisecond, 20, 5
	rdb := answer(func(cmds []redis.Cmder) {
		<-time.After(trip)
		for _, cmd := range cmds {
			cmd.(*redis.Cmd).SetVal([]any{int64(0), int64(10), int64(9), int64(-1), int64(1000)})
		}
	}) // outside of the bubble, because go-redis starts a goroutine that does not exit
	t.Cleanup(func() { _ = rdb.Close() })
	synctest.Test(t, func(t *testing.T) {
		c, err := New(rdb, Options{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		limit := must(FixedWindow(10, time.Hour))
		var running sync.WaitGroup
		for g := range goroutines {
			running.Go(func() {
				for i := range each {
					<-time.After(time.Duration(g) * time.Millisecond) // spreads the requests over a round trip
					begun := time.Now()
					allow(t, c, fmt.Sprintf("key %d %d", g, i), limit)
					if took := time.Since(begun); took > trip+ahead {
						t.Errorf("a request took %v, want at most %v", took, trip+ahead)
					}
				}
			})
		}
		running.Wait()
		if s := c.Stats(); s.ServerAdmitted != goroutines*each || s.Pipelines > goroutines*each/2 {
			t.Errorf("%d requests are decided with %d pipelines, want %d with at most half", s.ServerAdmitted, s.Pipelines, goroutines*each)
		}
		c.Close()
	})
}

// hook answers pipelines with a function.
type hook func(cmds []redis.Cmder)

func (hook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h hook) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		h(cmds)
		return cmds[0].Err()
	}
}

// answer returns a client of go-redis whose pipelines are answered by a function.
func answer(f func(cmds []redis.Cmder)) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: "unused"})
	client.AddHook(hook(f))
	return client
}

// blocked returns a client of a server whose pipelines fail when unblock is called.
func blocked() (rdb Redis, unblock func()) {
	release := make(chan struct{})
	rdb = answer(func(cmds []redis.Cmder) {
		<-release
		for _, cmd := range cmds {
			cmd.SetErr(context.Canceled)
		}
	})
	return rdb, func() { close(release) }
}

// TestGather checks that requests whose callers do not wait any longer are not sent.
func TestGather(t *testing.T) {
	f := newForwarder(nil, time.Second)
	var requests []*request
	for i := range 5 {
		r := &request{command: []any{i}}
		r.taken.Store(i%2 == 0)
		requests = append(requests, r)
	}
	for _, r := range requests[1:] {
		f.queue <- r
	}
	batch := f.gather(requests[0])
	if len(batch) != 2 || batch[0] != requests[1] || batch[1] != requests[3] {
		t.Errorf("the batch is %v, want the requests 1 and 3", batch)
	}
	for range maxBatch + 1 {
		f.queue <- &request{}
	}
	if n := len(f.gather(&request{})); n != maxBatch {
		t.Errorf("the batch has %d requests, want at most %d", n, maxBatch)
	}
}

// TestAsk_Busy checks that the number of requests that wait is bounded.
func TestAsk_Busy(t *testing.T) {
	f := newForwarder(newUpstream(nil, time.Second), time.Nanosecond)
	for range maxWaiting {
		if _, err := f.ask(t.Context(), nil); err != ErrTimeout {
			t.Fatalf("the error is %v, want ErrTimeout", err)
		}
	}
	if _, err := f.ask(t.Context(), nil); err != ErrBusy {
		t.Errorf("the error is %v, want ErrBusy", err)
	}
}

// TestExchange_Bounds checks that the number of pipelines is bounded, and that a draw without an answer is no outage.
func TestExchange_Bounds(t *testing.T) {
	rdb, unblock := blocked()
	defer unblock()
	u := newUpstream(rdb, time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range maxPipelines {
		if _, err := (conn{u}).Do(ctx, [][]string{{"CL.LEASE"}}); err != ErrTimeout {
			t.Errorf("the error is %v, want ErrTimeout", err)
		}
	}
	if u.down.Load() {
		t.Error("the server counts as away because of draws, want only because of requests")
	}
	if _, err := (conn{u}).Do(ctx, [][]string{{"CL.LEASE"}}); err != ErrBusy {
		t.Errorf("the error is %v, want ErrBusy", err)
	}
	u.failed()
	if _, err := (conn{u}).Do(ctx, [][]string{{"CL.LEASE"}}); err != errNoReplies {
		t.Errorf("the error is %v, want no draw while the server is away", err)
	}
}

// TestReplies checks the decisions and errors for the replies of a server.
func TestReplies(t *testing.T) {
	five := []any{int64(1), int64(10), int64(0), int64(1500), int64(1 << 62)}
	for name, c := range map[string]struct {
		reply   any
		flagged bool
		err     error // of Allow, or the reason of the flagged decision
	}{
		"decision":      {reply: five},
		"no leader":     {replyError("LOADING no leader"), true, ErrAway},
		"overload":      {replyError("BUSY overload"), true, ErrBusy},
		"uncertain":     {replyError("UNCERTAIN leadership was lost"), true, ErrTimeout},
		"no permission": {replyError("NOPERM no permission"), false, ErrServer},
		"another type":  {"OK", false, ErrReply},
		"short":         {five[:4], false, ErrReply},
		"no integer":    {[]any{"1", "2", "3", "4", "5"}, false, ErrReply},
	} {
		client := connect(t, answer(func(cmds []redis.Cmder) {
			for _, cmd := range cmds {
				if err, failed := c.reply.(error); failed {
					cmd.SetErr(err)
				} else {
					cmd.(*redis.Cmd).SetVal(c.reply)
				}
			}
		}), Options{})
		d, err := client.Allow(t.Context(), "k", must(FixedWindow(10, time.Hour)))
		if d.Flagged {
			err = d.Err
		}
		if d.Flagged != c.flagged || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v, want flagged %t and %v", name, d, err, c.flagged, c.err)
		}
		if c.err == nil && (d.RetryAfter != 1500*time.Millisecond || d.ResetAfter < 1<<62) {
			t.Errorf("%s: the times are %v and %v, want 1.5 s and the longest", name, d.RetryAfter, d.ResetAfter)
		}
	}
}
