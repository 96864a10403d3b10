package decider_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/client"
	"github.com/throttledhq/throttled/client/decider"
	"github.com/throttledhq/throttled/middleware"
)

// Each client address may send 2 requests per hour. The addresses that send many requests are decided in the process.
func ExampleNew() {
	rdb := redis.NewClient(&redis.Options{Addr: decider.ExampleAddr})
	defer func() { _ = rdb.Close() }()
	c, err := client.New(rdb, client.Options{Timeout: time.Minute}) // long, because the machine may be busy
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	limiter := middleware.New(rdb, middleware.Config{Decider: decider.New(c), OnFailure: middleware.Local})
	limits := middleware.PerIP(middleware.Proxies{}, middleware.PerHour(2))
	handler := limiter.Handler(limits.Request)(http.NotFoundHandler())

	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 404 1
	// 404 0
	// 429 0
}
