package middleware

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/middleware/internal/testserver"
)

// TestFailure_PausedServer checks that a paused server delays requests by Config.Timeout only, although the timeouts of the
// client are longer than the test may take, and that the breaker opens and closes.
func TestFailure_PausedServer(t *testing.T) {
	srv := testserver.Start(t, program, "")
	changes := make(chan bool, 100)
	l := New(connect(t, srv.Addr, 3), Config{
		Timeout: 200 * time.Millisecond, Failures: 3, Cooldown: 50 * time.Millisecond, OnFailure: Closed,
		OnBreaker: func(open bool) { changes <- open },
	})
	r := keyed("paused", PerHour(1000_000))
	eventually(t, func() bool { return allow(t, l, r).Source == FromServer })
	for len(changes) > 0 {
		<-changes
	}

	srv.Pause(t)
	began := time.Now()
	for range 3 {
		if d := allow(t, l, r); d.Admitted || !errors.Is(d.Err, ErrTimeout) {
			t.Errorf("paused: %+v", d)
		}
	}
	if took := time.Since(began); took < 3*200*time.Millisecond || took > patience/2 {
		t.Errorf("three requests took %v", took)
	}
	if !await(t, changes) || l.Stats().Pending == 0 {
		t.Errorf("the breaker is not open: %+v", l.Stats())
	}

	srv.Resume(t)
	eventually(t, func() bool {
		d := allow(t, l, r)
		return d.Admitted && d.Err == nil
	})
	eventually(t, func() bool { return !l.Stats().BreakerOpen && l.Stats().Pending == 0 })
}

// TestFailure_KilledServer checks that requests are decided by the policy while the server is down, and by the server when it
// runs again.
func TestFailure_KilledServer(t *testing.T) {
	srv := testserver.Start(t, program, "")
	port := srv.Port(t)
	l := New(connect(t, srv.Addr, 3), Config{
		Timeout: time.Second, Failures: 2, Cooldown: 20 * time.Millisecond, OnFailure: Local, Share: 0.5,
	})
	r := keyed("killed", PerHour(4))
	eventually(t, func() bool { return allow(t, l, r).Source == FromServer })

	srv.Kill(t)
	var admitted int
	for range 10 {
		d := allow(t, l, keyed("local", PerHour(4)))
		if d.Source != FromPolicy || d.Err == nil || d.Limit != 2 {
			t.Errorf("without a server: %+v", d)
		}
		if d.Admitted {
			admitted++
		}
	}
	if admitted != 2 {
		t.Errorf("%d requests were admitted, want half of the limit", admitted)
	}
	eventually(t, func() bool {
		allow(t, l, r)
		return l.Stats().BreakerOpen
	})

	testserver.StartAt(t, program, "", port)
	eventually(t, func() bool { return allow(t, l, r).Source == FromServer })
	if l.Stats().BreakerOpen {
		t.Error("the breaker is open after a decision of the server")
	}
}

// eventually repeats f until it returns true.
func eventually(t *testing.T, f func() bool) {
	t.Helper()
	timeout := time.After(patience)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !f() {
		select {
		case <-again.C:
		case <-timeout:
			t.Fatalf("no success after %v", patience)
		}
	}
}

func await[T any](t *testing.T, c <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-c:
	case <-time.After(patience):
		t.Fatalf("nothing received after %v", patience)
	}
	return value
}

func TestFailure_Policies(t *testing.T) {
	down := &fake{reply: func(context.Context, []any) (any, error) { return nil, net.ErrClosed }}
	limited := keyed("k", PerMinute(1))
	for _, c := range []struct {
		name     string
		cfg      Config
		request  Request
		admitted []bool
	}{
		{"open is the default", Config{}, limited, []bool{true, true}},
		{"closed", Config{OnFailure: Closed}, limited, []bool{false, false}},
		{"local", Config{OnFailure: Local}, limited, []bool{true, false}},
		{"local with a domain", Config{OnFailure: Local}, Request{Domain: "d", Limits: limited.Limits}, []bool{true, false}},
		{"local without limits", Config{OnFailure: Local}, Request{Domain: "d"}, []bool{true, true}},
		{"exempt", Config{OnFailure: Closed}, Request{}, []bool{true, true}},
	} {
		l := New(down, c.cfg)
		for i, admitted := range c.admitted {
			if d := allow(t, l, c.request); d.Admitted != admitted || (d.Err == nil) != c.request.isExempt() {
				t.Errorf("%s: request %d: %+v", c.name, i, d)
			}
		}
	}
}

