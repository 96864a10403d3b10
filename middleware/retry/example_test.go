package retry_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/throttledhq/throttled/middleware/retry"
)

func ExampleTransport() {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests < 3 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()

	client := &http.Client{Transport: &retry.Transport{FirstDelay: time.Millisecond}}
	response, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	fmt.Println(response.StatusCode, "after", requests, "requests")
	// Output: 200 after 3 requests
}
