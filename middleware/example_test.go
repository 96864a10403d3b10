package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/middleware"
)

// newClient returns a client of the server of the examples.
func newClient() *redis.Client { return redis.NewClient(&redis.Options{Addr: middleware.ExampleAddr}) }

// patience is the timeout of checks in the examples, which may run on a busy machine.
const patience = time.Minute

// The rules of the server limit each client address to 2 requests per minute.
func ExampleLimiter_Handler() {
	client := newClient()
	defer func() { _ = client.Close() }()
	limiter := middleware.New(client, middleware.Config{Timeout: patience})
	rules := middleware.Rules{
		Domain:     "shop",
		Proxies:    middleware.Proxies{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		Attributes: []func(*http.Request) middleware.Attribute{middleware.Header("api_key", "X-Api-Key")},
	}
	handler := limiter.Handler(rules.Request)(http.NotFoundHandler())

	for range 3 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.1:4711" // the proxy
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 404 "api";q=2;w=60 1
	// 404 "api";q=2;w=60 0
	// 429 "api";q=2;w=60 0
}

// Each address may send 100 requests per minute, and each API key 2 of them.
func ExamplePerIP() {
	client := newClient()
	defer func() { _ = client.Close() }()
	limiter := middleware.New(client, middleware.Config{Timeout: patience, OnFailure: middleware.Local, Share: 0.5})
	limits := middleware.PerIP(middleware.Proxies{}, middleware.PerMinute(100)).
		PerHeader("X-Api-Key", middleware.Limit{Name: "key", Count: 2, Period: time.Minute})
	handler := limiter.Handler(limits.Request)(http.NotFoundHandler())

	for range 3 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Api-Key", "k1")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 404 1
	// 404 0
	// 429 0
}

// Wait delays the requests to a service that admits 100 requests per second.
func ExampleLimiter_Wait() {
	client := newClient()
	defer func() { _ = client.Close() }()
	limiter := middleware.New(client, middleware.Config{Timeout: patience})
	request := middleware.Request{Limits: []middleware.Limit{
		{Key: "mail-service", Count: 100, Period: time.Second, Burst: 1},
	}}
	began := time.Now()
	for range 4 {
		if _, err := limiter.Wait(context.Background(), request); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("at least 30 ms:", time.Since(began) >= 30*time.Millisecond)
	// Output: at least 30 ms: true
}
