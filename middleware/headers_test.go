package middleware

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestWriteHeaders(t *testing.T) {
	api := State{Name: "api", Admitted: true, Limit: 10, Remaining: 7, RetryAfter: -1, ResetAfter: 17500 * time.Millisecond}
	day := State{Name: "api", Admitted: true, Limit: 500, Remaining: 497, RetryAfter: -1, ResetAfter: time.Hour}
	refused := State{Name: "lo\"gin", Limit: 5, Remaining: 0, RetryAfter: 1100 * time.Millisecond, ResetAfter: time.Minute}
	never := State{Name: "login", Limit: 5, Remaining: 5, RetryAfter: -1}
	huge := State{Name: "huge", Admitted: true, Limit: math.MaxInt64 - 1, Remaining: math.MaxInt64 - 1, RetryAfter: -1}
	for _, c := range []struct {
		name     string
		d        Decision
		dialects Headers
		want     map[string]string
	}{
		{"admitted", Decision{State: api, Limits: []LimitState{{State: api, Period: time.Minute}}}, 0, map[string]string{
			"Ratelimit-Policy": `"api";q=10;w=60`, "Ratelimit": `"api";r=7;t=18`,
			"X-Ratelimit-Limit": "10", "X-Ratelimit-Remaining": "7", "X-Ratelimit-Reset": "18"}},
		{"several amounts, a shadow limit and an unlimited one",
			Decision{State: day, Limits: []LimitState{{State: api, Window: "1m", Period: time.Minute}, {State: day, Window: "1d", Period: 24 * time.Hour},
				{State: refused, Flags: []string{"shadow"}}, {State: unlimited}}}, RateLimit, map[string]string{
				"Ratelimit-Policy": `"api";q=10;w=60, "api:1d";q=500;w=86400`, "Ratelimit": `"api:1d";r=497;t=3600`}},
		{"refused", Decision{State: refused, Limits: []LimitState{{State: refused}}}, XRateLimit | RateLimit, map[string]string{
			"Ratelimit-Policy": `"lo\"gin";q=5`, "Ratelimit": `"lo\"gin";r=0;t=2`, "Retry-After": "2",
			"X-Ratelimit-Limit": "5", "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "60"}},
		{"no headers", Decision{State: refused, Limits: []LimitState{{State: refused}}}, NoHeaders, map[string]string{"Retry-After": "2"}},
		{"never", Decision{State: never, Limits: []LimitState{{State: never}}}, XRateLimit, map[string]string{
			"X-Ratelimit-Limit": "5", "X-Ratelimit-Remaining": "5", "X-Ratelimit-Reset": "0"}},
		{"default of a domain", Decision{State: State{Admitted: true, Limit: 1, RetryAfter: -1, ResetAfter: 1},
			Limits: []LimitState{{State: State{Admitted: true, Limit: 1, RetryAfter: -1, ResetAfter: 1}}}}, RateLimit, map[string]string{
			"Ratelimit-Policy": `"default";q=1`, "Ratelimit": `"default";r=0;t=1`}},
		{"integers of 15 digits", Decision{State: huge, Limits: []LimitState{{State: huge}}}, RateLimit, map[string]string{
			"Ratelimit-Policy": `"huge";q=999999999999999`, "Ratelimit": `"huge";r=999999999999999`}},
		{"closed by the server", Decision{State: never, Flags: []string{"failclosed"}, Limits: []LimitState{{State: never}}}, 0, map[string]string{}},
		{"no limit", Decision{State: unlimited}, 0, map[string]string{}},
		{"open", Decision{State: unlimited, Source: FromPolicy, Err: ErrTimeout}, 0, map[string]string{}},
		{"closed", Decision{State: State{RetryAfter: time.Second}, Source: FromPolicy, Err: ErrTimeout}, 0, map[string]string{"Retry-After": "1"}},
	} {
		header := http.Header{}
		c.d.WriteHeaders(header, c.dialects)
		got := map[string]string{}
		for name := range header {
			got[name] = header.Get(name)
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWriteHeaders_Epoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the virtual time begins at a whole second
		s := State{Admitted: true, Limit: 5, Remaining: 4, ResetAfter: 1100 * time.Millisecond}
		header := http.Header{}
		(&Decision{State: s, Limits: []LimitState{{State: s}}}).WriteHeaders(header, XRateLimitEpoch)
		if got, want := header.Get("X-RateLimit-Reset"), strconv.FormatInt(time.Now().Unix()+2, 10); got != want || len(header) != 3 {
			t.Errorf("got %s, want %s; %q", got, want, header)
		}
	})
}

func TestSFString(t *testing.T) {
	if got := sfString("a\\b\"c\nä"); got != `"a\\b\"c%0A%C3%A4"` {
		t.Errorf("got %s", got)
	}
}

func TestWriteProblem(t *testing.T) {
	refused := State{Name: "login", Limit: 5, RetryAfter: 1100 * time.Millisecond}
	never := State{Name: "login", Limit: 5, RetryAfter: -1}
	failClosed := State{Name: "login", RetryAfter: time.Second}
	for _, c := range []struct {
		name     string
		d        Decision
		status   int
		error    string
		after    int64 // 0: none
		violated []string
	}{
		{"refused", Decision{State: refused, Limits: []LimitState{{State: refused}, {State: unlimited}}}, 429, "rate_limited", 2, []string{"login"}},
		{"never", Decision{State: never, Limits: []LimitState{{State: never}}}, 429, "rate_limited", 0, []string{"login"}},
		{"full queue", Decision{}, 429, "rate_limited", 1, nil},
		{"closed", Decision{State: State{RetryAfter: time.Second}, Err: ErrTimeout}, 503, "unavailable", 1, nil},
		{"closed by the server", Decision{State: failClosed, Flags: []string{"failclosed"}, Limits: []LimitState{{State: failClosed, Flags: []string{"failclosed"}}}},
			503, "unavailable", 1, []string{"login"}},
		{"banned", Decision{State: refused, Flags: []string{"banned"}, Limits: []LimitState{{State: refused}}}, 429, "banned", 2, []string{"login"}},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Length", "7")
		WriteProblem(w, c.d)
		var p problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if w.Code != c.status || p.Status != c.status || p.Error != c.error || p.RetryAfter != c.after || !slices.Equal(p.Violated, c.violated) {
			t.Errorf("%s: %d %+v", c.name, w.Code, p)
		}
		if p.Type == "" || p.Title == "" || p.Message == "" || w.Header().Get("Content-Type") != "application/problem+json" ||
			w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Content-Length") != "" {
			t.Errorf("%s: %q %s", c.name, w.Header(), w.Body)
		}
	}
}
