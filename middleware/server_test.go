package middleware

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/middleware/internal/testserver"
)

const shopRules = `
version: 1
domain: shop
limits:
  api:
    per: ip
    allow: [3 per minute, 100 per day]
  login:
    when: {path: /login}
    per: ip
    allow: 5 per 15m
    charge: {status: 401}
  queue:
    when: {path: /queue}
    per: ip
    algorithm: leaky
    allow: 1000 per second
  trial:
    when: {path: /login}
    per: ip
    shadow: true
    allow: none
---
version: 1
domain: other
limits:
  export:
    when: {path: /export}
    allow: 1 per second
`

func TestAllow_RulesOfTheServer(t *testing.T) {
	srv := testserver.Start(t, program, shopRules)
	for protocol := 2; protocol <= 3; protocol++ {
		l := New(connect(t, srv.Addr, protocol), patient())
		ip := []string{"", "", "192.0.2.2", "192.0.2.3"}[protocol]
		r := Request{Domain: "shop", Attributes: []Attribute{{"path", "/login"}, {"ip", ip}, {"PEEK", "x"}}}
		for i := range int64(3) {
			d := allow(t, l, r)
			if !d.Admitted || d.Err != nil || d.Source != FromServer || d.Name != "api" || d.Limit != 3 || d.Remaining != 2-i {
				t.Errorf("RESP%d: request %d: %+v", protocol, i, d)
			}
		}
		d := allow(t, l, r)
		if d.Admitted || d.Name != "api" || d.RetryAfter <= 0 || d.RetryAfter > 20*time.Second || d.ResetAfter > time.Minute {
			t.Errorf("RESP%d: refused: %+v", protocol, d)
		}
		if len(d.Limits) != 4 || d.Limits[0].Period != time.Minute || d.Limits[1].Period != 24*time.Hour || d.Limits[2].Name != "login" {
			t.Errorf("RESP%d: limits: %+v", protocol, d.Limits)
		}
		if !d.mustReport() || !slices.Equal(d.Limits[3].Flags, []string{"shadow"}) || !slices.Equal(d.violatedPolicies(), []string{"api"}) {
			t.Errorf("RESP%d: flags: %+v", protocol, d)
		}
		if d := allow(t, l, Request{Domain: "other"}); !d.Admitted || d.Limit != math.MaxInt64 || !slices.Contains(d.Flags, "unmatched") {
			t.Errorf("RESP%d: without attributes: %+v", protocol, d)
		}
	}
}

func TestAllow_DelayOfALeakyBucket(t *testing.T) {
	srv := testserver.Start(t, program, strings.Replace(shopRules, "1000 per second", "2 per hour", 1))
	l := New(connect(t, srv.Addr, 3), patient())
	r := Request{Domain: "shop", Attributes: []Attribute{{"path", "/queue"}, {"ip", "192.0.2.1"}}}
	if d := allow(t, l, r); !d.Admitted || d.Delay != 0 {
		t.Errorf("first: %+v", d)
	}
	if d := allow(t, l, r); !d.Admitted || d.Delay < 29*time.Minute || d.Delay > 30*time.Minute {
		t.Errorf("second: %+v", d)
	}
	if d := allow(t, l, r); d.Admitted || d.Delay != 0 {
		t.Errorf("third: %+v", d)
	}
}

func TestAllow_LimitsOfTheProgram(t *testing.T) {
	srv := testserver.Start(t, program, "")
	for _, c := range []struct {
		name      string
		limits    []Limit
		remaining []int64 // of the admitted requests
		deciding  string
	}{
		{"gcra", []Limit{{Name: "a", Count: 2, Period: time.Hour}}, []int64{1, 0}, "a"},
		{"burst", []Limit{{Count: 1, Period: time.Hour, Burst: 3}}, []int64{2, 1, 0}, "default"},
		{"sliding", []Limit{{Count: 2, Period: time.Hour, Algorithm: Sliding}}, []int64{1, 0}, "default"},
		{"fixed", []Limit{{Count: 2, Period: 100 * 24 * time.Hour, Algorithm: Fixed}}, []int64{1, 0}, "default"},
		{"log", []Limit{{Count: 1, Period: time.Hour, Algorithm: Log}}, []int64{0}, "default"},
		{"two", []Limit{{Name: "hour", Count: 9, Period: time.Hour}, {Name: "day", Count: 1, Period: 24 * time.Hour}}, []int64{0}, "day"},
	} {
		for protocol := 2; protocol <= 3; protocol++ {
			l := New(connect(t, srv.Addr, protocol), patient())
			r := Request{Limits: slices.Clone(c.limits)}
			for i := range r.Limits {
				r.Limits[i].Key = c.name + string(rune('0'+protocol)) + r.Limits[i].Name
			}
			for i, remaining := range c.remaining {
				d := allow(t, l, r)
				if !d.Admitted || d.Err != nil || d.Remaining != remaining || d.Name != c.deciding || len(d.Limits) != len(r.Limits) {
					t.Errorf("%s, RESP%d: request %d: %+v", c.name, protocol, i, d)
				}
			}
			if d := allow(t, l, r); d.Admitted || d.RetryAfter <= 0 || d.Name != c.deciding || d.Source != FromServer {
				t.Errorf("%s, RESP%d: refused: %+v", c.name, protocol, d)
			}
			r.Cost = 1000
			if d := allow(t, l, r); d.Admitted || d.RetryAfter >= 0 {
				t.Errorf("%s, RESP%d: cost 1000: %+v", c.name, protocol, d)
			}
		}
	}
}