func TestFailure_TooManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		client := &fake{reply: func(context.Context, []any) (any, error) {
			<-release
			return reply(0, 1, 0, -1, 1), nil
		}}
		l := New(client, Config{MaxCalls: 2, Failures: 3})
		for range 2 {
			if d := allow(t, l, keyed("k", PerMinute(1))); !errors.Is(d.Err, ErrTimeout) || !d.Admitted {
				t.Errorf("call: %+v", d)
			}
		}
		began := time.Now()
		if d := allow(t, l, keyed("k", PerMinute(1))); !errors.Is(d.Err, ErrTooManyCalls) || time.Since(began) != 0 {
			t.Errorf("third call: %+v", d)
		}
		if l.Stats().BreakerOpen {
			t.Error("a burst of requests has opened the breaker")
		}
		close(release)
		synctest.Wait()
		if d := allow(t, l, keyed("k", PerMinute(1))); d.Err != nil {
			t.Errorf("after the calls have returned: %+v", d)
		}
		if s := l.Stats(); s.Timeouts != 2 || s.Failures != 3 || s.Admitted != 1 || s.Pending != 0 {
			t.Errorf("stats: %+v", s)
		}
	})
}

// TestFailure_LateReply checks that a call is not canceled when its time is over, because this would close a connection.
func TestFailure_LateReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		canceled := make(chan error, 1)
		client := &fake{reply: func(ctx context.Context, _ []any) (any, error) {
			time.Sleep(time.Second) // virtual time
			canceled <- ctx.Err()
			return nil, nil
		}}
		began := time.Now()
		d := allow(t, New(client, Config{}), keyed("k", PerMinute(1)))
		if took := time.Since(began); took != 20*time.Millisecond || !errors.Is(d.Err, ErrTimeout) {
			t.Errorf("after %v: %+v", took, d)
		}
		if err := <-canceled; err != nil {
			t.Errorf("the call was canceled: %v", err)
		}
	})
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up bool
		client := &fake{reply: func(context.Context, []any) (any, error) {
			if up {
				return reply(0, 1, 0, -1, 1), nil
			}
			return nil, net.ErrClosed
		}}
		var changes []bool
		l := New(client, Config{Failures: 3, Cooldown: time.Second, OnBreaker: func(open bool) { changes = append(changes, open) }})
		ask := func() error { return allow(t, l, keyed("k", PerMinute(1))).Err }

		for range 2 {
			_ = ask() // a failure
		}
		up = true
		if err := ask(); err != nil {
			t.Errorf("closed: %v", err)
		}
		up = false
		for i := range 3 { // the failures before the success do not count
			if err := ask(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("failure %d: %v", i, err)
			}
		}
		calls := client.count()
		for range 100 {
			if err := ask(); !errors.Is(err, ErrBreakerOpen) {
				t.Fatalf("open: %v", err)
			}
		}
		time.Sleep(499 * time.Millisecond) // virtual time
		if err := ask(); !errors.Is(err, ErrBreakerOpen) || client.count() != calls {
			t.Errorf("before the cooldown: %v", err)
		}
		time.Sleep(1001 * time.Millisecond) // virtual time: the cooldown
		if err := ask(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("probe: %v", err)
		}
		if err := ask(); !errors.Is(err, ErrBreakerOpen) || client.count() != calls+1 {
			t.Errorf("after a failed probe: %v", err)
		}
		up = true
		time.Sleep(1500 * time.Millisecond) // virtual time: the cooldown after a failed probe
		for range 5 {
			if err := ask(); err != nil {
				t.Errorf("after a successful probe: %v", err)
			}
		}
		if len(changes) != 2 || !changes[0] || changes[1] {
			t.Errorf("changes: %v", changes)
		}
	})
}

// TestBreaker_OneProbe checks that only one of many concurrent requests is a probe, and that an abandoned probe permits
// another one.
func TestBreaker_OneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &fake{reply: func(context.Context, []any) (any, error) {
			time.Sleep(10 * time.Millisecond) // virtual time
			return nil, net.ErrClosed
		}}
		l := New(client, Config{Failures: 1})
		allow(t, l, keyed("k", PerMinute(1)))
		time.Sleep(2 * time.Second) // virtual time: the cooldown

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := l.Allow(ctx, keyed("k", PerMinute(1))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("abandoned probe: %v", err)
		}
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() { allow(t, l, keyed("k", PerMinute(1))) })
		}
		group.Wait()
		if n := client.count(); n != 3 {
			t.Errorf("%d calls, want 1 before the breaker opened, 1 abandoned probe and 1 other", n)
		}
	})
}

// TestBreaker_LateResults checks that results of calls that began before the breaker opened do not affect it.
func TestBreaker_LateResults(t *testing.T) {
	b := breaker{failures: 1, cooldown: time.Hour, changed: func(bool) {}}
	first, _ := b.begin()
	second, _ := b.begin()
	b.end(first, failed)
	b.end(second, succeeded)
	if !b.isOpen() {
		t.Error("a result of an earlier epoch has closed the breaker")
	}
}
