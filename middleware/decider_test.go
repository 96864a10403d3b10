package middleware

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// decider is a Decider that admits requests of up to 2 units of the keys "k" and "l", and has no decision on other keys.
type decider struct{ limits []Limit }

var errUndecided = errors.New("undecided")

func (d *decider) Decide(ctx context.Context, limits []Limit, cost int64) (states []State, err error) {
	d.limits = append(d.limits, limits...)
	for _, limit := range limits {
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case limit.Key == "short":
			return states, nil
		case limit.Key != "k" && limit.Key != "l":
			return nil, errUndecided
		}
		state := State{Admitted: cost <= limit.Count, Limit: limit.Count, RetryAfter: -1}
		if state.Admitted {
			state.Remaining = limit.Count - cost
		}
		states = append(states, state)
	}
	return states, nil
}

// TestDecider checks which requests the Decider decides, and that the server decides the others.
func TestDecider(t *testing.T) {
	one, two, other, short := PerHour(2), PerHour(3), PerHour(1), PerHour(1)
	one.Key, two.Key, other.Key, short.Key = "k", "l", "other", "short"
	for name, c := range map[string]struct {
		request  Request
		source   Source
		admitted bool
		calls    int // of the server
	}{
		"admitted":       {Request{Limits: []Limit{one}}, FromDecider, true, 0},
		"refused":        {Request{Limits: []Limit{one}, Cost: 3}, FromDecider, false, 0},
		"no decision":    {Request{Limits: []Limit{other}}, FromPolicy, true, 0},
		"invalid limit":  {Request{Limits: []Limit{{Key: "k"}}}, FromPolicy, true, 0},
		"refund":         {Request{Limits: []Limit{one}, Cost: -1}, FromServer, true, 1},
		"several limits": {Request{Limits: []Limit{two, one}}, FromDecider, true, 0},
		"one refuses":    {Request{Limits: []Limit{two, one}, Cost: 3}, FromDecider, false, 0},
		"no state":       {Request{Limits: []Limit{one, short}}, FromPolicy, true, 0},
		"exempt":         {Request{}, FromExemption, true, 0},
	} {
		server := &fake{reply: func(context.Context, []any) (any, error) { return reply(0, 2, 1, -1, 10), nil }}
		l := New(server, Config{Decider: &decider{}, Timeout: patience})
		d := allow(t, l, c.request)
		if d.Source != c.source || d.Admitted != c.admitted || server.count() != c.calls {
			t.Errorf("%s: %+v with %d calls of the server, want source %d and %d calls", name, d, server.count(), c.source, c.calls)
		}
		if d.Source == FromDecider && (d.Name != "default" || d.Limit != 2 || len(d.Limits) != len(c.request.Limits) || d.Limits[len(d.Limits)-1].Period != time.Hour || d.Limits[len(d.Limits)-1].State != d.State) {
			t.Errorf("%s: the decision is %+v, want that of the last limit", name, d)
		}
		if name == "no decision" && !errors.Is(d.Err, errUndecided) {
			t.Errorf("%s: the reason is %v, want that of the decider", name, d.Err)
		}
	}
}

// TestDecider_Canceled checks that a canceled request is not decided by the policy.
func TestDecider_Canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := New(&fake{}, Config{Decider: &decider{}})
	if d, err := l.Allow(ctx, keyed("k", PerHour(2))); !errors.Is(err, context.Canceled) || d.Admitted {
		t.Errorf("got %+v, %v, want context.Canceled", d, err)
	}
}

// TestDecider_HTTP checks that limits of HTTP requests reach the Decider with their keys.
func TestDecider_HTTP(t *testing.T) {
	var d decider
	handler := New(&fake{}, Config{Decider: &d, OnFailure: Closed}).Handler(PerIP(Proxies{}, PerHour(2)).Request)(http.NotFoundHandler())
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "192.0.2.1:4711"
	handler.ServeHTTP(w, r)
	want := PerHour(2).WithKey("http", "ip", "192.0.2.1")
	if w.Code != http.StatusServiceUnavailable || len(d.limits) != 1 || d.limits[0] != want {
		t.Errorf("the status is %d and the limits are %+v, want 503 and %+v", w.Code, d.limits, want)
	}
}