func TestAllow_ErrorsOfTheServer(t *testing.T) {
	srv := testserver.Start(t, program, shopRules)
	var reasons []error
	cfg := patient()
	cfg.OnFailure, cfg.Failures = Closed, 1
	cfg.OnError = func(err error) { reasons = append(reasons, err) }
	l := New(connect(t, srv.Addr, 3), cfg)
	d := allow(t, l, Request{Domain: "shap"})
	var replied redis.Error
	if d.Admitted || d.Source != FromPolicy || !errors.As(d.Err, &replied) || !strings.Contains(d.Err.Error(), "did you mean shop?") {
		t.Errorf("unknown domain: %+v", d)
	}
	if d := allow(t, l, keyed("", PerMinute(1))); !errors.Is(d.Err, ErrInvalidLimit) {
		t.Errorf("limit without a key: %+v", d)
	}
	if s := l.Stats(); s.BreakerOpen || s.Failures != 2 || len(reasons) != 2 {
		t.Errorf("stats: %+v, reasons: %v", s, reasons)
	}
}

func TestAllow_CanceledByTheCaller(t *testing.T) {
	release := make(chan struct{})
	client := &fake{reply: func(ctx context.Context, _ []any) (any, error) {
		<-release
		return reply(0, 1, 0, -1, 1), ctx.Err()
	}}
	cfg := patient()
	cfg.Failures = 1
	l := New(client, cfg)
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("disconnected")
	cancel(reason)
	if _, err := l.Allow(ctx, keyed("k", PerMinute(1))); !errors.Is(err, reason) {
		t.Errorf("got %v, want the cause of the context", err)
	}
	close(release)
	if s := l.Stats(); s.BreakerOpen || s.Failures != 0 {
		t.Errorf("stats: %+v", s)
	}
}

func TestReport_ChargesByStatus(t *testing.T) {
	srv := testserver.Start(t, program, shopRules)
	l := New(connect(t, srv.Addr, 3), patient())
	r := Request{Domain: "shop", Attributes: []Attribute{{"path", "/login"}, {"ip", "192.0.2.9"}}}
	remaining := func() int64 {
		d := allow(t, l, r)
		return d.Limits[slices.IndexFunc(d.Limits, func(s LimitState) bool { return s.Name == "login" })].Remaining
	}
	before := remaining()
	for _, status := range []int{200, 401} {
		if err := l.Report(t.Context(), r, status); err != nil {
			t.Fatal(err)
		}
	}
	if after := remaining(); after != before-1 {
		t.Errorf("remaining: %d, want %d", after, before-1)
	}
	if err := l.Report(t.Context(), Request{Domain: "shap"}, 200); err == nil {
		t.Error("no error for an unknown domain")
	}
}

func TestParse_UnexpectedReplies(t *testing.T) {
	domain, limits := Request{Domain: "d"}, keyed("k", PerMinute(1))
	for _, c := range []struct {
		request Request
		reply   any
	}{
		{domain, nil}, {domain, "OK"}, {domain, []any{}}, {domain, map[any]any{"limited": int64(0)}},
		{domain, []any{int64(0), int64(1), int64(1), int64(1), "x", "", []any{}, []any{}, int64(1)}},
		{domain, []any{int64(0), int64(1), int64(1), int64(1), int64(1), "", []any{}, []any{int64(1)}, int64(1)}},
		{domain, []any{int64(0), int64(1), int64(1), int64(1), int64(1), "", []any{}, []any{[]any{"", "", 1, 2, 3, 4, 5, 6}}, int64(1)}},
		{limits, nil}, {limits, []any{int64(0), int64(1), int64(1), int64(1), int64(1)}},
		{limits, []any{int64(0), int64(1), int64(1), int64(1), int64(1), "x"}},
		{limits, []any{"0", int64(1), int64(1), int64(1), int64(1), []any{}}},
	} {
		if d, err := c.request.parse(c.reply); !errors.Is(err, errReply) {
			t.Errorf("%v: got %+v, %v", c.reply, d, err)
		}
	}
}

func TestParseWindow(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"250ms": 250 * time.Millisecond, "1s": time.Second, "15m": 15 * time.Minute, "2h": 2 * time.Hour, "1d": 24 * time.Hour,
		"1w": 7 * 24 * time.Hour, "1mo": 0, "0s": 0, "1": 0, "s": 0, "-1s": 0, "unlimited": 0, "none": 0, "": 0, "9999999999999d": 0, "99999999999999999999s": 0,
	} {
		if got := parseWindow(text); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
		if want != 0 && windowName(want) != text {
			t.Errorf("%v: got %s, want %s", want, windowName(want), text)
		}
	}
}
